"""The parts of the page from the start of the run on: states, messages, results, both logs, their verification."""

import json
from collections.abc import Iterator, Mapping

from docs.example_run.markdown import details, fence, short_times, table
from docs.example_run.people import BANK, RETAILER, ROLES
from docs.example_run.story import Story
from docs.example_run.words import EVENTS, MESSAGES
from parties.roles.auditing import entry_line
from protocols.audit import Entry
from protocols.errors import DatasiteError

TOLD = (
    "groups.aligned_train",
    "groups.aligned_test",
    "groups.active_only",
    "groups.passive_only",
    "methods.fedcvt.both.people",
    "methods.fedcvt.both.auc",
    "methods.fedcvt.both.accuracy",
    "pseudo_labels.accepted",
)
"""The released numbers that the table shows; the reports hold more of the same kinds."""


def parts(story: Story) -> dict[str, str]:
    """Each part by its place in the template."""
    entries = story.logs.entries
    return {
        "states": table(
            ("", *ROLES),
            ((moment.when, *(moment.states[name] for name in ROLES)) for moment in story.moments),
        ),
        "trace": fence(trace(story)),
        "message_kinds": _described(dict.fromkeys(line.kind for line in story.twin.lines), MESSAGES, "kind"),
        "results": table(("party", "number", "at the party", "released"), _results(story)),
        "released": _released(story),
        "entry_kinds": _described(
            dict.fromkeys(entry.event.value for name in ROLES for entry in entries[name]), EVENTS, "line"
        ),
        "bank_log": _log("The bank's log", entries[BANK]),
        "retailer_log": _log("The retailer's log", entries[RETAILER]),
        "verified": fence("\n".join(_verified(story))),
        "one_byte": _one_byte(story),
        "tampering": _tampering(story),
    }


def trace(story: Story) -> str:
    """Every message on a line of its own."""
    names = {role: name for name, role in ROLES.items()}
    lines = []
    for number, line in enumerate(story.twin.lines, start=1):
        shapes = ", ".join(f"{field} {' x '.join(map(str, shape))}" for field, shape in line.shapes)
        way = f"{names[line.sender]:>8} -> {names[line.to]:<8}"
        lines.append(f"{number:>2}  {way}  {line.kind:<13} {line.nbytes:>5} bytes  {shapes}")
    return "\n".join(lines)


def _described(kinds: Mapping[str, None], words: Mapping[str, str], head: str) -> str:
    """A table of kinds with their sentences. DatasiteError for a kind that nobody has described yet."""
    unknown = sorted(kinds.keys() - words.keys())
    if unknown:
        raise DatasiteError(f"docs/example_run/words.py has no sentence for {', '.join(unknown)}")
    return table((head, "what it means"), ((f"`{kind}`", words[kind]) for kind in kinds))


def _results(story: Story) -> Iterator[tuple[str, str, str, str]]:
    for name in ROLES:
        raw, released = _flat(story.twin.report(name)), _flat(story.results[name]["report"])
        for field in TOLD:
            if field in released:
                yield name, f"`{field}`", _shown(raw[field]), _shown(released[field])


def _released(story: Story) -> str:
    texts = [
        f"{name}:\n{json.dumps(story.results[name]['report'], sort_keys=True, separators=(',', ':'))}"
        for name in ROLES
    ]
    return details("Both released reports, whole", fence("\n\n".join(texts)))


def _flat(value: object, at: str = "") -> dict[str, object]:
    """The leaves by their path; a suppressed number is a leaf."""
    if not isinstance(value, Mapping) or "suppressed" in value:
        return {at: value}
    found: dict[str, object] = {}
    for name, part in value.items():
        found |= _flat(part, f"{at}.{name}" if at else str(name))
    return found


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{value['suppressed']} ({value['reason']})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _log(party: str, log: tuple[Entry, ...]) -> str:
    return details(f"{party}: {len(log)} entries", fence(short_times("\n".join(map(entry_line, log)))))


def _verified(story: Story) -> Iterator[str]:
    for name in ROLES:
        yield f"$ fedaccord audit verify --state {name} --head {name}-head.json"
        yield story.logs.verified[name]


def _one_byte(story: Story) -> str:
    change = story.logs.one_byte
    return fence(f"{_beginning(change.before)}\n{_beginning(change.after)}\n\n{change.error}")


def _beginning(line: str) -> str:
    """A line of the log up to its index."""
    return line.split(',"object"')[0] + ", ..."


def _tampering(story: Story) -> str:
    rows = (
        (each.done, f"`{each.alone}`", f"`{short_times(each.with_head)}`") for each in story.logs.tampering
    )
    return table(("done to the copy", "checked alone", "checked with the retailer's head of it"), rows)
