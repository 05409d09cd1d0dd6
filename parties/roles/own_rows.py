"""What a run left about this party's own people, joined with their keys: predictions, pseudo labels."""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from parties import catalog
from parties.blocks.store import Store
from parties.computation import OwnRows
from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal
from parties.home.private_files import write_private
from parties.home.state import State
from parties.roles.model_records import read_arrays
from parties.roles.owner import check_new_file
from parties.roles.reviewing import chosen
from parties.running.runspec import ARTIFACTS_FILE
from protocols.audit import AuditEvent
from protocols.errors import RevokedRun, StateError
from protocols.request import ComputationRequest, blocks_of


def write_own_rows(state: State, start: str, out: Path) -> str:
    """Writes the newest finished run's rows of the request that begins with `start`, one line per person (0600).

    The export is logged first. Raises RequestError when there is no such request, RevokedRun when consent to it ended,
    StateError for a file that exists, and for a request that has no finished run or left nothing about this party's
    people, BlockError when the block was replaced since.
    """
    digest, run, request = _finished(state, start)
    if Ledger(state.ledger_path).find(digest).state is RunState.REVOKED:
        raise RevokedRun(f"request {digest[:12]} was revoked", remedy="ask again with a new request")
    computation = catalog.find(request.computation, request.computation_version)
    assert computation.own_rows is not None
    left = computation.own_rows(read_arrays(run_folder(state.runs, digest, run) / ARTIFACTS_FILE))
    if left is None:
        raise StateError(
            f"run {run} of request {digest[:12]} left nothing about people of {state.name}",
            remedy="a prediction goes to its receiver alone, and a vote tells of this party's own people only if it was"
            " asked for with unlabelled = true; see `fedaccord review show`",
        )
    check_new_file(out)
    key, keys = _keys(state, request)
    journal = Journal(state, lambda: datetime.now(UTC))
    owner = Actor(who="owner", role="owner", organisation=state.organisation, origin="command line")
    target = f"request {digest}"
    with journal.before(AuditEvent.ROWS_EXPORTED, owner, target, run=run, people=len(left.rows)):
        write_private(out, _csv_text(key, keys, left))
    return f"{len(left.rows)} people in {out} (mode 0600): personal data of {state.name}'s own people"


def _finished(state: State, start: str) -> tuple[str, int, ComputationRequest]:
    """Digest, newest finished run and text of the request, among those that left rows of people."""
    ledger, documents = Ledger(state.ledger_path), Documents(state.folder)
    found: dict[str, tuple[int, ComputationRequest]] = {}
    others: dict[str, str] = {}
    for row in ledger.all():
        request, runs = documents.request(row.digest).request, ledger.done_runs(row.digest)
        computation = catalog.CATALOG.get(request.computation)
        if computation is None or computation.own_rows is None:
            others[row.digest] = f"is of {request.computation}, which leaves nothing about single people"
        elif not runs:
            others[row.digest] = "has no finished run"
        else:
            found[row.digest] = (runs[-1], request)
    if not any(digest.startswith(start.lower()) for digest in found):
        _say_why(others, start)
    digest = chosen(list(found), start, state.name)
    return digest, *found[digest]


def _say_why(others: Mapping[str, str], start: str) -> None:
    """StateError with what is wrong with the one request that begins with `start`, if there is one."""
    meant = [digest for digest in others if start and digest.startswith(start.lower())]
    if len(meant) == 1:
        raise StateError(
            f"request {meant[0][:12]} {others[meant[0]]}",
            remedy="name the finished request of a prediction or of a vote",
        )


def _keys(state: State, request: ComputationRequest) -> tuple[str, tuple[bytes, ...]]:
    """Name of the key column, and the key of every row of this party's block."""
    (block,) = blocks_of(request, state.name)
    return block.subject_key, Store(state.blocks).open(block.commitment, block.columns).keys


def _csv_text(key: str, keys: tuple[bytes, ...], left: OwnRows) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([key, *left.columns])
    for row, *cells in zip(left.rows, *left.columns.values(), strict=True):
        writer.writerow([keys[row].decode(), *cells])
    return text.getvalue()
