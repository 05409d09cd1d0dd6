"""The console's application for one party: which path is answered by which page, and how errors are shown."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from parties.console.entrance import HOME, Entrance, NotLoggedInError
from parties.console.log_views import LogViews
from parties.console.pages import style
from parties.console.security import Guard
from parties.console.views import Views
from parties.control.asking import Refusal
from protocols.errors import AuditError, FedaccordError

STATUS = {"form": 403, "approval": 403, "request": 404, "data_missing": 404, "model": 404, "state": 409}
"""HTTP status of an error by its code; 400 for all others."""


def console(entrance: Entrance, port: int) -> ASGIApp:
    """The application, behind its guard. It has no pages about itself (no schema, no documentation)."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, title="fedaccord console")
    _add_pages(app, entrance, Views(entrance=entrance), LogViews(entrance=entrance))
    for kind in (FedaccordError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _shown(entrance))
    return Guard(app, port)


def _add_pages(app: FastAPI, entrance: Entrance, views: Views, log: LogViews) -> None:
    get: dict[str, Callable[..., Response]] = {
        "/": lambda: RedirectResponse(HOME, status_code=303),
        "/style.css": lambda: Response(style(), media_type="text/css"),
        "/login": entrance.show_login,
        "/enter/{ticket}": entrance.show_ticket,
        "/requests": views.requests,
        "/requests/{digest}": views.request,
        "/foreign/{number}": views.foreign,
        "/runs": views.runs,
        "/blocks": views.blocks,
        "/blocks/{name}": views.block,
        "/models": views.models,
        "/models/{digest}": views.model,
        "/log": log.log,
        "/log/heads": log.heads,
        "/log/export": log.export_form,
        "/trace": log.trace,
        "/policy": views.policy,
    }
    post: dict[str, Callable[..., Response]] = {
        "/login": entrance.log_in,
        "/enter/{ticket}": entrance.use_ticket,
        "/logout": entrance.log_out,
        "/requests/{digest}/{decision}": views.decide,
        "/log/heads": log.compare,
        "/log/export": log.export,
    }
    for method, pages in (("GET", get), ("POST", post)):
        for path, page in pages.items():
            app.add_api_route(path, page, methods=[method], response_model=None)


def _shown(entrance: Entrance) -> Callable[[Request, Exception], Response]:
    """The page for an error: text and remedy of ours, the bare fact of all others; nothing of what was sent."""

    def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, NotLoggedInError):
            return RedirectResponse("/login?ended=1" if request.cookies else "/login", status_code=303)
        status, text, remedy = _told(error)
        try:
            session = entrance.session(request, touch=False)
        except FedaccordError:
            session = None
        values = {"here": "", "text": text, "remedy": remedy, "alarm": isinstance(error, AuditError)}
        return entrance.pages.html("error.html", session, entrance.now(), values, status=status)

    return answer


def _told(error: Exception) -> tuple[int, str, str]:
    if isinstance(error, FedaccordError):
        code = error.reason if isinstance(error, Refusal) else error.code
        return STATUS.get(code, 400), str(error), error.remedy
    if isinstance(error, HTTPException):
        return error.status_code, "there is no such page", ""
    if isinstance(error, RequestValidationError):
        return 404, "there is no such page", ""
    return 500, f"internal error ({type(error).__name__}), a fault of fedaccord's", ""
