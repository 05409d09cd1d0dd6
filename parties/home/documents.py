"""The papers of each request: the signed request, our people's decisions, our countersigned approval.

requests/DIGEST.json            the analyst's signed request, canonical text
approvals/DIGEST/0001.json ...  decisions of our own people, in the order in which they came
approvals/DIGEST/approval.json  our party's countersigned approval
"""

import re
from pathlib import Path

from parties.home.private_files import make_private_folder, write_private
from protocols.approval import (
    PartyApproval,
    PersonDecision,
    decision_text,
    parse_approvals,
    parse_decision,
)
from protocols.approval import to_text as approvals_text
from protocols.errors import RequestError, StateError
from protocols.request import SignedRequest, parse_signed, to_text
from protocols.request import digest as request_digest

DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def check_digest(digest: str) -> str:
    """The digest, when it has 64 hex digits and so can be part of a path; RequestError otherwise."""
    if not DIGEST.match(digest):
        raise RequestError("a request digest has 64 hex digits")
    return digest


class Documents:
    """Reading and writing of these papers; what was signed is verified again each time it is read."""

    def __init__(self, folder: Path) -> None:
        self._requests = folder / "requests"
        self._approvals = folder / "approvals"

    def save_request(self, signed: SignedRequest) -> str:
        """Keeps the signed request and gives back its digest."""
        digest = request_digest(signed.request)
        write_private(self._requests / f"{digest}.json", to_text(signed))
        return digest

    def signed_text(self, digest: str) -> str:
        """The signed request's text; RequestError when there is none."""
        path = self._requests / f"{check_digest(digest)}.json"
        if not path.exists():
            raise RequestError(f"request {digest[:12]} is not known here", remedy="submit it first")
        return path.read_text(encoding="utf-8")

    def request(self, digest: str) -> SignedRequest:
        """The signed request, its signature and digest verified again."""
        signed = parse_signed(self.signed_text(digest))
        if request_digest(signed.request) != digest:
            raise StateError(
                f"requests/{digest}.json holds another request", remedy="restore it from a backup"
            )
        return signed

    def add_decision(self, decision: PersonDecision) -> None:
        """Keeps one decision after those that are there."""
        folder = make_private_folder(self._approvals / check_digest(decision.digest))
        number = 1 + len(list(folder.glob("[0-9]*.json")))
        write_private(folder / f"{number:04d}.json", decision_text(decision))

    def decisions(self, digest: str) -> tuple[PersonDecision, ...]:
        """All decisions of our people, oldest first, their signatures verified again."""
        folder = self._approvals / check_digest(digest)
        paths = sorted(folder.glob("[0-9]*.json"))
        return tuple(parse_decision(path.read_text(encoding="utf-8")) for path in paths)

    def save_approval(self, approval: PartyApproval) -> None:
        """Keeps our party's approval."""
        folder = make_private_folder(self._approvals / check_digest(approval.digest))
        write_private(folder / "approval.json", approvals_text((approval,)))

    def approval(self, digest: str) -> PartyApproval | None:
        """Our party's approval, None before we countersigned."""
        path = self._approvals / check_digest(digest) / "approval.json"
        if not path.exists():
            return None
        (approval,) = parse_approvals(path.read_text(encoding="utf-8"))
        return approval
