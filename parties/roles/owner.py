"""What an owner does outside a run: peers, blocks and analysts' accounts; each act is in the audit log."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from parties.blocks.block import BlockSpec, read_block
from parties.blocks.registration import register
from parties.blocks.schema import BlockSchema, schema_text
from parties.blocks.store import Store
from parties.blocks.subject_key import KeyReport
from parties.control.asking import ask
from parties.control.socket import NAME as SOCKET_NAME
from parties.home.cards import PartyCard
from parties.home.journal import Actor, Journal
from parties.home.private_files import write_private
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import StateError

CARD_LIMIT = 16_384  # bytes


def add_peer(state: State, card: Path, fingerprint: str) -> PartyCard:
    """Accepts the card of a party or an analyst. Raises RosterError when the fingerprint is another one."""
    try:
        text = card.read_bytes()[: CARD_LIMIT + 1].decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise StateError(f"card {card}: {error.strerror}") from error
    added = state.address_book().add_peer(text, fingerprint)
    if state.kind == "party":
        _journal(state).ok(
            AuditEvent.PEER_ADDED,
            _owner(state),
            f"{added.kind} {added.name}",
            organisation=added.organisation,
        )
    return added


def add_block(
    state: State,
    file: Path,
    spec: BlockSpec,
    *,
    mock: Path | None = None,
    replace: bool = False,
    dry_run: bool = False,
) -> str:
    """Registers the file as a block and gives back what became of it, in words; `dry_run` reads and checks only.

    A running supervisor publishes it at once, otherwise the next `serve` does.
    """
    if dry_run:
        return f"dry run, nothing stored: {_counts(read_block(file, spec).keys.report)}"
    generator = np.random.default_rng()
    done = register(Store(state.blocks), file, spec, generator=generator, mock=mock, replace=replace)
    schema = done.schema
    _journal(state).ok(
        AuditEvent.BLOCK_REGISTERED,
        _owner(state),
        f"block {schema.block}",
        version=schema.version,
        rows=schema.rows,
    )
    if (state.folder / SOCKET_NAME).exists():
        ask(state.folder, "publish", block=schema.block)
    return (
        f"block {schema.block} version {schema.version}: {_counts(done.keys)}\n"
        f"columns     {', '.join(schema.names)}\n"
        f"label       {schema.label or 'none'}\n"
        f"published   {schema.rows} rows (rounded up), commitment {schema.commitment[:16]}..."
    )


def describe_blocks(state: State, name: str) -> tuple[dict[str, object], str]:
    """The published facts of one block with some mock rows (or of all blocks), as a document and as text."""
    store = Store(state.blocks)
    if not name:
        schemas = store.list()
        lines = [
            f"{s.block:<20} version {s.version}  {s.rows:>9} rows  {len(s.columns)} columns" for s in schemas
        ]
        return {"blocks": [json.loads(schema_text(s)) for s in schemas]}, "\n".join(lines) or "no blocks yet"
    schema = store.describe(name)
    mock = store.mock(name)
    return json.loads(schema_text(schema)), "\n".join(
        [*_schema_lines(schema), "", "MOCK rows (nobody's):", mock.head(5).to_string(index=False)]
    )


def add_user(state: State, card: Path, fingerprint: str, email: str, out: Path) -> None:
    """Accepts an analyst, opens an account on the datasite and writes the login file. `serve` must be running."""
    added = add_peer(state, card, fingerprint)
    if added.kind != "analyst":
        raise StateError(
            f"{added.name} is a party, not an analyst", remedy="fedaccord peer add is for parties"
        )
    password = ask(state.folder, "add_user", name=added.name, email=email)["password"]
    login = {
        "party": state.name,
        "url": f"http://{state.host}:{state.port}",
        "email": email,
        "password": password,
    }
    write_private(out, json.dumps(login, indent=2) + "\n")


def _schema_lines(schema: BlockSchema) -> list[str]:
    lines = [
        f"block {schema.block} version {schema.version}, {schema.rows} rows (rounded up)",
        f"commitment  {schema.commitment}",
        f"subject key {schema.subject_key} ({schema.key_rule}; {schema.key_format.describe()})",
        f"label       {schema.label + ': ' + ', '.join(schema.classes) if schema.label else 'none'}",
        f"split       {', '.join(f'{part.split} {part.share:.0%}' for part in schema.splits)}",
    ]
    for column in schema.columns:
        shown = (
            ", ".join(column.levels)
            if column.levels
            else "  ".join(f"{q.share:.0%}: {q.value:g}" for q in column.quantiles)
        )
        lines.append(f"  {column.name:<18} {column.kind.value:<12} {shown[:90]}")
    return lines


def _counts(report: KeyReport) -> str:
    facts = [f"{report.usable} of {report.rows} rows have a usable key"]
    for count, what in (
        (report.blank, "blank"),
        (report.unusable, "unusable"),
        (report.duplicate_rows_left_out, "left out as duplicates"),
        (report.spaced, "with blanks around the key"),
    ):
        if count:
            facts.append(f"{count} {what}")
    return ", ".join(facts)


def _journal(state: State) -> Journal:
    return Journal(state, lambda: datetime.now(UTC))


def _owner(state: State) -> Actor:
    return Actor(who="owner", role="owner", organisation=state.organisation, origin="command line")
