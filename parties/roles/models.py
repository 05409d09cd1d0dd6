"""What an owner does with this party's parts of trained models: list, show, export, forget what they remember.

A model is known by the digest of the request that it was trained for. What is shown leads from it to data versions,
approvals, code and agreement, and from a data version to the models that learnt from it.
"""

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from parties import catalog
from parties.computation import Arrays
from parties.control.runs import Ledger
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal
from parties.home.people import find_person
from parties.home.private_files import make_private_folder, write_json, write_private
from parties.home.state import State
from parties.roles.facts import Fact
from parties.roles.model_records import ModelRecord, find_model, model_records, read_arrays
from protocols.audit import AuditEvent
from protocols.errors import ApprovalError, FedaccordError, ModelError, StateError
from protocols.keys import load_key, public_hex
from protocols.records import check_text
from protocols.wire import pack_arrays

NOT_TESTED = "not tested"
ATTACKS = ("membership inference", "feature inference", "label leakage from gradients")
FORMAT = "fedaccord model part, version 1"
TENSORS_FILE, DESCRIPTION_FILE = "model.pt", "model.json"


def list_models(state: State, *, block: str = "", version: int = 0) -> tuple[dict[str, object], str]:
    """All models, or those that learnt from a block (of a version), as a document and as one line each."""
    found = [record for record in model_records(state) if _learnt_from(record, block, version)]
    lines = [
        f"{record.digest[:12]}  {record.request.computation:<22} {record.learnt_from:<24} {record.changed}  "
        f"{record.withdrawn or 'usable'}"
        for record in found
    ]
    return {"models": [record.facts() for record in found]}, "\n".join(lines) or "no models"


def _learnt_from(record: ModelRecord, block: str, version: int) -> bool:
    own = record.block
    return not block or (own is not None and own.block == block and version in (0, own.version))


def show_model(state: State, start: str) -> tuple[dict[str, object], str]:
    """One model with all that it leads to, as a document and as text. ModelError when its part isn't whole."""
    record = find_model(state, start)
    document: dict[str, object] = {
        **record.facts(),
        "part": dict(record.left.describe(record.role, record.arrays())),
        "decisions": [
            {"person": d.person, "role": d.role.value, "decision": d.decision.value, "time": d.time}
            for d in Documents(state.folder).decisions(record.digest)
        ],
        "used_by": _uses(state, record.digest),
    }
    return document, "\n".join(f"{fact.name:<12} {fact.text}" for fact in model_facts(document))


def export_model(
    state: State, start: str, folder: Path, *, person: str, reason: str, passphrase: bytes | None
) -> tuple[dict[str, object], str]:
    """Writes the part into a new folder (0700), as a torch state dict and its description.

    That is a decision of its own, by one of our owners who proves it with their key and says why: it is logged before
    anything is written, and stands in the description. Raises ApprovalError for anybody else and without a reason,
    ModelError for a withdrawn model or a part that isn't whole, StateError for a folder that isn't new.
    """
    record = find_model(state, start)
    decided = _owner_decides(state, _target(record), person, reason, passphrase)
    if record.withdrawn:
        raise ModelError(f"model {record.digest[:12]} was withdrawn: {record.withdrawn}")
    arrays = record.arrays()
    part = record.left.describe(record.role, arrays)
    tensors = {name: arrays[name] for name in record.left.tensors(record.role, arrays)}
    if folder.exists():
        raise StateError(f"{folder} exists already", remedy="name a new folder; nothing is overwritten")
    description: dict[str, object] = {
        "format": FORMAT,
        **record.facts(),
        "part": dict(part),
        "preprocessing": dict(record.left.preprocessing(record.role, arrays)),
        "tensors": {name: {"shape": list(a.shape), "dtype": a.dtype.name} for name, a in tensors.items()},
        "leakage_tests": NOT_TESTED,
        "decision": {"person": decided.who, "reason": reason},
    }
    with _journal(state).before(
        AuditEvent.MODEL_EXPORTED,
        decided,
        _target(record),
        run=record.runs[-1],
        reason=reason,
        leakage=NOT_TESTED,
    ):
        make_private_folder(folder)
        write_private(folder / TENSORS_FILE, _state_dict(tensors))
        write_json(folder / DESCRIPTION_FILE, description)
    told = {name: value for name, value in description.items() if name != "preprocessing"}
    return told, (
        f"{len(tensors)} tensors in {folder / TENSORS_FILE}, described in {folder / DESCRIPTION_FILE} (mode 0600)\n"
        f"NOT TESTED: {', '.join(ATTACKS)}; decided all the same by {decided.who}: {reason}"
    )


