"""What left this party, run by run: kinds, counts and bytes to each other party, and what was told to the analyst.

The sums come from the audit log, which a peer's head guards: one for each worker of the run, more than one where it was
interrupted and taken up again. The kinds come from the gate's count that a finished run leaves in its folder. What is
missing, or doesn't add up, is told.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parties.control.workers import run_folder
from parties.home.documents import Documents
from parties.home.private_files import read_json
from parties.home.state import State
from parties.roles.review import readable_bytes
from parties.running.runspec import RESULT_FILE, TRAFFIC_FILE
from protocols.audit import AuditEvent, Entry, Result, read
from protocols.request import ComputationRequest, party

ENDS = frozenset(
    {
        AuditEvent.RUN_FINISHED,
        AuditEvent.RUN_FAILED,
        AuditEvent.RUN_CANCELLED,
        AuditEvent.RUN_INTERRUPTED,
    }
)
ASKED = "asked"
"""The phase of an entry that tells of a cancellation that somebody asked for, not of the run's end."""
_SENT = re.compile(r"(\d+) messages, (\d+) bytes")
NOTHING = "no run has ended here yet: nothing left but what `fedaccord block show` shows"
_TARGET = "request "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run of a request: the end of each of its workers, and of how many messages its log tells beforehand."""

    digest: str
    run: int
    ends: tuple[Entry, ...]
    reserved: int

    @property
    def silent(self) -> bool:
        """Whether a worker died before it could log what it had sent."""
        return any(all(not name.startswith("sent ") for name, _ in end.detail) for end in self.ends)


def what_left(state: State) -> tuple[dict[str, object], str]:
    """All runs of this party that ended, oldest first, as a document and as text. AuditError for an altered log."""
    log = list(read(state.audit_path)) if state.audit_path.exists() else []
    runs = [_told(state, run, log) for run in _runs(log)]
    return {"party": state.name, "runs": runs}, "\n\n".join(map(_text, runs)) or NOTHING


def _runs(log: list[Entry]) -> Iterator[_Run]:
    ends: dict[tuple[str, int], list[Entry]] = {}
    reserved: dict[tuple[str, int], int] = {}
    for entry in log:
        detail = dict(entry.detail)
        if not entry.object.startswith(_TARGET) or "run" not in detail:
            continue
        key = (entry.object.removeprefix(_TARGET), int(str(detail["run"])))
        if entry.event is AuditEvent.MESSAGES_RESERVED:
            reserved[key] = max(reserved.get(key, 0), int(str(detail["last"])))
        if entry.event in ENDS and detail.get("phase") != ASKED:
            ends.setdefault(key, []).append(entry)
    for (digest, run), found in ends.items():
        yield _Run(digest=digest, run=run, ends=tuple(found), reserved=reserved.get((digest, run), 0))


def _told(state: State, run: _Run, log: list[Entry]) -> dict[str, object]:
    request = Documents(state.folder).request(run.digest).request
    folder = run_folder(state.runs, run.digest, run.run)
    kinds = _kinds(folder / TRAFFIC_FILE, state.name, request)
    last = run.ends[-1]
    return {
        "request": run.digest,
        "run": run.run,
        "computation": request.computation,
        "end": str(dict(last.detail).get("state", last.event.value)),
        "log_entries": [end.index for end in run.ends],
        "most_messages_unlogged": run.reserved if run.silent else 0,
        "to": {
            peer.name: _sums(run, peer.role)
            | {"kinds": [line for line in kinds if line["receiver"] == peer.name]}
            for peer in request.parties
            if peer.name != state.name
        },
        "results_read": _results(folder / RESULT_FILE, run, log),
    }


def _sums(run: _Run, role: str) -> dict[str, object]:
    """Messages and bytes to the role as the log has them, over all workers of the run."""
    texts = [str(dict(end.detail).get(f"sent {role}", "")) for end in run.ends]
    found = [match.groups() for match in map(_SENT.match, texts) if match is not None]
    return {
        "messages": sum(int(messages) for messages, _ in found),
        "bytes": sum(int(size) for _, size in found),
    }


def _kinds(path: Path, name: str, request: ComputationRequest) -> list[dict[str, object]]:
    """The gate's count of what this party sent; nothing of a run that didn't finish."""
    if not path.exists():
        return []
    uses = read_json(path).get("releases")
    found = []
    for use in uses if isinstance(uses, list) else []:
        if isinstance(use, Mapping) and party(request, str(use["sender"])).name == name:
            receiver = party(request, str(use["receiver"])).name
            found.append({"receiver": receiver, **{key: use[key] for key in ("kind", "messages", "bytes")}})
    return found


def _results(path: Path, run: _Run, log: list[Entry]) -> list[dict[str, object]]:
    """Who read the run's result, and when."""
    size = path.stat().st_size if path.exists() else 0
    return [
        {"who": entry.who, "time": entry.time, "bytes": size, "log_entry": entry.index}
        for entry in log
        if entry.event is AuditEvent.RESULT_RELEASED
        and entry.result is Result.OK
        and entry.object == _TARGET + run.digest
        and dict(entry.detail).get("run") == run.run
    ]


def _text(told: Mapping[str, object]) -> str:
    lines = [
        f"request {str(told['request'])[:12]} run {told['run']}, {told['computation']}: {told['end']} "
        f"(log entry {', '.join(map(str, _listed(told['log_entries'])))})"
    ]
    receivers = told["to"]
    for name, way in receivers.items() if isinstance(receivers, Mapping) else ():
        lines += _way_lines(name, way)
    if told["most_messages_unlogged"]:
        lines.append(
            "    WARNING: a worker died before it logged its sums; of this run at most "
            f"{told['most_messages_unlogged']} messages left"
        )
    for each in _listed(told["results_read"]):
        size = readable_bytes(each["bytes"])
        lines.append(f"    to {each['who']:<12} the released result, {size}, read {each['time']}")
    return "\n".join(lines)


def _way_lines(name: str, way: Mapping[str, object]) -> list[str]:
    kinds = _listed(way["kinds"])
    lines = [
        f"    to {name:<12} {use['kind']:<18} {use['messages']:>6} messages {readable_bytes(use['bytes']):>10}"
        for use in kinds
    ]
    total = (way["messages"], way["bytes"])
    lines.append(
        f"    to {name:<12} {'in all':<18} {total[0]:>6} messages {readable_bytes(float(str(total[1]))):>10}"
    )
    counted = tuple(sum(use[key] for use in kinds) for key in ("messages", "bytes"))
    if total[0] and not kinds:
        lines.append("    kinds unknown: the run did not finish, and its folder has no count of them")
    elif counted != total:
        lines.append(
            f"    the kinds add up to {counted[0]} messages, {counted[1]} bytes: after an interruption some count "
            "twice or only in the log; without one this is a fault"
        )
    return lines


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
