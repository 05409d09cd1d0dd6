"""Requests that were refused when they were submitted: kept to be looked at, since nobody has to decide on them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from parties.home.journal import one_line
from protocols.errors import FedaccordError, PolicyError
from protocols.records import utc_text

KEPT = 100  # shown to the party's people since the start of the supervisor; all are in the audit log


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """One refusal: of which request ("" when it couldn't be read), whose, when, and what the analyst is told.

    `rule` is what forbade it, in our own words, and `code` its error's.
    """

    digest: str
    analyst: str
    email: str
    time: str
    code: str
    rule: str
    remedy: str

    def line(self) -> dict[str, object]:
        """The entry of a listing."""
        return {
            "digest": self.digest,
            "analyst": self.analyst,
            "email": self.email,
            "time": self.time,
            "refused": refusal_words(self.code, self.rule, self.remedy),
        }


def refusal_words(code: str, rule: str, remedy: str) -> str:
    """What is said of a refused request: a rule of the policy by its words and what to do, else the error's code."""
    if code != PolicyError.code:
        return f"refused ({code}): {rule}"
    return f"refused by policy: {rule}{'; ' + remedy if remedy else ''}"


class RefusedShelf:
    """The newest refused requests, oldest first."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: tuple[RefusedRequest, ...] = ()

    def add(self, digest: str, analyst: str, email: str, error: FedaccordError) -> None:
        """Keeps a refusal; its texts are made fit to be shown."""
        entry = RefusedRequest(
            digest=digest,
            analyst=one_line(analyst, 80),
            email=one_line(email, 200),
            time=utc_text(self._now()),
            code=error.code,
            rule=one_line(str(error), 1000),
            remedy=one_line(error.remedy, 200),
        )
        self._kept = (*self._kept, entry)[-KEPT:]

    def listing(self) -> list[dict[str, object]]:
        """What was refused, oldest first."""
        return [entry.line() for entry in self._kept]
