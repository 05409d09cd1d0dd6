"""Rules that a worker keeps by itself, whoever started it, and that the ledger keeps, whoever asks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np

from parties import catalog
from parties.blocks.schema import BlockSchema
from parties.blocks.store import Store
from parties.control.alignments import Alignments, Planned, use
from parties.control.runs import TAKEN_UP, Ledger, RunState
from parties.home.private_files import make_private_folder
from parties.running.drive import drive
from parties.running.runspec import load_spec
from parties.running.stopping import StopFlag
from parties.running.worker import Worker
from parties.running.worker_tools import Tools, check_papers
from protocols.approval import parse_approvals, to_text
from protocols.errors import (
    AlignmentsUsedError,
    AuditError,
    BlockError,
    CodeDigestError,
    ExpiredError,
    LinkError,
    NotApprovedError,
    RequestError,
    RevokedRun,
    RunsUsedError,
    StateError,
)
from protocols.program import Outcome
from protocols.request import parse_signed
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.parties.blocks.block_samples import bank_block, made_mock
from tests.parties.control.test_runs import NOW, D, ledger
from tests.parties.running import toy
from tests.parties.running.test_drive import programs, run_both, sides
from tests.parties.running.test_worker import Party, Trial

PAPERS = "parties.running.worker_tools.check_papers"
APPROVED = Cut(PAPERS, "approvals_of(spec.approvals, request, tools.now())", "pass")
LEDGER = "parties.control.runs."
DRIVE = "parties.running.drive._Drive."


class Unwilling(Party):
    """A party whose supervisor refuses every run."""

    def answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        if request["action"] == "run_committed":
            raise StateError("run 1 is not running")
        return super().answer(request)


@contextmanager
def trial(place: Place, kind: type[Party] = Party) -> Iterator[Trial]:
    """The bank with a run folder as its supervisor prepared it, and the retailer."""
    bank, retailer = kind("bank", place.folder / "bank"), Party("retailer", place.folder / "retailer")
    made = Trial(bank, retailer, "127.0.0.1:9-9")
    try:
        made.prepare(made.request())
        yield made
    finally:
        made.close()


def with_papers(
    place: Place, *, late: bool = False, one_approval: bool = False, steps: int = 12, **changes: object
) -> None:
    """The bank's worker looks at its papers, in which one thing isn't right: at another time, or of another request."""
    with trial(place) as made:
        spec = load_spec(made.bank.run)
        if one_approval:
            changes["approvals"] = to_text(parse_approvals(spec.approvals)[:1])
        request = parse_signed(spec.request).request
        parameters = (("pause", 0.0), ("steps", steps))
        tools = Tools(
            find=lambda name, version: toy.computation()[name],
            check_code=lambda request: None,
            now=lambda: datetime.now(UTC).replace(year=2101 if late else 2030),
        )
        check_papers(replace(spec, **changes), replace(request, parameters=parameters), tools)  # type: ignore[arg-type]


def past_its_date(place: Place) -> None:
    """The run is under way when the request's date comes."""
    with trial(place) as made:
        Worker(made.bank.run, Tools(now=lambda: datetime(2101, 1, 1, tzinfo=UTC)), StopFlag())._check()


def of_other_code(place: Place) -> None:
    """The request names another digest than that of the code installed."""
    with trial(place) as made:
        catalog.check_code(made.request())


def past_the_supervisor(place: Place) -> None:
    """A worker that nobody reserved a run for is about to send its first message."""
    with trial(place, Unwilling) as made:
        Worker(made.bank.run, Tools(), StopFlag())._reserve(1, 256)


def while_revoked(place: Place) -> None:
    """Both go on with the run after somebody at one of them has revoked."""
    flag = StopFlag()
    ended = run_both(sides(), programs(), check=flag.check, save=lambda checkpoint: flag.ask(RevokedRun))
    for end in ended:
        if isinstance(end, RevokedRun):
            raise end
    assert all(isinstance(end, Outcome) for end in ended)


