"""The analyst's side of a datasite: what is published, submitting the shim, calling it, and how the request stands.

`Datasite` is the contract; `parties.datasite.SyftDatasite` talks to a server and
`parties.syft_side.fake_datasite.FakeDatasite` keeps everything in memory. One test body runs over both.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from parties.syft_side.publication import Publication


class Standing(StrEnum):
    """How a submitted request stands in syft; the run's own state comes from calling `status`."""

    ABSENT = "absent"
    PENDING = "pending"
    DENIED = "denied"
    APPROVED = "approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The standing of a request and, after a denial, the reason that the party gave."""

    standing: Standing
    reason: str = ""


class Datasite(Protocol):
    """One party's datasite, logged in as an analyst. Every method raises DatasiteError when it can't be reached."""

    @property
    def name(self) -> str:
        """The datasite's own name."""

    def datasets(self) -> tuple[Publication, ...]:
        """The published blocks with schema, card and mock rows, by name."""

    def submit(self, signed: str) -> str:
        """Submits the shim for the signed request's text and gives back the request's digest.

        Submitting the same request again changes nothing; RequestError when the text isn't a signed request.
        """

    def decision(self, digest: str) -> Decision:
        """How the request of this digest stands here."""

    def call(self, digest: str, action: str, argument: str = "") -> dict[str, object]:
        """The answer of the approved shim, a plain dict with "ok"; a refusal has the typed "error" code.

        Before approval and after a denial the error is "not_approved" with "standing" and the "reason" of a denial.
        """


def not_approved(decision: Decision) -> dict[str, object]:
    """The answer to a call of a request that isn't approved."""
    answer: dict[str, object] = {"ok": False, "error": "not_approved", "standing": decision.standing.value}
    return answer | ({"reason": decision.reason} if decision.reason else {})
