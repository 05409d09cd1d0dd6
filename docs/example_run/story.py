"""The example as it happens: two real datasites, one request, refused starts, approvals, the run, the logs.

Every step is the call behind the command of the same name, as in `parties.demo`; what each of them says is kept.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from docs.example_run.people import BANK, PLAN, RETAILER, ROLES, SEED, specs, write_files
from docs.example_run.stage import ANALYST, Sites, datasites, make_states, open_accounts
from docs.example_run.tamper import OneByte, Tampering, change_one_byte, tamper
from docs.example_run.trace import Twin, check_same, run_twin
from parties.demo.sites import wait_for
from parties.home.documents import Documents
from parties.home.state import State
from parties.roles import analyst
from parties.roles.auditing import peer_heads, verify_log, write_peer_heads
from parties.roles.owner import add_block
from parties.roles.plan import Offer, read_plan
from parties.roles.rehearse import Rehearsal, rehearse
from parties.roles.requesting import follow
from parties.roles.reviewing import find_digest, page, record
from protocols.approval import Decision, PartyApproval
from protocols.approval import to_text as approvals_text
from protocols.audit import Entry, SignedHead, read
from protocols.errors import DatasiteError, NotApprovedError
from protocols.program import Progress
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

REASON = "small test, invented people"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How the request stood at one moment: state by party."""

    when: str
    states: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refused start: when it was tried, and the answer of the analyst's tool or of the bank's datasite."""

    when: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Both logs by party, how each was verified, the head that the retailer holds of the bank's, and the tampering."""

    entries: Mapping[str, tuple[Entry, ...]]
    verified: Mapping[str, str]
    head: SignedHead
    one_byte: OneByte
    tampering: tuple[Tampering, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that the page shows."""

    folder: Path
    files: Mapping[str, str]
    registered: Mapping[str, str]
    offers: Mapping[str, Offer]
    request: ComputationRequest
    rehearsal: Rehearsal
    review: str
    refused: tuple[Refused, ...]
    decided: tuple[str, ...]
    approvals: tuple[PartyApproval, ...]
    moments: tuple[Moment, ...]
    results: Mapping[str, Mapping[str, object]]
    twin: Twin
    logs: Logs


@dataclass(slots=True)
class _Told:
    """What is collected on the way."""

    states: Mapping[str, State]
    moments: list[Moment]
    decided: list[str]
    refused: list[Refused]
    review: str = ""


def tell() -> Story:
    """Runs the example in a temporary folder, of which nothing is left. Raises what a step raises."""
    with tempfile.TemporaryDirectory(prefix="fedaccord-example-") as name:
        folder = Path(name)
        files = write_files(folder / "data")
        states = make_states(folder)
        registered = {party: add_block(states[party], files[party], spec) for party, spec in specs().items()}
        told = _Told(states=states, moments=[], decided=[], refused=[])
        with datasites(states):
            sites = open_accounts(states, folder)
            offers = analyst.read_offers(sites)
            request, rehearsal = _submit(states[ANALYST], folder, sites, offers)
            approvals = _approve(told, request, sites)
            results = _run(told, request, sites)
            _bare_start(
                told, "both approved, and the one run is over; a bare call", request, sites, approvals
            )
        twin = run_twin(request, files, SEED)
        check_same(twin, states)
        return Story(
            folder=folder,
            files={party: path.read_text(encoding="utf-8") for party, path in files.items()},
            registered=registered,
            offers=offers,
            request=request,
            rehearsal=rehearsal,
            review=told.review,
            refused=tuple(told.refused),
            decided=tuple(told.decided),
            approvals=approvals,
            moments=tuple(told.moments),
            results=results,
            twin=twin,
            logs=_read_logs(states, folder),
        )


def _submit(
    state: State, folder: Path, sites: Sites, offers: Mapping[str, Offer]
) -> tuple[ComputationRequest, Rehearsal]:
    plan = folder / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    request = analyst.draft(state, read_plan(plan), offers)
    done = rehearse(request, offers, _silent)
    analyst.submit(state, analyst.sign(request, state.signing_key()), sites)
    return request, done


def _approve(told: _Told, request: ComputationRequest, sites: Sites) -> tuple[PartyApproval, ...]:
    """Both owners approve, the retailer last; before each of them a start is tried. Gives back the approvals."""
    digest = request_digest(request)
    for name in ROLES:
        wait_for(f"the request at {name}", partial(_is_known, told.states[name], digest))
    _note(told, "after it was submitted", request, sites)
    told.refused.append(
        Refused(when="nobody has approved; with our tool", answer=_start_error(request, sites))
    )
    _bare_start(told, "nobody has approved; a bare call, past our tool", request, sites, ())
    for name in ROLES:
        text = page(told.states[name], digest).text()
        told.review = told.review or text
        told.decided.append(
            record(
                told.states[name],
                digest,
                person="owner",
                decision=Decision.APPROVE,
                reason=REASON,
                passphrase=None,
            )
        )
        wait_for(f"the approval of {name} in syft", partial(_stands, request, sites, name, "APPROVED"))
        _note(told, f"after the {name}'s approval", request, sites)
        if name == BANK:
            own = Documents(told.states[BANK].folder).approval(digest)
            assert own is not None
            when = "the bank has approved, the retailer hasn't; a bare call"
            _bare_start(told, when, request, sites, (own,))
    return analyst.approvals(request, analyst.statuses(request, sites))


def _run(told: _Told, request: ComputationRequest, sites: Sites) -> dict[str, Mapping[str, object]]:
    analyst.start(request, sites)
    _note(told, "after the start", request, sites)
    for status in follow(request, sites, longest=2.0):
        if status.state != "DONE":
            raise DatasiteError(f"the run at {status.party} ended as {status.state} {status.reason}")
    _note(told, "at the end", request, sites)
    released = analyst.results(request, sites)
    return {name: result for name, result in released.items() if isinstance(result, Mapping)}


def _read_logs(states: Mapping[str, State], folder: Path) -> Logs:
    heads = folder / "heads"
    for name in ROLES:
        write_peer_heads(states[name], heads)
    *_, newest = peer_heads(states[RETAILER])
    log = states[BANK].audit_path
    return Logs(
        entries={name: tuple(read(states[name].audit_path)) for name in ROLES},
        verified={name: verify_log(states[name], (heads / f"{name}-head.json",))[1] for name in ROLES},
        head=newest,
        one_byte=change_one_byte(log, folder / "copy.jsonl"),
        tampering=tamper(log, folder / "copy.jsonl", newest),
    )


def _bare_start(
    told: _Told, when: str, request: ComputationRequest, sites: Sites, approvals: tuple[PartyApproval, ...]
) -> None:
    """Calls the shim at the bank as an analyst could who has written a tool of their own."""
    answer = sites[BANK].call(
        request_digest(request), "start", approvals_text(approvals) if approvals else ""
    )
    if answer.get("ok") is True:
        raise DatasiteError(f"a start was not refused: {when}")
    told.refused.append(Refused(when=when, answer=json.dumps(answer, sort_keys=True)))


def _start_error(request: ComputationRequest, sites: Sites) -> str:
    try:
        analyst.start(request, sites)
    except NotApprovedError as error:
        return f"{type(error).__name__}: {error}"
    raise DatasiteError("the run could be started without approvals")


def _note(told: _Told, when: str, request: ComputationRequest, sites: Sites) -> None:
    standing = {status.party: status.state for status in analyst.statuses(request, sites)}
    told.moments.append(Moment(when=when, states=standing))


def _stands(request: ComputationRequest, sites: Sites, name: str, state: str) -> bool:
    return any(s.party == name and s.state == state for s in analyst.statuses(request, sites))


def _is_known(state: State, digest: str) -> bool:
    return find_digest(state, digest) == digest


def _silent(progress: Progress) -> None:
    """The page shows no progress."""