def unreserved(place: Place) -> None:
    """A message is sent though the log has no room for the entry that reserves it."""
    _, passive = sides()

    def full(first: int, last: int) -> None:
        raise AuditError("no room on the disk")

    try:
        drive(programs()[1], passive.driver(reserve=full, message_s=0.05))
    except LinkError:  # it waits for the answer to a message that went
        assert passive.traffic.messages == 1


def stored(place: Place) -> tuple[Store, BlockSchema]:
    block = bank_block(place.folder)
    store = Store(make_private_folder(place.folder / "store"))
    return store, store.add(block, made_mock(block))


def of_a_changed_block(place: Place) -> None:
    """Cells of the block were changed where it is stored, after its commitment was approved."""
    store, schema = stored(place)
    path = store.folder / schema.block / "v1" / "column-0.npy"
    np.save(path, np.load(path) + 1)
    store.open(schema.commitment, schema.names)


def of_a_replaced_block(place: Place) -> None:
    """The approved version is still there, and there is a newer one: somebody was taken out of it, perhaps."""
    store, schema = stored(place)
    block = bank_block(place.folder)
    store.add(block, made_mock(block), replace=True)
    store.find(schema.commitment)


def once_more(place: Place) -> None:
    found = ledger(place.folder)
    run = found.reserve(D, NOW).run
    found.commit(D, run, NOW)
    found.finish(D, run, RunState.DONE, "", NOW, committed=True)
    found.reserve(D, NOW)


def at_the_same_time(place: Place) -> None:
    found = ledger(place.folder, allowed=2)
    found.reserve(D, NOW)
    found.reserve(D, NOW)


def again_and_again(place: Place) -> None:
    """An interrupted run is taken up more often than it may be."""
    found = ledger(place.folder)
    for _ in range(TAKEN_UP + 2):
        run = found.reserve(D, NOW).run
        found.commit(D, run, NOW)
        found.finish(D, run, RunState.INTERRUPTED, "interrupted", NOW, committed=True)


def after(place: Place, *, what: Callable[[Ledger], object]) -> None:
    found = ledger(place.folder)
    what(found)
    found.reserve(D, NOW)


def finished_after_all(place: Place) -> None:
    """A run that was revoked comes to its end before it has heard of that."""
    found = ledger(place.folder)
    run = found.reserve(D, NOW).run
    found.revoke(D, "revoked by owner", NOW)
    found.finish(D, run, RunState.DONE, "", NOW, committed=True)
    if found.find(D).state is RunState.REVOKED:
        raise Stopped("it stays REVOKED")


def never_approved(place: Place) -> None:
    found = Ledger(place.folder / "ledger.db")
    found.bind(D, caller="e" * 64, analyst="ana", allowed=1, now=NOW)
    found.reserve(D, NOW)


def by_somebody_else(place: Place) -> None:
    ledger(place.folder).bind(D, caller="f" * 64, analyst="bob", allowed=1, now=NOW)


def beyond_the_budget(place: Place) -> None:
    """One alignment more than this party allows with the peer."""
    found = ledger(place.folder)
    Alignments(place.folder / "ledger.db")
    planned = Planned(peer="shop", allowed=0, own_set="own", peer_set="its")
    found.reserve(D, NOW, lambda database, run: use(database, D, run, (planned,)))