def _owner_decides(state: State, target: str, person: str, reason: str, passphrase: bytes | None) -> Actor:
    """The owner, who has the key of people.json; a refusal is logged."""
    who = find_person(state.folder, person)
    actor = Actor(who=who.name, role=who.role, organisation=who.organisation, origin="command line")
    try:
        if who.role != "owner":
            raise ApprovalError(f"{who.name} is no owner", remedy="an owner decides whether a model leaves")
        check_text(reason, "reason", ApprovalError, limit=2000)
        key = load_key(state.folder / "keys" / "people" / f"{who.name}.pem", passphrase)
        if public_hex(key) != who.key:
            raise ApprovalError(f"the key of {who.name} isn't the one in people.json")
    except FedaccordError as error:
        _journal(state).refused(AuditEvent.MODEL_EXPORTED, actor, target, error)
        raise
    return actor


def forget_memory(state: State, start: str) -> str:
    """Deletes from every run of the training what the model remembers of the other party's people, then logs that.

    Raises StateError when there is nothing (any more).
    """
    record = find_model(state, start)
    forgotten = [run for run, path in zip(record.runs, record.paths, strict=True) if _forget(record, path)]
    if not forgotten:
        raise StateError(
            f"this party's part of model {record.digest[:12]} remembers nothing of the other party's people"
        )
    runs = " ".join(map(str, forgotten))
    _journal(state).ok(AuditEvent.MEMORY_DELETED, _owner(state), _target(record), runs=runs)
    return (
        f"model {record.digest[:12]}: what it remembers of the other party's people is deleted; it predicts for people "
        "with both views only. Earlier exports keep theirs"
    )


def _forget(record: ModelRecord, path: Path) -> bool:
    if not path.is_file():
        return False
    arrays = read_arrays(path)
    kept = record.left.without_memory(arrays)
    if len(kept) < len(arrays):
        write_private(path, pack_arrays(kept))
    return len(kept) < len(arrays)


def _state_dict(arrays: Arrays) -> bytes:
    """The file that `torch.load(..., weights_only=True)` reads: tensors by name."""
    import torch

    buffer = io.BytesIO()
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, buffer)
    return buffer.getvalue()


def _uses(state: State, digest: str) -> list[dict[str, object]]:
    """The requests that name the model, and how they stand here."""
    documents = Documents(state.folder)
    asked = [(row, documents.request(row.digest).request) for row in Ledger(state.ledger_path).all()]
    return [
        {"request": row.digest, "computation": request.computation, "state": row.state.value}
        for row, request in asked
        if catalog.model_wanted(request) == digest
    ]


def model_facts(document: Mapping[str, object]) -> tuple[Fact, ...]:
    """The document of `show_model` for a reader."""
    part = document["part"]
    assert isinstance(part, Mapping)
    shown = [
        (name, _shown(value))
        for name, value in document.items()
        if name not in ("part", "decisions", "used_by")
    ]
    shown.append(("features", str(part["features"])))
    if "memory" in part:
        shown.append(("memory", _shown(part["memory"] or "deleted: no missing view can be filled")))
    for title in ("decisions", "used_by"):
        rows = document[title]
        assert isinstance(rows, list)
        shown += [(title, _shown(row)) for row in rows]
    return tuple(Fact(name=name, text=text or "none") for name, text in shown)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _target(record: ModelRecord) -> str:
    return f"model {record.digest}"


def _journal(state: State) -> Journal:
    return Journal(state, lambda: datetime.now(UTC))


def _owner(state: State) -> Actor:
    return Actor(who="owner", role="owner", organisation=state.organisation, origin="command line")
