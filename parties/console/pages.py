"""Templates to HTML. Every value is escaped by the template engine; nothing here is marked as safe."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from parties.console.sessions import IDLE, Session
from parties.home.state import State
from parties.roles.facts import Content
from protocols.approval import Role

FOLDER = Path(__file__).parent
PLACES = (
    ("/requests", "Requests"),
    ("/runs", "Runs"),
    ("/blocks", "Blocks"),
    ("/models", "Models"),
    ("/log", "Audit log"),
    ("/policy", "Policy"),
)


def grouped(contents: Iterable[Content]) -> list[tuple[str, list[Content]]]:
    """Facts of the same kind that stand together, with the name of their kind: a table or list each."""
    return [(kind, list(each)) for kind, each in groupby(contents, key=lambda c: type(c).__name__)]


def utc(now: datetime) -> str:
    """A moment for a reader, with its zone."""
    return now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(text: str) -> str:
    """A stored time (ISO 8601, as in ledger and log) with its zone in words; any other text as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if moment.tzinfo is None else utc(moment)


class Pages:
    """The console's templates for one party."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["grouped"] = grouped
        self._environment.filters["when"] = when

    def html(
        self,
        template: str,
        session: Session | None,
        now: datetime,
        values: Mapping[str, object] | None = None,
        *,
        status: int = 200,
    ) -> HTMLResponse:
        """The page; with a session it has the way to the other pages and shows the session's notice, once."""
        notice = ""
        if session is not None:
            notice, session.notice = session.notice, ""
        text = self._environment.get_template(template).render(
            party=self._state.name,
            organisation=self._state.organisation,
            places=PLACES,
            person=session.signer.person if session else None,
            decides=session is not None and session.signer.person.role in set(Role),
            csrf=session.csrf if session else "",
            notice=notice,
            now=utc(now),
            idle_minutes=int(IDLE // 60),
            **(values or {}),
        )
        return HTMLResponse(text, status_code=status)


def style() -> str:
    """The one style sheet."""
    return (FOLDER / "style.css").read_text(encoding="utf-8")
