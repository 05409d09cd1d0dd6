"""The analyst's work: from the datasites' offers to a submitted request, its start at every party, and its result."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parties.control.asking import Refusal, accepted, explained
from parties.control.socket import Answer
from parties.home.documents import Documents
from parties.home.state import State
from parties.roles.plan import Offer, Plan, build_request
from parties.roles.reviewing import chosen
from parties.roles.showing import printable_answer
from parties.roles.sites import ADD_LOGIN, add_login, connect_all, login_cards, naming, read_offers
from parties.roles.standing import PartyStatus, approvals, field_of, statuses
from parties.roles.trained import following, model_start, model_used
from parties.syft_side.access import Datasite
from protocols.approval import to_text as approvals_text
from protocols.errors import DatasiteError, RequestError, StateError
from protocols.request import AnalystEntry, ComputationRequest, SignedRequest, sign_request
from protocols.request import digest as request_digest
from protocols.request import to_text as signed_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DIGEST_DIGITS = 64
__all__ = [
    "PartyStatus",
    "add_login",
    "approvals",
    "cancel",
    "connect_all",
    "draft",
    "find",
    "login_cards",
    "read_offers",
    "results",
    "sign",
    "signed_text",
    "start",
    "statuses",
    "submit",
]


def draft(state: State, plan: Plan, offers: Mapping[str, Offer], *, nonce: str = "") -> ComputationRequest:
    """The complete request of a plan, asked by this analyst now; what it names of a trained model is filled in."""
    card, plan = state.card(), _with_model(state, plan, offers)
    analyst = AnalystEntry(name=card.name, organisation=card.organisation, key=card.signing_key)
    return build_request(plan, offers, analyst, now=datetime.now(UTC), nonce=nonce or secrets.token_hex(16))


def _with_model(state: State, plan: Plan, offers: Mapping[str, Offer]) -> Plan:
    """The plan with what follows from its trained model, when that was trained for a request of this analyst.

    Somebody else's model must be named by its whole digest, and its settings in the plan.
    """
    used = model_used(plan)
    if used is None:
        return plan
    start = model_start(plan)
    try:
        trained = find(state, start).request
    except RequestError:
        if len(start) < DIGEST_DIGITS:
            raise
        return plan
    return following(plan, used, trained, offers)


def sign(request: ComputationRequest, key: "Ed25519PrivateKey") -> SignedRequest:
    """The request under the analyst's key."""
    return sign_request(request, key)


def submit(state: State, signed: SignedRequest, sites: Mapping[str, Datasite]) -> str:
    """Submits the request to every party of its roster, keeps it in the state folder, and gives back its digest."""
    for entry in signed.request.parties:
        if entry.name not in sites:
            raise RequestError(f"no login for the datasite of {entry.name}", remedy=ADD_LOGIN)
    digest = Documents(state.folder).save_request(signed)
    text = signed_text(signed)
    for entry in signed.request.parties:
        with naming(entry.name):
            sites[entry.name].submit(text)
    return digest


def find(state: State, start: str) -> SignedRequest:
    """The submitted request whose digest begins with `start`."""
    known = sorted((state.folder / "requests").glob("*.json"), key=lambda path: path.stat().st_mtime)
    return Documents(state.folder).request(chosen([path.stem for path in known], start, state.name))


def start(request: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """Starts the run at every party, carrying all approvals to each; when one refuses, the others are cancelled."""
    text = approvals_text(approvals(request, statuses(request, sites)))
    started: list[str] = []
    for name in _listening_first(request):
        try:
            accepted(_call(request, name, sites, "start", text), name)
        except (Refusal, DatasiteError):
            for other in started:
                _stop_if_reachable(request, other, sites)
            raise
        started.append(name)


def cancel(request: ComputationRequest, sites: Mapping[str, Datasite]) -> dict[str, str]:
    """Cancels the run at every party; what each says, by party. StateError when nothing was cancelled anywhere."""
    said: dict[str, str] = {}
    stopped = False
    for name in _listening_first(request):  # who listens for many tells them, before it misses them
        try:
            answer = _call(request, name, sites, "cancel")
        except DatasiteError as error:
            said[name] = str(error).removeprefix(f"{name}: ")
            continue
        stopped = stopped or answer.get("ok") is True
        said[name] = _said(answer)
    if not stopped:
        listed = "; ".join(f"{name}: {text}" for name, text in said.items())
        raise StateError(f"nothing was cancelled: {listed}")
    return said


def results(request: ComputationRequest, sites: Mapping[str, Datasite]) -> dict[str, object]:
    """What each party releases, by party. Raises Refusal naming a party that isn't DONE, DatasiteError for one
    that answers without a result."""
    return {
        entry.name: field_of(
            accepted(_call(request, entry.name, sites, "result"), entry.name), "result", entry.name
        )
        for entry in request.parties
    }


def _call(
    request: ComputationRequest, name: str, sites: Mapping[str, Datasite], what: str, argument: str = ""
) -> Answer:
    """The party's answer, its texts printable; DatasiteError naming the party when it can't be reached."""
    with naming(name):
        return printable_answer(sites[name].call(request_digest(request), what, argument))


def _stop_if_reachable(request: ComputationRequest, name: str, sites: Mapping[str, Datasite]) -> str:
    """Cancels what was begun there; out of reach it ends by itself, since its peer never comes."""
    try:
        return _said(_call(request, name, sites, "cancel"))
    except DatasiteError as error:
        return str(error)


def _listening_first(request: ComputationRequest) -> list[str]:
    return [entry.name for entry in sorted(request.parties, key=lambda entry: not entry.address)]


def _said(answer: Answer) -> str:
    if answer.get("ok") is True:
        return str(answer.get("state"))
    return explained(str(answer.get("error")), answer)
