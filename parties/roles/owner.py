"""What an owner does outside a run: peers, people, blocks and analysts' accounts; each act is in the audit log."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from parties.blocks.block import BlockSpec, read_block
from parties.blocks.columns import ColumnKind
from parties.blocks.dates import date_text
from parties.blocks.keys.reading import KeyReport
from parties.blocks.registration import rare_classes, register
from parties.blocks.schema import SMALLEST_GROUP, BlockSchema, PublicColumn, schema_text
from parties.blocks.store import Store
from parties.control.asking import ask, task_end
from parties.control.runs import Ledger
from parties.home.cards import CARD_LIMIT, PartyCard, card_text, parse_card
from parties.home.documents import Documents
from parties.home.journal import Actor, Journal
from parties.home.people import Person, create_person
from parties.home.private_files import write_private
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import DatasiteError, StateError
from protocols.request import ComputationRequest


def add_peer(state: State, card: Path, fingerprint: str) -> PartyCard:
    """Accepts the card of a party or an analyst, once that is in the log (an analyst has none).

    Raises RosterError when the fingerprint is another one, AuditError when it can't be logged.
    """
    book, text = state.address_book(), card_text_of(card)
    new = book.acceptable(text, fingerprint)
    if state.kind != "party":
        return book.add_peer(text, fingerprint)
    target = f"{new.kind} {new.name}"
    with journal(state).before(AuditEvent.PEER_ADDED, owner(state), target, organisation=new.organisation):
        return book.add_peer(text, fingerprint)


def add_person(state: State, *, name: str, role: str, organisation: str, passphrase: bytes | None) -> Person:
    """Makes a key for a person who may approve from now on, once that is in the log.

    Raises ConfigError for a name that is taken, AuditError when it can't be logged.
    """

    def recorded(person: Person) -> AbstractContextManager[None]:
        return journal(state).before(
            AuditEvent.CONFIG_CHANGED,
            owner(state),
            f"person {person.name}",
            role=person.role,
            organisation=person.organisation,
            key=person.key,
        )

    return create_person(
        state.folder,
        name=name,
        role=role,
        organisation=organisation or state.organisation,
        passphrase=passphrase,
        recorded=recorded,
    )


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

    A running supervisor publishes it at once, otherwise the next `serve` does. The version is known when the block is
    stored, so the entry comes after that and before the publication: with an AuditError the block is stored, and the
    next `serve` publishes it.
    """
    if dry_run:
        read = read_block(file, spec)
        counts = f"{_counts(read.keys.report)}{_rare(rare_classes(read))}"
        return f"dry run, nothing stored: {counts}{_read_as(read.source)}"
    generator = np.random.default_rng()
    done = register(Store(state.blocks), file, spec, generator=generator, mock=mock, replace=replace)
    schema = done.schema
    journal(state).ok(
        AuditEvent.BLOCK_REPLACED if replace else AuditEvent.BLOCK_REGISTERED,
        owner(state),
        f"block {schema.block}",
        version=schema.version,
        rows=schema.rows,
    )
    published = "now" if publish(state, schema.block) else "with the next `fedaccord serve`"
    return (
        f"block {schema.block} version {schema.version}: {_counts(done.keys)}{_read_as(done.source)}\n"
        f"columns     {', '.join(schema.names)}\n"
        f"label       {schema.label or 'none'}{_rare(done.rare_classes)}\n"
        f"published   {published}: {schema.rows} rows (rounded up), commitment {schema.commitment[:16]}..."
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
    mock = store.mock(name).head(5).replace("", "(missing)")
    return json.loads(schema_text(schema)), "\n".join(
        [*_schema_lines(schema), "", "MOCK rows (nobody's):", mock.to_string(index=False)]
    )


def add_user(state: State, card: Path, fingerprint: str, email: str, out: Path, *, wait: float = 0.0) -> str:
    """Accepts an analyst, opens an account on the datasite, writes the login file and gives back what became of it.

    `serve` must be running; `wait` is for how many seconds to wait until syft has the account. The password is kept
    in the login file alone, once syft has the account. Raises StateError for a card of a party, for a file that exists
    or can't be written, and when no supervisor runs: then the address book is as before. DatasiteError when syft
    refuses the account.
    """
    check_new_file(out)
    if parse_card(card_text_of(card)).kind != "analyst":
        raise StateError(
            f"{card} is the card of a party", remedy="accounts are for analysts; see `fedaccord peer add`"
        )
    ask(
        state.folder, "task_state", kind="add_user", about=email
    )  # a supervisor runs, before anything is changed
    added = add_peer(state, card, fingerprint)
    password = ask(state.folder, "add_user", name=added.name, email=email)["password"]
    url = f"http://{state.host}:{state.port}"
    login = {"party": state.name, "url": url, "email": email, "password": password}
    login["card"] = card_text(state.card())
    write_private(out, json.dumps(login, indent=2) + "\n")
    standing, problems = task_end(state.folder, "add_user", email, wait)
    if standing == "failed":
        raise DatasiteError(f"syft refused the account {email}: {problems}", remedy="read syft/server.log")
    opens = "is open" if standing == "done" else "opens as soon as the syft server is up"
    return f"account {email} {opens}; login in {out} (mode 0600): hand it over and delete it"


def check_new_file(path: Path) -> None:
    """StateError when there is something at the path already, or a file can't be made in its folder."""
    if path.is_file() or path.is_symlink():
        raise StateError(f"{path} exists already", remedy="name a new file; none is overwritten")
    if path.exists() or not os.access(path.parent, os.W_OK):
        raise StateError(f"{path} can't be written", remedy="name a file in a folder of yours")


def card_text_of(path: Path) -> str:
    """The text of a card's file; StateError when it can't be read."""
    try:
        return path.read_bytes()[: CARD_LIMIT + 1].decode("utf-8", errors="replace").strip()
    except OSError as error:
        raise StateError(f"card {path}: {error.strerror}") from error


def publish(state: State, block: str) -> bool:
    """Has a running supervisor publish the block; False when none runs."""
    try:
        ask(state.folder, "publish", block=block)
    except StateError:
        return False
    return True


def _schema_lines(schema: BlockSchema) -> list[str]:
    lines = [
        f"block {schema.block} version {schema.version}, {schema.rows} rows (rounded up)",
        f"commitment  {schema.commitment}",
        f"subject key {schema.subject_key} (rule {schema.key_rule})",
        *(
            f"  {column:<18} {form.describe()}"
            for column, form in zip(schema.key_columns, schema.key_formats, strict=True)
        ),
        f"no key      {', '.join(schema.key_missing)}; rows that share a key: {schema.duplicates}",
        f"label       {schema.label + ': ' + ', '.join(schema.classes) if schema.label else 'none'}",
        f"split       {', '.join(f'{part.split} {part.share:.0%}' for part in schema.splits)}",
    ]
    lines += [f"  {c.name:<18} {c.kind.value:<12} {column_values(c)}" for c in schema.columns]
    return lines


def column_values(column: PublicColumn) -> str:
    """What is published of a column's values, on one line: its levels, or its quantiles."""
    if column.levels:
        return _fitting(column.levels, ", ")
    return _fitting([f"{q.share:.0%}: {_shown(column, q.value)}" for q in column.quantiles], "  ")


def _shown(column: PublicColumn, value: float) -> str:
    return date_text(value) if column.kind is ColumnKind.DATE else f"{value:g}"


def _fitting(words: Sequence[str], separator: str, width: int = 90) -> str:
    """The words on a line of that width, none cut; "..." in place of those that don't fit (the first always does)."""
    if len(separator.join(words)) <= width:
        return separator.join(words)
    shown = words[:1]
    while len(separator.join([*words[: len(shown) + 1], "..."])) <= width:
        shown = words[: len(shown) + 1]
    return separator.join([*shown, "..."])


def _rare(classes: int) -> str:
    """What the owner should know before the names of classes are published; "" when none is rare."""
    if not classes:
        return ""
    return (
        f"; classes with fewer than {SMALLEST_GROUP} people: {classes}; the name of every class is published"
    )


def _read_as(source: str) -> str:
    return f"\nread as     {source}" if source else ""


def _counts(report: KeyReport) -> str:
    facts = [f"{report.usable} of {report.rows} rows have a usable key"]
    for count, what in (
        (report.blank, "blank"),
        (report.unusable, "unusable"),
        (report.duplicate_rows_left_out, "left out as duplicates"),
    ):
        if count:
            facts.append(f"{count} {what}")
    for part in report.parts:
        if len(report.parts) > 1 and part.blank + part.unusable:
            facts.append(f"in {part.column} {part.blank} blank and {part.unusable} unusable")
        if part.spaced:
            facts.append(f"{part.spaced} with blanks around {part.column}")
    return ", ".join(facts)


def running_requests(state: State) -> Iterator[tuple[str, ComputationRequest]]:
    """Digest and paper of every request that has a run under way here."""
    documents = Documents(state.folder)
    for digest, _ in Ledger(state.ledger_path).running():
        yield digest, documents.request(digest).request


def journal(state: State) -> Journal:
    """The pen for acts at the command line."""
    return Journal(state, lambda: datetime.now(UTC))


def owner(state: State) -> Actor:
    """The owner at the command line."""
    return Actor(who="owner", role="owner", organisation=state.organisation, origin="command line")
