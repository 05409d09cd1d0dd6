"""What a reviewer reads before deciding: a request in full, in words, and how it differs from the last approved one."""

from collections.abc import Iterable, Mapping, Sequence

from parties import catalog
from parties.blocks.keys.agreement import aligns
from parties.control.runs import TAKEN_UP
from parties.roles.facts import (
    Change,
    Content,
    Fact,
    Group,
    Message,
    Note,
    Section,
    Values,
    facts_text,
    section,
)
from protocols.psi.messages import PsiSize
from protocols.request import BlockEntry, ComputationRequest, Release, differences, party
from protocols.request import digest as request_digest

_DUPLICATES = {"error": "none (refused)", "first": "the first is kept", "drop": "all are left out"}
ABSENT = "(not there)"
NOTE = (
    "Keys, tags and representations are personal data in every form that leaves. THREATS.md says what this run does "
    "not protect."
)


def review_sections(
    request: ComputationRequest, earlier: ComputationRequest | None = None
) -> tuple[Section, ...]:
    """The whole request for a reader: who, why, which data, what leaves to whom, limits, and what changed."""
    return (
        section("Who asks, and why", _who(request)),
        section("Which data", _data(request)),
        section(
            "What leaves, from whom to whom (everything else is stopped by both gates)", _manifest(request)
        ),
        section("What each learns", _learns(request)),
        section("Limits", _limits(request)),
        section("Settings", [Values(pairs=tuple((name, str(value)) for name, value in request.parameters))]),
        section("Difference to the last approved request", _differences(request, earlier)),
        section("Keep in mind", [Note(text=NOTE)]),
    )


def review_text(request: ComputationRequest, earlier: ComputationRequest | None = None) -> str:
    """The sections for a terminal, under the request's digest."""
    return f"REQUEST {request_digest(request)}\n\n{facts_text(review_sections(request, earlier))}"


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


def _who(request: ComputationRequest) -> list[Content]:
    code = f"version {request.computation_version}, code {request.code_digest[:16]}"
    return [
        Fact(name="analyst", text=f"{request.analyst.name}, {request.analyst.organisation}"),
        Fact(name="purpose", text=f"{request.purpose}: {request.purpose_text or 'no further text'}"),
        Fact(name="computation", text=f"{request.computation}, {code}"),
        *_model(request),
        *(
            Fact(
                name=entry.role,
                text=f"{entry.name} ({'listens on ' + entry.address if entry.address else 'dials'})",
            )
            for entry in request.parties
        ),
    ]


def _model(request: ComputationRequest) -> list[Content]:
    model = catalog.model_wanted(request)
    if not model:
        return []
    return [Fact(name="model", text=f"trained for request {model}; see `fedaccord model show {model[:12]}`")]


def _data(request: ComputationRequest) -> list[Content]:
    contents: list[Content] = [_block(request, block) for block in request.blocks]
    if aligns(request.manifest):
        most = min(block.rows for block in request.blocks)
        contents.append(Note(text=f"at most {most} people can be common; {_who_is_common(request)}"))
    return contents


def _who_is_common(request: ComputationRequest) -> str:
    if _only_counts(request):
        k = request.minimum_group
        return (
            f"nobody learns who they are, only their number rounded down to a multiple of {k}, and not even that below "
            f"{k} or where perhaps fewer than {k} people of one party are not common"
        )
    return "a party that has no other people than common ones shows its whole list to the other party"


def _only_counts(request: ComputationRequest) -> bool:
    """Whether the parties learn how many people are common, and not who."""
    return any(line.kind == PsiSize.__name__ for line in request.manifest)


def _block(request: ComputationRequest, block: BlockEntry) -> Group:
    return Group(
        title=f"{party(request, block.role).name}: block {block.block} version {block.version}, "
        f"at most {block.rows} rows, people by {block.subject_key} (rule {block.key_rule})",
        items=(
            f"rows that share a key: {_DUPLICATES.get(block.duplicates, block.duplicates)}; "
            f"no key: {', '.join(('blank', *block.key_missing))}",
            f"columns {', '.join(block.columns) or 'none: only keys are read'}"
            + (f"; label {block.label}" if block.label else ""),
        ),
        listed=False,
    )


def _manifest(request: ComputationRequest) -> list[Content]:
    messages = [
        Message(
            sender=party(request, release.sender).name,
            receiver=party(request, release.receiver).name,
            kind=release.kind,
            repetitions=release.repetitions,
            size=readable_bytes(release.max_bytes),
            shapes="; ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in release.shapes)
            or "no array",
        )
        for release in request.manifest
    ]
    totals = [
        Note(text=f"in all from {name}: up to {readable_bytes(total)}") for name, total in _totals(request)
    ]
    return [*messages, *totals]


def _totals(request: ComputationRequest) -> Sequence[tuple[str, int]]:
    def total(releases: Iterable[Release]) -> int:
        return sum(release.repetitions * release.max_bytes for release in releases)

    return [(p.name, total(r for r in request.manifest if r.sender == p.role)) for p in request.parties]


def _learns(request: ComputationRequest) -> list[Content]:
    parties: list[Content] = [
        Group(
            title=entry.name,
            items=tuple(
                dict.fromkeys(r.learns for r in request.manifest if r.receiver == entry.role),
            ),
        )
        for entry in request.parties
    ]
    return [*parties, Group(title=f"{request.analyst.name} (analyst)", items=request.analyst_receives)]


def _limits(request: ComputationRequest) -> list[Content]:
    overlap = "" if _only_counts(request) else f"smallest overlap {request.minimum_overlap}; "
    return [
        Note(
            text=f"runs {request.runs}; expires {request.expires}, when a run under way ends too; smallest group in a "
            f"released number {request.minimum_group}; {overlap}public seed {request.public_seed}"
        ),
        Note(
            text="no exact number is released where the people differ from those of an earlier release by fewer than "
            f"{request.minimum_group}; scores are rounded more coarsely then"
        ),
        Note(
            text=f"each run may be taken up again up to {TAKEN_UP} times after a crash or a lost peer, and then sends "
            "again what it sent since its last checkpoint"
        ),
    ]


def _differences(request: ComputationRequest, earlier: ComputationRequest | None) -> list[Content]:
    if earlier is None:
        return [Note(text="nothing was approved before: read all of it")]
    changed = [d for d in differences(earlier, request) if d.field not in ("nonce", "expires")]
    compared = f"compared with {request_digest(earlier)[:12]}"
    if not changed:
        return [Note(text=f"none but expiry and nonce ({compared})")]
    return [
        Note(text=f"{compared}:"),
        *(
            Change(
                field=d.field,
                old=ABSENT if d.old is None else d.old,
                new=ABSENT if d.new is None else d.new,
            )
            for d in changed
        ),
    ]


def readable_bytes(count: float) -> str:
    """A number of bytes for people: 812 B, 1.5 kB, 3.2 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
