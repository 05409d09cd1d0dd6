"""The whole story on real data and real processes: two datasites train FedCVT, everything approved, gated and logged.

Every step does what the command of the same name does; only the waiting between the three roles is left out. What needs
both parties' data (oracle, logistic regression, accuracy of pseudo labels) is computed by this script, which owns the
public data, and is marked so.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parties.demo.data import People, people
from parties.demo.outcome import Finished, result_document, summary, write_report
from parties.demo.setup import (
    ANALYST,
    ANALYST_EMAIL,
    BANK,
    RETAILER,
    ROLES,
    Stage,
    fresh_folder,
    login_file,
    prepare,
    read_traffic,
)
from parties.demo.sites import served, wait_for, wait_until_ready
from parties.demo.twin import Twin, run_twin, same_bits
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """`aligned` people are common in training; `seeds` beyond the first run as twins in this process."""

    out: Path
    aligned: int = 200
    seeds: int = 1


def run_demo(options: DemoOptions) -> Finished:
    """Runs the story and writes report.html and result.json; leaves no process, port or temporary file behind.

    Raises DataMissingError without the data package, StateError when the output folder holds something else,
    DatasiteError when a server can't be used or a run doesn't end well.
    """
    begin = time.monotonic()
    who = people(0, aligned=options.aligned)
    stage = prepare(fresh_folder(options.out), who)
    _say("1", f"two files, three state folders, exchanged cards, blocks with mock twins in {stage.folder}")
    with ExitStack() as stack:
        stack.enter_context(_own_temporary_folder(stage.folder))
        _start_datasites(stage, stack)
        sites = _open_accounts(stage)
        request = _ask(stage, sites)
        _approve(stage, request, sites)
        reports = _run(stage, request, sites)
    with _own_temporary_folder(stage.folder):
        audit = _verify_audit(stage)
        twins = _twins(options, who, stage)
    different = _different_from_twin(stage, twins[0])
    finished = Finished(
        request=request,
        who=who,
        reports=reports,
        twins=twins,
        traffic={name: read_traffic(stage.states[name]) for name in ROLES},
        audit=audit,
        same_as_twin=not different,
        seconds=time.monotonic() - begin,
    )
    write_report(finished, options.out / "report.html")
    (options.out / "result.json").write_text(
        json.dumps(result_document(finished), indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    print(summary(finished, options.out), flush=True)
    if different:
        raise DatasiteError(f"the model part of {', '.join(different)} differs from its twin in one process")
    return finished


@contextmanager
def _own_temporary_folder(folder: Path) -> Iterator[None]:
    """Libraries that this process loads put their temporary files here, and here they are removed."""
    with tempfile.TemporaryDirectory(prefix=".temporary-", dir=folder) as own:
        before = os.environ.get("TMPDIR"), tempfile.tempdir
        os.environ["TMPDIR"] = tempfile.tempdir = own
        try:
            yield
        finally:
            os.environ.pop("TMPDIR")
            if before[0] is not None:
                os.environ["TMPDIR"] = before[0]
            tempfile.tempdir = before[1]


def _start_datasites(stage: Stage, stack: ExitStack) -> None:
    _say("2", "starting two datasites (syft servers in processes of their own)")
    states = {name: stage.states[name] for name in ROLES}
    seed = 0  # both parties' private seeds are injected, so that the twin in one process can be compared
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


def _open_accounts(stage: Stage) -> dict[str, Datasite]:
    """The owners open accounts for the analyst, who logs in and sees schema and mock rows."""
    _say("3", "each owner accepts the analyst's card and opens an account")
    card = stage.states[ANALYST].folder / "card.json"
    fingerprint = card_fingerprint(stage.states[ANALYST].card())
    for name in ROLES:
        add_user(stage.states[name], card, fingerprint, ANALYST_EMAIL, login_file(stage.folder, name))
        analyst.add_login(stage.states[ANALYST], login_file(stage.folder, name))
    sites: dict[str, Datasite] = {}

    def logged_in() -> bool:
        sites.update(analyst.connect_all(stage.states[ANALYST]))
        return bool(analyst.read_offers(sites))

    wait_for("the accounts and the published blocks", logged_in)
    return sites


def _ask(stage: Stage, sites: Mapping[str, Datasite]) -> ComputationRequest:
    """The analyst rehearses the plan on the mocks, signs and submits the request."""
    state = stage.states[ANALYST]
    offers: Mapping[str, Offer] = analyst.read_offers(sites)
    request = analyst.draft(state, read_plan(stage.plan), offers)
    _say("4", "the analyst rehearses the request on mock rows (MOCK: about nobody)")
    done = rehearse(request, offers, printed_progress("     rehearsal"))
    print(_indented(rehearsal_text(request, done)[1]), flush=True)
    _say("5", "the analyst submits it to both datasites")
    digest = analyst.submit(state, analyst.sign(request, state.signing_key()), sites)
    print(f"     request {digest}", flush=True)
    return request


def _approve(stage: Stage, request: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """A start before the approvals is refused; each owner reads the request and approves."""
    digest = request_digest(request)
    _say("6", "each owner reads the request and approves it")
    try:
        analyst.start(request, sites)
    except NotApprovedError as error:
        print(f"     a start before that is refused: {error}", flush=True)
    else:
        raise DatasiteError("the run could be started without approvals")
    for name in ROLES:
        state = stage.states[name]
        wait_for(f"the request at {name}", partial(_is_known, state, digest))
        if name == BANK:
            print(_indented(page(state, digest).text()), flush=True)
        reason = "demo on public data"
        print(
            f"     {record(state, digest, person='owner', decision=Decision.APPROVE, reason=reason, passphrase=None)}"
        )
    wait_for(
        "both approvals in syft",
        lambda: all(status.state == "APPROVED" for status in analyst.statuses(request, sites)),
    )


def _is_known(state: State, digest: str) -> bool:
    return find_digest(state, digest) == digest


def _run(
    stage: Stage, request: ComputationRequest, sites: Mapping[str, Datasite]
) -> dict[str, Mapping[str, object]]:
    """Starts the run, follows it to its end and gives back what each party released."""
    _say(
        "7", "the analyst starts the run: alignment, training, evaluation between two workers over mutual TLS"
    )
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
    for name in ROLES:
        result = released[name]
        assert isinstance(result, Mapping)
        kept = read_json(next(stage.states[name].runs.glob(f"*/{RESULT_FILE}")))
        if dict(result) != kept:
            raise DatasiteError(f"what syft gave of {name}'s result isn't what the party released")
        reports[name] = result["report"]
    return reports


def _verify_audit(stage: Stage) -> dict[str, str]:
    """Each log verified by itself and against the heads that the other party holds of it."""
    _say("8", "both audit logs are verified, each against the head that the other party holds")
    heads = stage.folder / "heads"
    for name in ROLES:
        write_peer_heads(stage.states[name], heads)
    found = {}
    for name in ROLES:
        document, text = verify_log(stage.states[name], (heads / f"{name}-head.json",))
        found[name] = str(document["status"])
        print(f"     {text}", flush=True)
    return found


def _twins(options: DemoOptions, who: People, stage: Stage) -> tuple[Twin, ...]:
    """The twin of every seed; the first one's files are the parties' own."""
    from parties.demo.data import write_csv

    _say("9", "twins in one process, and the baselines that only the owner of all data can compute")
    twins = [run_twin(who, stage.files, printed_progress("     seed 0"))]
    for seed in range(1, options.seeds):
        other = people(seed, aligned=options.aligned)
        bank, retailer = write_csv(other, stage.folder / "data" / f"seed-{seed}")
        files = {BANK: bank, RETAILER: retailer}
        observe = printed_progress(f"     seed {seed}")
        twins.append(run_twin(other, files, observe, known_oracle=twins[0].oracle))
    return tuple(twins)


def _different_from_twin(stage: Stage, twin: Twin) -> list[str]:
    """The parties whose model parts aren't, bit for bit, those of the one-process twin; none when all is well."""
    different = []
    for name, role in ROLES.items():
        (path,) = stage.states[name].runs.glob(f"*/{ARTIFACTS_FILE}")
        if not same_bits(unpack_arrays(path.read_bytes()), twin.outcomes[role].artifacts):
            different.append(name)
    return different


def _say(number: str, text: str) -> None:
    print(f"\n[{number}/9] {text}", flush=True)


def _indented(text: str) -> str:
    return "\n".join(f"     {line}".rstrip() for line in text.splitlines())
