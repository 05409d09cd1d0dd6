"""The stored models of a party, as its ledger, its papers and its run folders tell of them."""

from dataclasses import dataclass
from pathlib import Path

from parties import catalog
from parties.computation import Arrays, ModelLeft
from parties.control.endings import WITHDRAWN_FILE
from parties.control.runs import Ledger, RequestRow, RunState
from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.private_files import read_json
from parties.home.state import State
from parties.roles.reviewing import chosen
from parties.running.runspec import ARTIFACTS_FILE
from protocols.errors import ModelError, WireError
from protocols.request import BlockEntry, ComputationRequest, blocks_of, party_named
from protocols.wire import unpack_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """One stored model: a training with its finished runs, the newest last, and this party's role and block in it.

    `withdrawn` says by whom, "" for nobody; `paths` are the files of the runs, in their order.
    """

    digest: str
    request: ComputationRequest
    left: ModelLeft
    role: str
    block: BlockEntry | None
    runs: tuple[int, ...]
    paths: tuple[Path, ...]
    withdrawn: str
    changed: str

    @property
    def learnt_from(self) -> str:
        """Block and version in words."""
        return "no block" if self.block is None else f"{self.block.block} version {self.block.version}"

    def arrays(self) -> Arrays:
        """What the newest run left; ModelError when that can't be read."""
        return read_arrays(self.paths[-1])

    def facts(self) -> dict[str, object]:
        """What leads from the model to the data, the people and the agreement behind it."""
        request, block = self.request, self.block
        return {
            "model": self.digest,
            "run": self.runs[-1],
            "computation": request.computation,
            "version": request.computation_version,
            "code_digest": request.code_digest,
            "role": self.role,
            "parties": {entry.role: entry.name for entry in request.parties},
            "block": {}
            if block is None
            else {"name": block.block, "version": block.version, "commitment": block.commitment},
            "columns": [] if block is None else list(block.columns),
            "purpose": request.purpose,
            "analyst": request.analyst.name,
            "changed": self.changed,
            "withdrawn": self.withdrawn,
        }


def model_records(state: State) -> tuple[ModelRecord, ...]:
    """All models of the party, the newest change last."""
    ledger, documents = Ledger(state.ledger_path), Documents(state.folder)
    found = []
    for row in ledger.all():
        runs = ledger.done_runs(row.digest)
        request = documents.request(row.digest).request
        computation = catalog.CATALOG.get(request.computation)
        if runs and computation is not None and computation.model_left is not None:
            found.append(_record(state, row, runs, request, computation.model_left))
    return tuple(found)


def find_model(state: State, start: str) -> ModelRecord:
    """The model whose digest begins with `start`; RequestError when none or several do."""
    records = {record.digest: record for record in model_records(state)}
    return records[chosen(list(records), start, state.name)]


def read_arrays(path: Path) -> Arrays:
    """The artifacts in a run's file; ModelError when they can't be read."""
    try:
        return unpack_arrays(path.read_bytes())
    except (OSError, WireError) as error:
        raise ModelError(f"{path} can't be read", remedy="restore it from a backup, or run again") from error


def _record(
    state: State, row: RequestRow, runs: tuple[int, ...], request: ComputationRequest, left: ModelLeft
) -> ModelRecord:
    folders = [run_folder(state.runs, row.digest, run) for run in runs]
    return ModelRecord(
        digest=row.digest,
        request=request,
        left=left,
        role=party_named(request, state.name).role,
        block=next(iter(blocks_of(request, state.name)), None),
        runs=runs,
        paths=tuple(folder / ARTIFACTS_FILE for folder in folders),
        withdrawn=_withdrawn(row, folders[-1]),
        changed=row.changed,
    )


def _withdrawn(row: RequestRow, folder: Path) -> str:
    mark = folder / WITHDRAWN_FILE
    if mark.exists():
        return str(read_json(mark).get("mark", "withdrawn"))
    return f"revoked: {row.reason}" if row.state is RunState.REVOKED else ""
