"""What a worker is made of: catalog, code check, data, gate and clock; and the check of its papers with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from parties import catalog
from parties.computation import Arrays, Computation
from parties.links.handshake import approvals_of
from parties.running.runspec import RunSpec
from protocols.errors import CodeDigestError, ModelError, RequestError, WireError
from protocols.gate import Gate, ReleaseKey
from protocols.request import ComputationRequest, digest
from protocols.wire import unpack_arrays
from vertical.table import PartyData


def open_block(spec: RunSpec, request: ComputationRequest) -> PartyData:
    """The columns of the role's block that the request names, from the party's store.

    Before anything is opened, the request must describe the block as it is, and all blocks' keys by rules that agree.
    """
    from parties.blocks.keys.agreement import check_request
    from parties.blocks.schema import check_entry
    from parties.blocks.store import Store

    blocks = [block for block in request.blocks if block.role == spec.role]
    if len(blocks) != 1:
        raise RequestError(f"the request names {len(blocks)} blocks for role {spec.role}, expected one")
    check_request(request)
    store, entry = Store(Path(spec.store)), blocks[0]
    check_entry(entry, store.find(entry.commitment))
    return store.open(entry.commitment, entry.columns, entry.label)


def open_model(spec: RunSpec, computation: Computation) -> Arrays | None:
    """This party's part of the model that the computation uses, None when it uses none; ModelError when unreadable."""
    if computation.model_used is None:
        return None
    if not spec.model:
        raise ModelError(f"{computation.name} needs a trained model, and the supervisor named none")
    try:
        return unpack_arrays(Path(spec.model).read_bytes())
    except (OSError, WireError) as problem:
        raise ModelError("the stored model can't be read", remedy="train again") from problem


def utc_now() -> datetime:
    """The time on this machine."""
    return datetime.now(UTC)


def make_gate(request: ComputationRequest, role: str, used: Mapping[ReleaseKey, int]) -> Gate:
    """The gate of the request's manifest."""
    return Gate(request, role, used=used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a worker is made of; another one is only ever passed in by code in the same process, as tests do."""

    find: Callable[[str, str], Computation] = catalog.find
    check_code: Callable[[ComputationRequest], None] = catalog.check_code
    open_data: Callable[[RunSpec, ComputationRequest], PartyData] = open_block
    open_model: Callable[[RunSpec, Computation], Arrays | None] = open_model
    gate: Callable[[ComputationRequest, str, Mapping[ReleaseKey, int]], Gate] = make_gate
    now: Callable[[], datetime] = utc_now


def check_papers(spec: RunSpec, request: ComputationRequest, tools: Tools) -> Computation:
    """The computation, when request, approvals and code here are those agreed on; raises what differs."""
    if digest(request) != spec.digest:
        raise RequestError("run.json holds another request than the one it was made for")
    approvals_of(spec.approvals, request, tools.now())
    computation = tools.find(request.computation, request.computation_version)
    tools.check_code(request)
    if not computation.takes(spec.role):
        raise CodeDigestError(f"computation {computation.name} has no role {spec.role}")
    if any(bool(block.columns) is not computation.reads_columns for block in request.blocks):
        reads = "columns of every block" if computation.reads_columns else "keys only, and no column"
        raise RequestError(f"{computation.name} reads {reads}")
    return computation
