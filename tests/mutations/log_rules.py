"""Rules of the audit log: what was changed, cut off or begun anew is found, by its owner and by the others."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from parties.control.runs import RunState
from protocols.approval import Decision
from protocols.audit import Entry, Head, SignedHead, sign_head, verify
from protocols.audit_entry import entry_hash, link, parse_line
from protocols.audit_stub import Stub
from protocols.errors import AuditError, ProtocolError
from protocols.records import encode_record
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.parties.control.test_desk import Desk
from tests.parties.running.test_heads import EVERY, Room
from tests.protocols.test_audit import KEY, NOW, add, filled, lines, rewrite

READING = "protocols.audit_reading."
ENTRY = "protocols.audit_entry."
IN_PLACE = Cut(f"{READING}_check_place", "entry.index != before.index + 1")
CONTINUES = Cut(f"{READING}_check_place", "entry.previous != before.hash")
OWN_HASH = Cut(f"{ENTRY}parse_line", "entry.hash != entry_hash(entry)")
Lines = list[bytes]


def doctored(change: Callable[[Lines], Lines], place: Place, *, heads: Iterable[SignedHead] = ()) -> None:
    """Somebody who may write the file changes a log of five entries; then it is verified."""
    filled(place.folder, 5)
    verify(rewrite(place.folder, change(lines(place.folder))), heads=heads)


def changed(all_: Lines) -> Lines:
    return [*all_[:2], all_[2].replace(b'"ana"', b'"bob"'), *all_[3:]]


def swapped(all_: Lines) -> Lines:
    return [all_[0], all_[2], all_[1], *all_[3:]]


def dropped(all_: Lines) -> Lines:
    return [*all_[:2], *all_[3:]]


def replaced(all_: Lines) -> Lines:
    """Entry 3 says something else, with a hash that fits that."""
    entry = replace(parse_line(all_[2][:-1], "entry 3"), who="bob")
    return [*all_[:2], encode_record(replace(entry, hash=entry_hash(entry))) + b"\n", *all_[3:]]


def of_another(all_: Lines) -> Lines:
    """The last entry is said to be of the shop's log."""
    before, entry = (parse_line(line[:-1], "an entry") for line in all_[-2:])
    head = Head(party="bank", index=before.index, hash=before.hash)
    return [*all_[:-1], encode_record(link(replace(entry, party="shop"), head)) + b"\n"]


def rewritten(all_: Lines) -> Lines:
    """A whole new chain with other words, in which nothing contradicts anything."""
    head, made = Head(party="bank", index=0, hash="0" * 64), []
    for line in all_:
        entry = link(replace(parse_line(line[:-1], "an entry"), who="bob"), head)
        head = Head(party="bank", index=entry.index, hash=entry.hash)
        made.append(encode_record(entry) + b"\n")
    return made


def against_a_head(change: Callable[[Lines], Lines], place: Place) -> None:
    """The other party holds the head of the log's end."""
    held = sign_head(filled(place.folder, 5).head(), NOW, KEY)
    verify(rewrite(place.folder, change(lines(place.folder))), heads=[held])


def with_a_forged_head(place: Place) -> None:
    """The owner cut the log, and shows a head of the shorter log that nobody signed."""
    log = filled(place.folder, 4)
    held = sign_head(Head(party="bank", index=5, hash="a" * 64), NOW, KEY)
    verify(place.folder / "audit.jsonl", heads=[replace(held, head=log.head())])


def begun_anew(place: Place) -> None:
    """The log is deleted while its writer goes on."""
    log = filled(place.folder, 3)
    (place.folder / "audit.jsonl").unlink()
    add(log, 4)


def pruned_without_a_word(place: Place) -> None:
    """The first entries are cut off, and a stub stands for them that no entry tells of."""
    filled(place.folder, 5)
    kept = lines(place.folder)
    last = parse_line(kept[2][:-1], "entry 3")
    stub = Stub(
        party="bank",
        last=3,
        count=3,
        digest="a" * 64,
        head=last.hash,
        newest=last.time,
        time=last.time,
        who="bob",
    )
    verify(rewrite(place.folder, [encode_record(stub) + b"\n", *kept[3:]]))


def pruned_too_early(place: Place) -> None:
    """Entries of last month are deleted as if they were old, with the entry that tells of it."""
    log = filled(place.folder, 3)
    later = NOW + timedelta(days=30)
    log.prune(
        later,
        who="bob",
        role="owner",
        organisation="Bank",
        origin="command line",
        now=later + timedelta(days=400),
    )
    found = lines(place.folder)
    log_of: list[Entry] = [parse_line(line[:-1], "an entry") for line in found[1:]]
    told = replace(log_of[-1], time="2030-02-01T12:00:00Z")
    head = Head(party="bank", index=told.index - 1, hash=told.previous)
    verify(rewrite(place.folder, [found[0], encode_record(link(told, head)) + b"\n"]))


def given_at_a_checkpoint(place: Place, *, index: int, letter: str) -> None:
    """The shop's log was cut or rewritten while a run with it goes on: its head can't follow on the last one."""
    room = Room(place.offices())
    room.take(room.signed(index, letter))


