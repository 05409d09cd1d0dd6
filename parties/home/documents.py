"""The papers of each request: the signed request, our people's decisions, our countersigned approval.

requests/DIGEST.json            the analyst's signed request, canonical text
approvals/DIGEST/0001.json ...  decisions of our own people, in the order in which they came
approvals/DIGEST/deciding-*.json  a decision that is being carried out: after a crash it is brought to its end
approvals/DIGEST/approval.json  our party's countersigned approval
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from parties.home.private_files import make_private_folder, read_json, write_json, write_private
from protocols.approval import (
    PartyApproval,
    PersonDecision,
    decision_text,
    parse_approvals,
    parse_decision,
)
from protocols.approval import to_text as approvals_text
from protocols.errors import FedaccordError, RequestError, StateError
from protocols.request import SignedRequest, parse_signed, to_text
from protocols.request import digest as request_digest

DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def check_digest(digest: str) -> str:
    """The digest, when it has 64 hex digits and so can be part of a path; RequestError otherwise."""
    if not DIGEST.match(digest):
        raise RequestError("a request digest has 64 hex digits")
    return digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A decision that is being carried out, and the way on which it came (see `Actor`)."""

    decision: PersonDecision
    origin: str


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

    def knows(self, digest: str) -> bool:
        """Whether the request of that digest is here; False for what is no digest."""
        return bool(DIGEST.match(digest)) and (self._requests / f"{digest}.json").exists()

    def signed_text(self, digest: str) -> str:
        """The signed request's text; RequestError when there is none."""
        path = self._requests / f"{check_digest(digest)}.json"
        if not path.exists():
            raise RequestError(f"request {digest[:12]} is not known here", remedy="submit it first")
        return _read(path)

    def request(self, digest: str) -> SignedRequest:
        """The signed request, its signature and digest verified again; StateError naming the file if it is damaged."""
        text = self.signed_text(digest)
        try:
            signed = parse_signed(text)
        except FedaccordError as error:
            raise _damaged(self._requests / f"{digest}.json", error) from error
        if request_digest(signed.request) != digest:
            raise StateError(
                f"requests/{digest}.json holds another request", remedy="restore it from a backup"
            )
        return signed

    def add_decision(self, decision: PersonDecision) -> None:
        """Keeps one decision after those that are there."""
        folder = make_private_folder(self._approvals / check_digest(decision.digest))
        number = 1 + max((int(path.stem) for path in _numbered(folder)), default=0)
        write_private(folder / f"{number:04d}.json", decision_text(decision))

    def decisions(self, digest: str) -> tuple[PersonDecision, ...]:
        """All decisions of our people in the order in which they came, their signatures verified again.

        StateError naming the file that is damaged: it may hold a denial.
        """
        return tuple(_parsed(path) for path in _numbered(self._approvals / check_digest(digest)))

    def begin(self, unfinished: Unfinished) -> None:
        """Keeps a decision as one that is being carried out, until `settle`."""
        path = self._deciding(unfinished.decision)
        make_private_folder(path.parent)
        write_json(path, {"decision": decision_text(unfinished.decision), "origin": unfinished.origin})

    def settle(self, decision: PersonDecision) -> None:
        """The decision has been carried out, or doesn't count."""
        self._deciding(decision).unlink(missing_ok=True)

    def unfinished(self, digest: str) -> tuple[Unfinished, ...]:
        """Decisions on a request that nobody has settled, oldest first; StateError naming a file that is damaged."""
        found = [
            _unfinished(path) for path in (self._approvals / check_digest(digest)).glob("deciding-*.json")
        ]
        return tuple(sorted(found, key=lambda each: each.decision.time))

    def _deciding(self, decision: PersonDecision) -> Path:
        name = hashlib.sha256(decision_text(decision).encode()).hexdigest()[:16]
        return self._approvals / check_digest(decision.digest) / f"deciding-{name}.json"

    def save_approval(self, approval: PartyApproval) -> None:
        """Keeps our party's approval."""
        folder = make_private_folder(self._approvals / check_digest(approval.digest))
        write_private(folder / "approval.json", approvals_text((approval,)))

    def approval(self, digest: str) -> PartyApproval | None:
        """Our party's approval, None before we countersigned; StateError naming its file when that is damaged."""
        path = self._approvals / check_digest(digest) / "approval.json"
        if not path.exists():
            return None
        text = _read(path)
        try:
            (approval,) = parse_approvals(text)
        except (FedaccordError, ValueError) as error:
            raise _damaged(path, error) from error
        return approval


def _unfinished(path: Path) -> Unfinished:
    found = read_json(path)
    try:
        decision, origin = parse_decision(str(found["decision"])), str(found["origin"])
    except (FedaccordError, KeyError) as error:
        raise _damaged(path, error) from error
    return Unfinished(decision=decision, origin=origin)


def _numbered(folder: Path) -> list[Path]:
    """The decisions' files in the order of their numbers."""
    paths = (path for path in folder.glob("*.json") if path.stem.isascii() and path.stem.isdecimal())
    return sorted(paths, key=lambda path: int(path.stem))


def _parsed(path: Path) -> PersonDecision:
    text = _read(path)
    try:
        return parse_decision(text)
    except FedaccordError as error:
        raise _damaged(path, error) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> StateError:
    return StateError(
        f"{path} is damaged: {error}", remedy=f"restore {path.name} in {path.parent} from a backup"
    )