RULES = (
    Rule(
        name="worker: the request is the one that it was started for",
        off=(Cut(PAPERS, "digest(request) != spec.digest"), APPROVED),
        attempt=partial(with_papers, steps=13),
        stopped=RequestError,
        saying="holds another request",
    ),
    Rule(
        name="worker: every party's approval is among its papers",
        off=(APPROVED,),
        attempt=partial(with_papers, one_approval=True),
        stopped=NotApprovedError,
        saying="approval missing",
    ),
    Rule(
        name="worker: before the request's date",
        off=(Cut("protocols.approval.verify_all", "check_expiry(request, now)", "pass"),),
        attempt=partial(with_papers, late=True),
        stopped=ExpiredError,
        saying="expired",
    ),
    Rule(
        name="worker: no step after the request's date",
        off=(
            Cut(
                "parties.running.worker.Worker._check",
                "check_expiry(self._request, self._tools.now())",
                "pass",
            ),
        ),
        attempt=past_its_date,
        stopped=ExpiredError,
        saying="expired",
    ),
    Rule(
        name="worker: the code digest is that of the code installed",
        off=(Cut("parties.catalog.check_code", "request.code_digest != code_digest()"),),
        attempt=of_other_code,
        stopped=CodeDigestError,
        saying="made for code",
    ),
    Rule(
        name="worker: a role of the computation",
        off=(Cut(PAPERS, "not computation.takes(spec.role)"),),
        attempt=partial(with_papers, role="observer"),
        stopped=CodeDigestError,
        saying="no role observer",
    ),
    Rule(
        name="worker: no message before its supervisor has a run for it (used up)",
        off=(Cut("parties.running.worker.Worker._ask", 'answer.get("ok") is not True'),),
        attempt=past_the_supervisor,
        stopped=StateError,
        saying="refused run_committed",
    ),
    Rule(
        name="worker: a revocation stops the run within a step",
        off=(Cut("parties.running.stopping.StopFlag.check", "self._asked is not None"),),
        attempt=while_revoked,
        stopped=RevokedRun,
        saying="an approval was revoked here",
    ),
    Rule(
        name="worker: no message that the log hasn't reserved",
        off=(Cut(f"{DRIVE}_send", "self._use()", "pass"),),
        attempt=unreserved,
        stopped=AuditError,
        saying="no room",
    ),
    Rule(
        name="worker: a block's content is what was approved",
        off=(
            Cut(
                "parties.blocks.block_files.BlockReader.check",
                "part_digest(bytes.fromhex(self._content.salt), file, data) != self._content.digest(file)",
            ),
        ),
        attempt=of_a_changed_block,
        stopped=BlockError,
        saying="content changed",
    ),
    Rule(
        name="worker: a replaced block isn't opened any more",
        off=(Cut("parties.blocks.store.Store.find", "version < newest.version"),),
        attempt=of_a_replaced_block,
        stopped=BlockError,
        saying="was replaced by version 2",
    ),
    Rule(
        name="used up: an approved run is used once",
        off=(Cut(f"{LEDGER}_check_left", "row.used < row.allowed", "True"),),
        attempt=once_more,
        stopped=RunsUsedError,
        saying="used 1 of 1",
    ),
    Rule(
        name="used up: one run of a request at a time",
        off=(Cut(f"{LEDGER}_check_startable", "row.state is RunState.RUNNING"),),
        attempt=at_the_same_time,
        stopped=StateError,
        saying="is running",
    ),
    Rule(
        name="used up: a run is taken up again so often and no more",
        off=(Cut(f"{LEDGER}_may_be_taken_up", ' and int(run["committed"]) <= TAKEN_UP', ""),),
        attempt=again_and_again,
        stopped=RunsUsedError,
        saying="taken up again",
    ),
    Rule(
        name="revoked: it starts never again",
        off=(Cut(f"{LEDGER}_check_startable", "row.state is RunState.REVOKED"),),
        attempt=partial(after, what=lambda found: found.revoke(D, "revoked by owner", NOW)),
        stopped=RevokedRun,
        saying="was revoked",
    ),
    Rule(
        name="revoked: no end of a run takes that back",
        off=(
            Cut(
                f"{LEDGER}Ledger.finish",
                "RunState.REVOKED if row.state is RunState.REVOKED else state",
                "state",
            ),
        ),
        attempt=finished_after_all,
        stopped=Stopped,
        saying="stays REVOKED",
    ),
    Rule(
        name="no start of what is pending",
        off=(Cut(f"{LEDGER}_check_startable", "row.state is RunState.PENDING"),),
        attempt=never_approved,
        stopped=NotApprovedError,
        saying="not approved here",
    ),
    Rule(
        name="a request is its submitter's",
        off=(Cut(f"{LEDGER}_is_bound", 'row["caller"] != caller'),),
        attempt=by_somebody_else,
        stopped=RequestError,
        saying="belongs to another caller",
    ),
    Rule(
        name="budget of alignments with a peer",
        off=(Cut("parties.control.alignments.use", "used >= each.allowed"),),
        attempt=beyond_the_budget,
        stopped=AlignmentsUsedError,
        saying="used 0 of 0",
    ),
)
