"""Taking people out of a block on their demand, and what has learnt from them until then."""

from pathlib import Path

import numpy as np

from parties.blocks.erasure import erase_people
from parties.blocks.store import Store
from parties.home.documents import Documents
from parties.home.state import State
from parties.roles.model_records import model_records
from parties.roles.owner import journal, owner, publish, running_requests
from protocols.audit import AuditEvent
from protocols.request import blocks_of

SOURCE = (
    "take them out of the file that the block was read from, too: `block add --replace` would bring them back"
)


def erase(state: State, name: str, key_file: Path) -> tuple[dict[str, object], str]:
    """Stores the block without these people, deletes the version before, and lists what has learnt from it.

    What is taken away comes first, then its entry, which has the number of people and no key. Who was in which earlier
    version isn't known any more, so all models of earlier versions are listed. Raises like `erase_people`, and
    AuditError when it can't be logged: then the people are gone all the same.
    """
    done = erase_people(Store(state.blocks), name, key_file, np.random.default_rng())
    schema = done.schema
    journal(state).ok(
        AuditEvent.PEOPLE_ERASED,
        owner(state),
        f"block {name}",
        version=schema.version,
        before=done.before,
        people=done.people,
    )
    published = "now" if publish(state, name) else "with the next `fedaccord serve`"
    models, running = _models(state, name, done.before), _running(state, name)
    document: dict[str, object] = {
        "block": name,
        "version": schema.version,
        "before": done.before,
        "people": done.people,
        "absent": done.absent,
        "models": models,
        "running": running,
    }
    lines = [
        f"block {name} version {schema.version}: {done.people} people erased, content of version {done.before} deleted"
        + (f"; {done.absent} keys were not in it" if done.absent else ""),
        f"published   {published}; approvals of version {done.before} don't carry over",
        f"source      {SOURCE}",
        *(
            f"model       {m['model']}  learnt from version {m['version']}, {m['standing']}: review revoke ends its use"
            for m in models
        ),
        *(
            f"RUNNING     {digest}: reads version {done.before} until it ends; review revoke stops it"
            for digest in running
        ),
    ]
    return document, "\n".join(lines if models else [*lines, "models      none have learnt from it"])


def _models(state: State, name: str, newest: int) -> list[dict[str, object]]:
    """The models that learnt from the block in a version up to this one."""
    return [
        {
            "model": record.digest,
            "version": record.block.version,
            "standing": record.withdrawn or "usable",
            "approved_by": [d.person for d in Documents(state.folder).decisions(record.digest)],
        }
        for record in model_records(state)
        if record.block is not None and record.block.block == name and record.block.version <= newest
    ]


def _running(state: State, name: str) -> list[str]:
    """Requests with a run that has the block open now."""
    return [
        digest
        for digest, request in running_requests(state)
        if any(block.block == name for block in blocks_of(request, state.name))
    ]
