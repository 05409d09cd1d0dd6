"""Reading a party's audit log: its verification, its newest entries, and the heads it holds of others' logs."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from parties.home.private_files import write_private
from parties.home.state import State
from protocols.audit import (
    AuditEvent,
    Checked,
    Entry,
    Head,
    SignedHead,
    check,
    parse_head,
    read,
    to_text,
    verify_head,
)
from protocols.errors import AuditError, StateError


def verify_log(state: State, heads: tuple[Path, ...]) -> tuple[dict[str, object], str]:
    """Checks the log and gives back what was checked. Raises AuditError naming the first entry that is wrong.

    Each head must be of this party's log, under this party's key.
    """
    return _verified(state, check_log(state, heads))


def verify_against(state: State, head: str) -> tuple[dict[str, object], str]:
    """The same, against one head that somebody else holds, given as its text."""
    signed = own_head(state, head, "the given head")
    return _verified(state, check(state.audit_path, heads=[signed]))


def _verified(state: State, checked: Checked) -> tuple[dict[str, object], str]:
    document: dict[str, object] = {
        "party": state.name,
        "status": "ok",
        "entries": checked.head.index,
        "head": checked.head.hash,
        "heads_compared": _heads_line(checked.compared),
        "deleted": {} if checked.stub is None else checked.stub.detail(),
        "heads_not_comparable": _heads_line(checked.deleted),
        "clock_set_back": [{"index": jump.index, "seconds": jump.seconds} for jump in checked.set_back],
    }
    return document, verdict(checked)


def _heads_line(heads: tuple[SignedHead, ...]) -> list[dict[str, object]]:
    return [{"index": signed.head.index, "time": signed.time} for signed in heads]


def check_log(state: State, heads: tuple[Path, ...]) -> Checked:
    """What the check of the log found; raises like `verify_log`."""
    return check(state.audit_path, heads=[_read_head(state, path) for path in heads])


def verdict(checked: Checked) -> str:
    """What was checked, in one line."""
    head, signed, stub = checked.head, checked.compared, checked.stub
    fits = (
        "1 signed head that another party holds fits"
        if len(signed) == 1
        else f"{len(signed)} signed heads fit"
    )
    said = f"ok: {head.index} entries of {head.party}, chain unbroken" + (f", and {fits}" if signed else "")
    if stub is not None:
        said += f"; entries 1 to {stub.last} were deleted on {stub.time} by {stub.who}, after their time"
    for gone in checked.deleted:
        said += f"; the head at entry {gone.head.index}: pruned, not comparable"
    for jump in checked.set_back[:5]:
        said += f"; WARNING: the clock was set back by {jump.seconds} s before entry {jump.index}"
    if len(checked.set_back) > 5:
        said += f", and {len(checked.set_back) - 5} times more"
    return said


def entries(state: State, last: int) -> tuple[dict[str, object], str]:
    """The newest `last` entries as a document and as one line each."""
    newest = deque(read(state.audit_path), maxlen=max(1, last))
    document: dict[str, object] = {"party": state.name, "entries": [_record(entry) for entry in newest]}
    return document, "\n".join(entry_line(entry) for entry in newest)


def entry_line(entry: Entry) -> str:
    """One entry on one line: number, time, event, result, who, what, details."""
    detail = " ".join(f"{name}={value}" for name, value in entry.detail)
    return (
        f"{entry.index:>4} {entry.time} {entry.event.value:<21} {entry.result.value:<8} "
        f"{entry.who} ({entry.role}, {entry.origin})  {entry.object}  {detail}"
    ).rstrip()


def newest_heads(state: State) -> tuple[SignedHead, ...]:
    """The newest signed head of each peer's log that this party holds, by the peers' names."""
    newest: dict[str, SignedHead] = {}
    for head in peer_heads(state):
        known = newest.get(head.head.party)
        if known is None or head.head.index >= known.head.index:
            newest[head.head.party] = head
    return tuple(head for _, head in sorted(newest.items()))


def write_peer_heads(state: State, out: Path) -> tuple[Path, ...]:
    """Writes the newest signed head of each peer's log that this party holds."""
    return write_heads(newest_heads(state), out)


def write_heads(heads: Iterable[SignedHead], out: Path) -> tuple[Path, ...]:
    """Writes the heads of peers' logs, one file `PEER-head.json` each."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"folder {out}: {error.strerror}", remedy="name another folder") from error
    paths = []
    for head in heads:
        paths.append(out / f"{head.head.party}-head.json")
        write_private(paths[-1], to_text(head) + "\n")
    return tuple(paths)


def peer_heads(state: State) -> Iterable[SignedHead]:
    """Every signed head of another party's log that this party's log holds, oldest first, its signature verified."""
    for entry in read(state.audit_path):
        if entry.event is AuditEvent.HEAD_RECEIVED:
            detail = {name: str(value) for name, value in entry.detail}
            head = Head(party=detail["peer"], index=int(detail["index"]), hash=detail["hash"])
            signed = SignedHead(
                head=head, time=detail["time"], key=detail["key"], signature=detail["signature"]
            )
            verify_head(signed)
            yield signed


def _read_head(state: State, path: Path) -> SignedHead:
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise AuditError(f"head {path}: {error.strerror}") from error
    return own_head(state, text, f"head {path}")


def own_head(state: State, text: str, where: str) -> SignedHead:
    """The head in the text, which `where` names; AuditError unless it is of this party's log, under its key."""
    try:
        signed = parse_head(text.strip())
    except AuditError as error:
        raise AuditError(
            f"{where}: {error}", remedy="ask the other party for it again: fedaccord audit heads"
        ) from error
    card = state.card()
    if signed.head.party != state.name or signed.key != card.signing_key:
        raise AuditError(
            f"{where} is of {signed.head.party}'s log or under another key, not of {state.name}'s"
        )
    return signed


def _record(entry: Entry) -> dict[str, object]:
    record: dict[str, object] = {name: getattr(entry, name) for name in entry.__dataclass_fields__}
    return record | {"event": entry.event.value, "result": entry.result.value, "detail": dict(entry.detail)}
