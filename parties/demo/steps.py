"""The steps of a demo that are the same whatever it trains: serve, log in, ask, approve, run, verify, compare.

Each does what the command of the same name does; only the waiting between the roles is left out.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from parties.computation import Arrays
from parties.control.workers import run_folder
from parties.demo.setup import ANALYST, ANALYST_EMAIL, TEMPORARY_PREFIX, Stage, login_file
from parties.demo.sites import served, wait_for, wait_until_ready
from parties.home.cards import card_fingerprint
from parties.home.private_files import read_json
from parties.home.state import State
from parties.roles import analyst
from parties.roles.auditing import verify_log, write_peer_heads
from parties.roles.owner import add_user
from parties.roles.plan import Offer, read_plan
from parties.roles.progress_lines import printed_progress
from parties.roles.rehearse import rehearse
from parties.roles.requesting import follow, rehearsal_text
from parties.roles.reviewing import find_digest, page, record
from parties.running.runspec import ARTIFACTS_FILE, RESULT_FILE
from parties.syft_side.access import Datasite
from protocols.approval import Decision
from protocols.errors import DatasiteError, NotApprovedError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest
from protocols.wire import unpack_arrays

LONGEST_PAUSE = 3.0
"""Seconds between two status calls of the demo, whose run is short."""


@contextmanager
def own_temporary_folder(folder: Path) -> Iterator[None]:
    """Libraries that this process loads put their temporary files here, and here they are removed."""
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as own:
        before = os.environ.get("TMPDIR"), tempfile.tempdir
        os.environ["TMPDIR"] = tempfile.tempdir = own
        try:
            yield
        finally:
            os.environ.pop("TMPDIR")
            if before[0] is not None:
                os.environ["TMPDIR"] = before[0]
            tempfile.tempdir = before[1]


Then = Callable[[ComputationRequest, Mapping[str, Datasite]], None]
"""What is done with a finished request while the datasites still run."""


def nothing_more(request: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """Ends with the result."""


def governed_run(
    stage: Stage, then: Then = nothing_more
) -> tuple[ComputationRequest, dict[str, Mapping[str, object]]]:
    """The steps from serving to the result, and the servers' end: the request, and what each party released."""
    with ExitStack() as stack:
        stack.enter_context(own_temporary_folder(stage.folder))
        start_datasites(stage, stack)
        sites = open_accounts(stage)
        request = ask(stage, sites)
        approve(stage, request, sites)
        reports = run(stage, request, sites)
        then(request, sites)
        return request, reports


def start_datasites(stage: Stage, stack: ExitStack) -> None:
    """Starts the datasite of every party; `stack` ends them."""
    say("2", f"starting {len(stage.parties)} datasites (syft servers in processes of their own)")
    states = {name: stage.states[name] for name in stage.parties}
    seed = 0  # the parties' private seeds are injected, so that the twin in one process can be compared
    processes = {
        name: stack.enter_context(served(state, injected_seed=seed)) for name, state in states.items()
    }
    stack.callback(_stop_all, processes)
    wait_until_ready(processes, states)
    for name, state in states.items():
        print(f"     {name}: http://{state.host}:{state.port}", flush=True)


