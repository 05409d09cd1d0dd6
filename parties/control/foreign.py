"""Code that somebody submitted and that isn't our shim: kept to be looked at, never run, not approvable through us."""

from collections.abc import Iterable
from dataclasses import dataclass

from parties.home.journal import Actor, Journal, one_line
from parties.syft_side.foreign_code import LONGEST, visible
from protocols.audit import AuditEvent
from protocols.errors import RequestError

KEPT = 100  # shown to the owner since the start of the supervisor; all are in the audit log


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCode:
    """One submission: what it calls itself, whose it is, why it isn't the shim, what stands out in it, its text."""

    number: int
    name: str
    caller: str
    email: str
    reasons: str
    warnings: tuple[str, ...]
    code: str

    def line(self) -> dict[str, object]:
        """The entry of a listing: all but the text."""
        return {
            "number": self.number,
            "name": self.name,
            "caller": self.caller,
            "email": self.email,
            "reasons": self.reasons,
            "warnings": list(self.warnings),
        }


class ForeignShelf:
    """The newest foreign submissions by number, counted from 1 since the supervisor's start."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last = 0
        self._kept: tuple[ForeignCode, ...] = ()

    def add(
        self,
        name: str,
        caller: str,
        email: str,
        reasons: Iterable[str],
        warnings: Iterable[str] = (),
        code: str = "",
    ) -> None:
        """Keeps a submission whose texts are made fit to be shown; the log has it as refused."""
        self._last += 1
        entry = ForeignCode(
            number=self._last,
            name=one_line(name, 80),
            caller=one_line(caller, 64),
            email=one_line(email, 200),
            reasons=one_line("; ".join(reasons), 2000),
            warnings=tuple(one_line(warning, 200) for warning in warnings),
            code=visible(code[:LONGEST]),
        )
        actor = Actor(who=entry.email or "nobody", role="analyst", organisation="unverified", origin="syft")
        error = RequestError(f"foreign code: {entry.reasons}")
        self._journal.refused(AuditEvent.SUBMITTED, actor, f"code {entry.name or 'without a name'}", error)
        self._kept = (*self._kept, entry)[-KEPT:]

    def listing(self) -> list[dict[str, object]]:
        """What came, oldest first, without its text."""
        return [entry.line() for entry in self._kept]

    def view(self, number: int, actor: Actor) -> dict[str, object]:
        """One submission with its text; reading is logged. RequestError when it isn't kept (any more)."""
        for entry in self._kept:
            if entry.number == number:
                self._journal.ok(AuditEvent.VIEWED, actor, f"code {entry.name or 'without a name'}")
                return entry.line() | {"code": entry.code}
        raise RequestError(
            f"there is no foreign code number {number} here",
            remedy=f"`fedaccord review list` shows the last {KEPT} since `fedaccord serve` started",
        )
