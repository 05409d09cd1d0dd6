"""What a reviewer reads before deciding: a request in full, in words, and how it differs from the last approved one."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from parties import catalog
from parties.blocks.keys.agreement import aligns
from parties.control.runs import TAKEN_UP
from protocols.request import ComputationRequest, Release, differences, party
from protocols.request import digest as request_digest

WIDTH = 100
_DUPLICATES = {"error": "none (refused)", "first": "the first is kept", "drop": "all are left out"}
ABSENT = "(not there)"
NOTE = (
    "Keys, tags and representations are personal data in every form that leaves. THREATS.md says what this run does "
    "not protect."
)


def review_text(request: ComputationRequest, earlier: ComputationRequest | None = None) -> str:
    """The whole request for a reader: who, why, which data, what leaves to whom, limits, and what changed."""
    sections = (
        ("WHO ASKS, AND WHY", _who(request)),
        ("WHICH DATA", _data(request)),
        ("WHAT LEAVES, FROM WHOM TO WHOM (everything else is stopped by both gates)", _manifest(request)),
        ("WHAT EACH LEARNS", _learns(request)),
        ("LIMITS", _limits(request)),
        ("SETTINGS", [", ".join(f"{name}={value}" for name, value in request.parameters)]),
        ("DIFFERENCE TO THE LAST APPROVED REQUEST", _differences(request, earlier)),
    )
    lines = [f"REQUEST {request_digest(request)}"]
    for title, content in sections:
        lines += ["", title, *(_wrapped(line) for line in content)]
    return "\n".join([*lines, "", _wrapped(NOTE)])


def listing_text(requests: Iterable[Mapping[str, object]]) -> str:
    """One line per request of the supervisor's listing, the newest change last."""
    lines = []
    for r in requests:
        lines.append(
            f"{str(r['digest'])[:12]}  {r['state']!s:<11} {r['analyst']!s:<12} {r['computation']!s:<22} "
            f"{r['purpose']!s:<20} used {r['used']} of {r['allowed']}  expires {r['expires']}"
        )
        missing = r.get("missing")
        lines += [f"{'':<14}missing: {text}" for text in missing] if isinstance(missing, list) else []
    return "\n".join(lines) or "no requests"


def _who(request: ComputationRequest) -> list[str]:
    return [
        f"analyst      {request.analyst.name}, {request.analyst.organisation}",
        f"purpose      {request.purpose}: {request.purpose_text or 'no further text'}",
        f"computation  {request.computation}, version {request.computation_version}, code {request.code_digest[:16]}",
        *_model(request),
        *(
            f"{entry.role:<12} {entry.name} ({'listens on ' + entry.address if entry.address else 'dials'})"
            for entry in request.parties
        ),
    ]


def _model(request: ComputationRequest) -> list[str]:
    model = catalog.model_wanted(request)
    return (
        [f"model        trained for request {model}; see `fedaccord model show {model[:12]}`"]
        if model
        else []
    )


def _data(request: ComputationRequest) -> list[str]:
    lines = []
    for block in request.blocks:
        lines += [
            f"{party(request, block.role).name}: block {block.block} version {block.version}, "
            f"at most {block.rows} rows, people by {block.subject_key} (rule {block.key_rule})",
            f"    rows that share a key: {_DUPLICATES.get(block.duplicates, block.duplicates)}; "
            f"no key: {', '.join(('blank', *block.key_missing))}",
            f"    columns {', '.join(block.columns) or 'none: only keys are read'}"
            + (f"; label {block.label}" if block.label else ""),
        ]
    if aligns(request.manifest):
        lines.append(
            f"at most {min(block.rows for block in request.blocks)} people can be common; a party that has no other "
            "people than common ones shows its whole list to the other party"
        )
    return lines


def _manifest(request: ComputationRequest) -> list[str]:
    lines = []
    for release in request.manifest:
        shapes = "; ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in release.shapes)
        lines.append(
            f"{party(request, release.sender).name} -> {party(request, release.receiver).name}  {release.kind}: up to "
            f"{release.repetitions} messages of {readable_bytes(release.max_bytes)} ({shapes or 'no array'})"
        )
    return [
        *lines,
        *(f"in all from {name}: up to {readable_bytes(total)}" for name, total in _totals(request)),
    ]


def _totals(request: ComputationRequest) -> Sequence[tuple[str, int]]:
    def total(releases: Iterable[Release]) -> int:
        return sum(release.repetitions * release.max_bytes for release in releases)

    return [(p.name, total(r for r in request.manifest if r.sender == p.role)) for p in request.parties]


def _learns(request: ComputationRequest) -> list[str]:
    lines = []
    for entry in request.parties:
        facts = dict.fromkeys(
            release.learns for release in request.manifest if release.receiver == entry.role
        )
        lines += [f"{entry.name}:", *(f"    - {fact}" for fact in facts)]
    return [
        *lines,
        f"{request.analyst.name} (analyst):",
        *(f"    - {fact}" for fact in request.analyst_receives),
    ]


def _limits(request: ComputationRequest) -> list[str]:
    return [
        f"runs {request.runs}; expires {request.expires}; smallest group in a released number {request.minimum_group}; "
        f"smallest overlap {request.minimum_overlap}; public seed {request.public_seed}",
        f"each run may be taken up again up to {TAKEN_UP} times after a crash or a lost peer, and then sends again "
        "what it sent since its last checkpoint",
    ]


def _differences(request: ComputationRequest, earlier: ComputationRequest | None) -> list[str]:
    if earlier is None:
        return ["nothing was approved before: read all of it"]
    changed = [d for d in differences(earlier, request) if d.field not in ("nonce", "expires")]
    if not changed:
        return [f"none but expiry and nonce (compared with {request_digest(earlier)[:12]})"]
    return [f"compared with {request_digest(earlier)[:12]}:"] + [
        f"    {d.field}: {ABSENT if d.old is None else d.old} -> {ABSENT if d.new is None else d.new}"
        for d in changed
    ]


def readable_bytes(count: float) -> str:
    """A number of bytes for people: 812 B, 1.5 kB, 3.2 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _wrapped(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return (
        textwrap.fill(
            line, WIDTH, subsequent_indent=" " * (indent + 4), break_long_words=False, drop_whitespace=True
        )
        or line
    )