def flooded(place: Place) -> None:
    """A peer gives heads without end, to fill our log."""
    room = Room(place.offices())
    for index in range(6, 106):
        room.take(room.signed(index))
    if len(room.pen.heads) < 100:
        raise Stopped(f"{len(room.pen.heads)} of 100 heads were noted in {EVERY:g} s")


def approved_without_an_entry(place: Place) -> None:
    """The log can't be written, and an approval counts all the same."""
    desk = Desk(place.offices())
    request = desk.submitted()
    log = desk.offices.bank.audit_path
    log.unlink(missing_ok=True)
    log.symlink_to(Path("elsewhere"))
    if desk.decide(request, Decision.APPROVE).state is not RunState.APPROVED:
        raise Stopped("it stayed pending")


RULES = (
    Rule(
        name="hash chain: a changed entry is named",
        off=(OWN_HASH,),
        attempt=partial(doctored, changed),
        stopped=AuditError,
        saying="entry 3 was altered",
    ),
    Rule(
        name="hash chain: swapped entries are found",
        off=(IN_PLACE, CONTINUES),
        attempt=partial(doctored, swapped),
        stopped=AuditError,
        saying="not in its place",
    ),
    Rule(
        name="hash chain: a dropped entry is found",
        off=(IN_PLACE, CONTINUES),
        attempt=partial(doctored, dropped),
        stopped=AuditError,
        saying="not in its place",
    ),
    Rule(
        name="hash chain: an entry that was replaced, hash and all, is found",
        off=(CONTINUES,),
        attempt=partial(doctored, replaced),
        stopped=AuditError,
        saying="doesn't continue",
    ),
    Rule(
        name="hash chain: a log is of one party",
        off=(Cut(f"{READING}_check_place", "before.index and entry.party != before.party"),),
        attempt=partial(doctored, of_another),
        stopped=AuditError,
        saying="but the log is of bank",
    ),
    Rule(
        name="hash chain: a deleted log isn't begun anew by who wrote it",
        off=(
            Cut(
                "protocols.audit.AuditLog._check_kept",
                "head.index < self._written.index or (head.index == self._written.index and head != self._written)",
            ),
        ),
        attempt=begun_anew,
        stopped=AuditError,
        saying="cut off, deleted or replaced",
    ),
    Rule(
        name="hash chain: a stub that no entry tells of isn't one",
        off=(Cut(f"{READING}_check", "if not told:", "if False:"),),
        attempt=pruned_without_a_word,
        stopped=AuditError,
        saying="no entry tells of their deletion",
    ),
    Rule(
        name="hash chain: nothing is deleted before six months",
        off=(
            Cut(
                "protocols.audit_stub.Stub.check",
                'parse_utc(self.newest, "newest", AuditError) >= oldest_kept',
            ),
        ),
        attempt=pruned_too_early,
        stopped=AuditError,
        saying="before 6 months",
    ),
    Rule(
        name="head exchange: an end that was cut off is found by who holds a head",
        off=(Cut(f"{READING}_check", "if waiting:", "if False:"),),
        attempt=partial(against_a_head, lambda all_: all_[:-1]),
        stopped=AuditError,
        saying="entry 5 is missing",
    ),
    Rule(
        name="head exchange: a log that was written anew is found by who holds a head",
        off=(Cut(f"{READING}_check_against", "signed.head.hash != head.hash"),),
        attempt=partial(against_a_head, rewritten),
        stopped=AuditError,
        saying="the log was rewritten",
    ),
    Rule(
        name="head exchange: a head that nobody signed is none",
        off=(
            Cut(
                f"{ENTRY}verify_head",
                'keys.verify(signed.key, signed_form("head", signed, "signature"), signed.signature)',
                "pass",
            ),
        ),
        attempt=with_a_forged_head,
        stopped=AuditError,
        saying="was altered",
    ),
    Rule(
        name="head exchange: at a checkpoint a log that was cut meanwhile is noticed",
        off=(Cut("parties.running.heads.HeadExchange.note", "if not follows:", "if False:"),),
        attempt=partial(given_at_a_checkpoint, index=4, letter="a"),
        stopped=ProtocolError,
        saying="cut or rewritten",
    ),
    Rule(
        name="head exchange: at a checkpoint a log that was written anew meanwhile is noticed",
        off=(Cut("parties.running.heads.HeadExchange.note", "if not follows:", "if False:"),),
        attempt=partial(given_at_a_checkpoint, index=5, letter="b"),
        stopped=ProtocolError,
        saying="cut or rewritten",
    ),
    Rule(
        name="head exchange: a peer can't fill our log with heads",
        off=(
            Cut("parties.running.heads.HeadExchange._may_note", "self._noted[role] >= _AT_FIRST + 2 * turns"),
        ),
        attempt=flooded,
        stopped=Stopped,
        saying="of 100 heads",
    ),
    Rule(
        name="write-ahead: an approval without its entry is none",
        off=(Cut("parties.home.journal.Journal.before", "self.ok(event, actor, target, **detail)", "pass"),),
        attempt=approved_without_an_entry,
        stopped=AuditError,
        saying="can't be opened",
    ),
)
