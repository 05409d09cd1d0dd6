"""Where a model or a request comes from, and what came of a block: both directions, from the party's own papers.

From a model or a request to the data versions, the approvals, the code and the agreement behind it; from a block's
version to the requests that named it and the models that learnt from it. The entries of the audit log are named beside.
"""

from collections.abc import Mapping, Sequence

from parties import catalog
from parties.blocks.store import Store
from parties.control.runs import Ledger
from parties.home.documents import Documents
from parties.home.policy import read_policy
from parties.home.state import State
from parties.roles.model_records import ModelRecord, model_records
from parties.roles.reviewing import chosen
from protocols.audit import read
from protocols.errors import DataMissingError, RequestError
from protocols.request import ComputationRequest, blocks_of, party

Document = dict[str, object]


def trace(state: State, what: str) -> tuple[Document, str]:
    """The trace of a block (NAME or NAME:VERSION), else of the request or model whose digest begins with `what`.

    Raises RequestError when there is none, AuditError when the log is altered.
    """
    name, _, version = what.partition(":")
    if name in _block_names(state):
        document = _block_trace(state, name, version)
    else:
        document = _request_trace(state, _digest(state, what))
    return document, "\n".join(_lines(document))


def _block_names(state: State) -> tuple[str, ...]:
    return tuple(schema.block for schema in Store(state.blocks).list())


def _digest(state: State, start: str) -> str:
    known = [row.digest for row in Ledger(state.ledger_path).all()]
    try:
        return chosen(known, start, state.name)
    except RequestError as error:
        blocks = ", ".join(_block_names(state)) or "none"
        raise RequestError(f"{error}, and no block has that name", remedy=f"blocks: {blocks}") from error


def _request_trace(state: State, digest: str) -> Document:
    documents, row = Documents(state.folder), Ledger(state.ledger_path).find(digest)
    request = documents.request(digest).request
    record = next((each for each in model_records(state) if each.digest == digest), None)
    return {
        "kind": "model" if record is not None else "request",
        "request": digest,
        "state": row.state.value,
        "runs": f"used {row.used} of {row.allowed}",
        "model": {} if record is None else _model_line(record),
        "data": [_data_line(state, request, block.role) for block in request.blocks],
        "approvals": _approvals(documents, digest),
        "code": {
            "computation": request.computation,
            "version": request.computation_version,
            "digest": request.code_digest,
        },
        "agreement": _agreement(state, request, documents, digest),
        "uses_model": catalog.model_wanted(request),
        "used_by": [line for line in _request_lines(state) if line["uses_model"] == digest],
        "log": _log_lines(state, f"request {digest}", f"model {digest}"),
    }


def _data_line(state: State, request: ComputationRequest, role: str) -> Document:
    entry = next(block for block in request.blocks if block.role == role)
    owner = party(request, role).name
    return {
        "party": owner,
        "role": role,
        "block": entry.block,
        "version": entry.version,
        "commitment": entry.commitment,
        "columns": list(entry.columns),
        "label": entry.label,
        "standing": _standing(state, entry.block, entry.version) if owner == state.name else "at its party",
    }


def _standing(state: State, name: str, version: int) -> str:
    """Whether the content of a version of our block is still here."""
    try:
        newest = Store(state.blocks).describe(name).version
    except DataMissingError:
        return "no longer here"
    return "current" if version == newest else f"withdrawn: replaced, version {newest} is the newest"


def _approvals(documents: Documents, digest: str) -> list[Document]:
    return [
        {
            "person": decision.person,
            "role": decision.role.value,
            "organisation": decision.organisation,
            "decision": decision.decision.value,
            "time": decision.time,
            "reason": decision.reason,
        }
        for decision in documents.decisions(digest)
    ]


def _agreement(state: State, request: ComputationRequest, documents: Documents, digest: str) -> Document:
    """What was agreed: purpose, who with whom, limits, and under which policy this party countersigned."""
    approval, policy = documents.approval(digest), read_policy(state.folder)
    peers = [entry.name for entry in request.parties if entry.name != state.name]
    return {
        "purpose": request.purpose,
        "analyst": f"{request.analyst.name}, {request.analyst.organisation}",
        "parties": {entry.role: entry.name for entry in request.parties},
        "minimum_group": request.minimum_group,
        "minimum_overlap": request.minimum_overlap,
        "expires": request.expires,
        "countersigned": "" if approval is None else approval.time,
        "policy_then": "" if approval is None else approval.policy_version,
        "policy_now": policy.version,
        "alignments_allowed": {peer: policy.agreement(peer).max_psi_runs for peer in peers},
    }


def _block_trace(state: State, name: str, version: str) -> Document:
    newest = Store(state.blocks).describe(name).version
    if version and (not version.isdecimal() or not 0 < int(version) <= newest):
        raise RequestError(f"block {name} has no version {version[:20]!r}", remedy=f"versions: 1 to {newest}")
    wanted = [int(version)] if version else list(range(1, newest + 1))
    return {
        "kind": "block",
        "block": name,
        "versions": [_version(state, name, each) for each in wanted],
        "log": _log_lines(state, f"block {name}"),
    }


def _version(state: State, name: str, version: int) -> Document:
    return {
        "version": version,
        "commitment": Store(state.blocks).describe(name, version).commitment,
        "standing": _standing(state, name, version),
        "models": [
            _model_line(record)
            for record in model_records(state)
            if record.block is not None and (record.block.block, record.block.version) == (name, version)
        ],
        "requests": [line for line in _request_lines(state) if line["own_data"] == f"{name}:{version}"],
    }


def _request_lines(state: State) -> list[Document]:
    """One line for each request: what it computes on which data of ours, how it stands, whose model it uses."""
    documents, lines = Documents(state.folder), list[Document]()
    for row in Ledger(state.ledger_path).all():
        request = documents.request(row.digest).request
        own = blocks_of(request, state.name)
        lines.append(
            {
                "request": row.digest,
                "computation": request.computation,
                "state": row.state.value,
                "own_data": f"{own[0].block}:{own[0].version}" if own else "",
                "uses_model": catalog.model_wanted(request),
            }
        )
    return lines


def _model_line(record: ModelRecord) -> Document:
    return {
        "model": record.digest,
        "learnt_from": record.learnt_from,
        "runs": len(record.runs),
        "standing": record.withdrawn or "usable",
    }


def _log_lines(state: State, *targets: str) -> list[Document]:
    if not state.audit_path.exists():
        return []
    return [
        {"entry": entry.index, "time": entry.time, "event": entry.event.value, "who": entry.who}
        for entry in read(state.audit_path)
        if entry.object in targets
    ]


def _lines(document: Mapping[str, object], indent: str = "") -> list[str]:
    """The document as text: a line for each fact, lists of records one record on a line."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            lines.append(f"{indent}{name}")
            for row in value:
                lines += _row(row, f"{indent}  ")
        else:
            lines.append(f"{indent}{name:<12} {_flat(value) or 'none'}")
    return lines


def _row(row: Mapping[str, object], indent: str) -> list[str]:
    """A record on one line, records inside it below."""
    inner = {name: value for name, value in row.items() if _holds_records(value)}
    flat = ", ".join(f"{name} {_flat(value)}" for name, value in row.items() if name not in inner and value)
    return [f"{indent}{flat}", *_lines(inner, f"{indent}  ")]


def _holds_records(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and any(isinstance(v, Mapping) for v in value)
    )


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
