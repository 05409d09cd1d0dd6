"""What holds for every request and every answer of the console, whatever page it is for.

A browser runs pages of many origins, and any of them can send requests to 127.0.0.1. So a request is answered only
under the console's own name (a foreign page can point its own domain here), a form only from the console's own pages,
and every answer forbids scripts, framing, foreign content and storing.
"""

import hmac

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from protocols.errors import FedaccordError

BODY_LIMIT = 64 * 1024
"""Bytes of a form."""
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" browsers send a form's Origin as "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
METHODS = {"GET", "POST"}


class FormError(FedaccordError):
    """A form that didn't come from a page of this session."""

    code = "form"


def check_token(given: str, known: str) -> None:
    """FormError unless the form's token is the session's."""
    if not known or not hmac.compare_digest(given.encode(), known.encode()):
        raise FormError(
            "the form isn't one of this session, nothing was done", remedy="open the page again and repeat"
        )


class Guard:
    """An ASGI application around another one, which answers for `port` of this machine only."""

    def __init__(self, application: ASGIApp, port: int) -> None:
        self._application = application
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request: refused here, or handed on with its answer's headers set."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.decode() not in HEADERS]
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        if refusal:
            await _refuse(guarded, *refusal)
        else:
            await self._application(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and text for a request that no page may see; None when one may."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "the console answers at its own address only, as it was printed on the terminal"
        if scope["method"] not in METHODS:
            return 405, "the console takes GET and POST only"
        if scope["method"] != "POST":
            return None
        origins = headers.get("origin", [])
        if origins and origins != [f"http://{hosts[0].lower()}"]:
            return 403, "a form of another page was refused"
        if headers.get("sec-fetch-site", ["same-origin"]) not in (["same-origin"], ["none"]):
            return 403, "a form of another page was refused"
        lengths = headers.get("content-length", [])
        if len(lengths) != 1 or not lengths[0].isdecimal() or int(lengths[0][:12]) > BODY_LIMIT:
            return 413, f"a form has at most {BODY_LIMIT} bytes"
        return None


async def _refuse(send: Send, status: int, text: str) -> None:
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