def _stop_all(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Asks all at once, so that they stop side by side."""
    print("     stopping the datasites", flush=True)
    for process in processes.values():
        process.terminate()


def open_accounts(stage: Stage) -> dict[str, Datasite]:
    """The owners open accounts for the analyst, who logs in and sees schema and mock rows."""
    say("3", "each owner accepts the analyst's card and opens an account")
    card = stage.states[ANALYST].folder / "card.json"
    fingerprint = card_fingerprint(stage.states[ANALYST].card())
    for name in stage.parties:
        add_user(stage.states[name], card, fingerprint, ANALYST_EMAIL, login_file(stage.folder, name))
        analyst.add_login(stage.states[ANALYST], login_file(stage.folder, name))
    sites: dict[str, Datasite] = {}

    def logged_in() -> bool:
        sites.update(analyst.connect_all(stage.states[ANALYST]))
        return bool(analyst.read_offers(sites, analyst.login_cards(stage.states[ANALYST])))

    wait_for("the accounts and the published blocks", logged_in)
    return sites


def ask(stage: Stage, sites: Mapping[str, Datasite]) -> ComputationRequest:
    """The analyst rehearses the plan on the mocks, signs and submits the request."""
    state = stage.states[ANALYST]
    offers: Mapping[str, Offer] = analyst.read_offers(sites, analyst.login_cards(state))
    request = analyst.draft(state, read_plan(stage.plan), offers)
    say("4", "the analyst rehearses the request on mock rows (MOCK: about nobody)")
    done = rehearse(request, offers, printed_progress("     rehearsal"))
    print(_indented(rehearsal_text(request, done)[1]), flush=True)
    say("5", "the analyst submits it to every datasite")
    digest = analyst.submit(state, analyst.sign(request, state.signing_key()), sites)
    print(f"     request {digest}", flush=True)
    return request


def approve(stage: Stage, request: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """A start before the approvals is refused; each owner reads the request and approves."""
    digest = request_digest(request)
    say("6", "each owner reads the request and approves it")
    try:
        analyst.start(request, sites)
    except NotApprovedError as error:
        print(f"     a start before that is refused: {error}", flush=True)
    else:
        raise DatasiteError("the run could be started without approvals")
    for name in stage.parties:
        state = stage.states[name]
        wait_for(f"the request at {name}", partial(_is_known, state, digest))
        if name == stage.parties[0]:
            print(_indented(page(state, digest).text()), flush=True)
        reason = "demo on public data"
        print(
            f"     {record(state, digest, person='owner', decision=Decision.APPROVE, reason=reason, passphrase=None)}"
        )
    wait_for(
        "all approvals in syft",
        lambda: all(status.state == "APPROVED" for status in analyst.statuses(request, sites)),
    )


def _is_known(state: State, digest: str) -> bool:
    return find_digest(state, digest) == digest


def run(
    stage: Stage, request: ComputationRequest, sites: Mapping[str, Datasite]
) -> dict[str, Mapping[str, object]]:
    """Starts the run, follows it to its end and gives back what each party released."""
    say("7", f"the analyst starts the run: {stage.what_runs}")
    analyst.start(request, sites)
    standing = follow(request, sites, longest=LONGEST_PAUSE)
    for status in standing:
        if status.state != "DONE":
            raise DatasiteError(
                f"the run at {status.party} ended as {status.state} {status.reason}",
                remedy=f"read the worker's log in {stage.states[status.party].runs}",
            )
    released = analyst.results(request, sites)
    reports: dict[str, Mapping[str, object]] = {}
    for name in stage.parties:
        result = released[name]
        assert isinstance(result, Mapping)
        kept = read_json(run_folder(stage.states[name].runs, request_digest(request), 1) / RESULT_FILE)
        if dict(result) != kept:
            raise DatasiteError(f"what syft gave of {name}'s result isn't what the party released")
        reports[name] = result["report"]
    return reports


def verify_audit(stage: Stage) -> dict[str, str]:
    """Each log verified by itself and against a head that a peer holds of it."""
    say("8", "all audit logs are verified, each against the head that a peer holds")
    heads = stage.folder / "heads"
    for name in stage.parties:
        write_peer_heads(stage.states[name], heads)
    found = {}
    for name in stage.parties:
        document, text = verify_log(stage.states[name], (heads / f"{name}-head.json",))
        found[name] = str(document["status"])
        print(f"     {text}", flush=True)
    return found


def left_by(stage: Stage, request: ComputationRequest, name: str) -> Arrays:
    """The artifacts that the request's run left at a party."""
    folder = run_folder(stage.states[name].runs, request_digest(request), 1)
    return unpack_arrays((folder / ARTIFACTS_FILE).read_bytes())


def different_from_twin(
    stage: Stage, request: ComputationRequest, artifacts: Mapping[str, Arrays]
) -> list[str]:
    """The parties whose model parts aren't, bit for bit, those of the one-process twin; none when all is well."""
    return [name for name, twin in artifacts.items() if not same_bits(left_by(stage, request, name), twin)]


def same_bits(first: Arrays, second: Arrays) -> bool:
    """Whether two parties' artifacts have the same names and, byte for byte, the same arrays."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and first[name].tobytes() == second[name].tobytes()
        for name in first
    )


def say(number: str, text: str) -> None:
    """A headline of the story."""
    print(f"\n[{number}/9] {text}", flush=True)


def _indented(text: str) -> str:
    return "\n".join(f"     {line}".rstrip() for line in text.splitlines())
