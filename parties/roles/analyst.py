"""The analyst's work: from the datasites' offers to a submitted request, its start at every party, and its result."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parties.control.asking import Refusal, accepted
from parties.control.socket import Answer
from parties.home.documents import Documents
from parties.home.logins import KnownDatasite, add_datasite, known_datasites
from parties.home.state import State
from parties.roles.plan import Offer, Plan, build_request, read_offer
from parties.roles.reviewing import chosen
from parties.syft_side.access import Datasite
from protocols.approval import PartyApproval, parse_approvals, verify_party_approval
from protocols.approval import to_text as approvals_text
from protocols.errors import DatasiteError, NotApprovedError, RequestError, StateError
from protocols.request import AnalystEntry, ComputationRequest, SignedRequest, party_named, sign_request
from protocols.request import digest as request_digest
from protocols.request import to_text as signed_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENDS = ("DONE", "FAILED", "INTERRUPTED", "CANCELLED", "REVOKED", "DENIED")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyStatus:
    """How a request stands at one party, with its newest progress; fields as the supervisor gives them."""

    party: str
    state: str
    reason: str
    answer: Mapping[str, object]


def add_login(state: State, file: Path) -> KnownDatasite:
    """Remembers the login in the file that an owner handed over. Raises StateError when it isn't one."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"login {file}: {error.strerror}") from error
    except ValueError as error:
        raise StateError(
            f"login {file} is not JSON", remedy="ask the party's owner for the file again"
        ) from error
    names = ("party", "url", "email", "password")
    if not isinstance(value, dict) or any(not isinstance(value.get(name), str) for name in names):
        raise StateError(f"login {file} must hold the texts {', '.join(names)}")
    site = KnownDatasite(
        party=value["party"], url=value["url"], email=value["email"], password=value["password"]
    )
    add_datasite(state, site)
    return site


def connect_all(state: State, parties: tuple[str, ...] = ()) -> dict[str, Datasite]:
    """A logged-in datasite for each of the parties (by default all known ones); RequestError for an unknown one."""
    from parties.datasite import connect

    known = known_datasites(state)
    for name in parties:
        if name not in known:
            raise RequestError(f"no login for the datasite of {name}", remedy="fedaccord datasite add LOGIN")
    wanted = parties or tuple(known)
    if not wanted:
        raise RequestError("no datasite is known yet", remedy="fedaccord datasite add LOGIN")
    return {name: connect(known[name].url, known[name].email, known[name].password) for name in wanted}


def read_offers(sites: Mapping[str, Datasite]) -> dict[str, Offer]:
    """What each datasite publishes, by party name."""
    return {name: read_offer(name, site.datasets()) for name, site in sites.items()}


def draft(state: State, plan: Plan, offers: Mapping[str, Offer], *, nonce: str = "") -> ComputationRequest:
    """The complete request of a plan, asked by this analyst now."""
    card = state.card()
    analyst = AnalystEntry(name=card.name, organisation=card.organisation, key=card.signing_key)
    return build_request(plan, offers, analyst, now=datetime.now(UTC), nonce=nonce or secrets.token_hex(16))


def sign(request: ComputationRequest, key: "Ed25519PrivateKey") -> SignedRequest:
    """The request under the analyst's key."""
    return sign_request(request, key)


def submit(state: State, signed: SignedRequest, sites: Mapping[str, Datasite]) -> str:
    """Submits the request to every party of its roster, keeps it in the state folder, and gives back its digest."""
    for entry in signed.request.parties:
        if entry.name not in sites:
            raise RequestError(
                f"no login for the datasite of {entry.name}", remedy="fedaccord datasite add LOGIN"
            )
    digest = Documents(state.folder).save_request(signed)
    text = signed_text(signed)
    for entry in signed.request.parties:
        sites[entry.name].submit(text)
    return digest


def find(state: State, start: str) -> SignedRequest:
    """The submitted request whose digest begins with `start`."""
    known = sorted(path.stem for path in (state.folder / "requests").glob("*.json"))
    return Documents(state.folder).request(chosen(known, start, state.name))


def statuses(request: ComputationRequest, sites: Mapping[str, Datasite]) -> tuple[PartyStatus, ...]:
    """How the request stands at every party, in the order of the roster; one that can't be reached says so."""
    return tuple(_status(request, entry.name, sites[entry.name]) for entry in request.parties)


def _status(request: ComputationRequest, name: str, site: Datasite) -> PartyStatus:
    digest = request_digest(request)
    try:
        answer = site.call(digest, "status", "")
    except DatasiteError as error:
        return PartyStatus(party=name, state="UNREACHABLE", reason=str(error), answer={})
    if answer.get("ok") is not True:
        denied = answer.get("standing") == "denied"
        pending = answer.get("error") == "not_approved" and not denied
        state = "DENIED" if denied else "PENDING" if pending else "REFUSED"
        return PartyStatus(party=name, state=state, reason=str(answer.get("reason", "")), answer=answer)
    return PartyStatus(
        party=name, state=str(answer["state"]), reason=str(answer.get("reason", "")), answer=answer
    )


def approvals(request: ComputationRequest, standing: tuple[PartyStatus, ...]) -> tuple[PartyApproval, ...]:
    """Every party's countersigned approval, each verified. Raises NotApprovedError naming the parties that lack one."""
    found, missing = [], []
    for status in standing:
        text = str(status.answer.get("approval", ""))
        if not text:
            missing.append(
                f"{status.party} ({status.state.lower()}{': ' + status.reason if status.reason else ''})"
            )
            continue
        for approval in parse_approvals(text):
            verify_party_approval(approval, request)
            found.append(approval)
    if missing:
        raise NotApprovedError(
            f"not approved yet by {', '.join(missing)}",
            remedy="wait for the owners: fedaccord request status DIGEST",
        )
    return tuple(found)


def start(request: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """Starts the run at every party, carrying all approvals to each; when one refuses, the others are cancelled."""
    text = approvals_text(approvals(request, statuses(request, sites)))
    digest = request_digest(request)
    started: list[str] = []
    for name in _listening_first(request):
        try:
            accepted(sites[name].call(digest, "start", text), name)
        except (Refusal, DatasiteError):
            for other in started:
                sites[other].call(digest, "cancel", "")
            raise
        started.append(name)


def cancel(request: ComputationRequest, sites: Mapping[str, Datasite]) -> dict[str, str]:
    """Cancels the run at every party; what each says, by party."""
    digest = request_digest(request)
    answers = {entry.name: sites[entry.name].call(digest, "cancel", "") for entry in request.parties}
    return {name: _said(answer) for name, answer in answers.items()}


def results(request: ComputationRequest, sites: Mapping[str, Datasite]) -> dict[str, object]:
    """What each party releases, by party. Raises Refusal while a party isn't DONE."""
    digest = request_digest(request)
    found = {}
    for entry in request.parties:
        answer = accepted(sites[entry.name].call(digest, "result", ""), party_named(request, entry.name).name)
        found[entry.name] = answer["result"]
    return found


def _listening_first(request: ComputationRequest) -> list[str]:
    return [entry.name for entry in sorted(request.parties, key=lambda entry: not entry.address)]


def _said(answer: Answer) -> str:
    return str(answer.get("state") or answer.get("error") or "no answer")
