"""What was computed on a party's blocks before a request came: for a reviewer who asks what a difference could tell."""

from collections.abc import Iterable, Mapping

from parties.home.documents import Documents
from parties.home.private_files import read_json
from parties.home.state import State
from parties.roles.facts import Note, Section, section
from parties.running.earlier import RELEASED
from protocols.errors import FedaccordError
from protocols.request import ComputationRequest, blocks_of

NOTHING = "nothing was computed on these blocks yet"
CHECK = (
    "numbers are held back, and scores rounded more coarsely, when the block's people or those behind a number differ "
    "from those of an earlier release by fewer than k; what several requests tell together otherwise, and what a run's "
    "end itself tells, is compared by nobody but you"
)


def history_section(
    state: State, request: ComputationRequest, digest: str, rows: Iterable[Mapping[str, object]]
) -> Section:
    """Earlier requests on the own blocks of this one that used a run; `rows` is the supervisor's listing."""
    documents, blocks = Documents(state.folder), _own_blocks(request, state.name)
    lines = []
    for row in rows:
        other = str(row["digest"])
        if other == digest or not row["used"]:
            continue
        try:
            earlier = documents.request(other).request
            shared = {name: v for name, v in _own_blocks(earlier, state.name).items() if name in blocks}
        except FedaccordError as error:
            lines.append(f"{other[:12]}: its papers can't be read ({error.code})")
            continue
        lines += [
            f"{other[:12]} by {earlier.analyst.name} for {earlier.purpose}: {earlier.computation} on {name} version "
            f"{version}, {row['used']} runs{_suppressed(state, name, other)}"
            for name, version in shared.items()
        ]
    return section(
        "Earlier releases on the same data", [Note(text=text) for text in (*(lines or [NOTHING]), CHECK)]
    )


def _own_blocks(request: ComputationRequest, name: str) -> dict[str, int]:
    return {block.block: block.version for block in blocks_of(request, name)}


def _suppressed(state: State, block: str, digest: str) -> str:
    """What of its numbers was held back for their difference to earlier ones, and why."""
    groups, reasons = 0, set[str]()
    for path in sorted((state.folder / RELEASED / block).glob(f"{digest}-*.json")):
        record = read_json(path)
        names = record.get("suppressed")
        groups += len(names) if isinstance(names, list) else 0
        reasons |= {str(record["held"])} if record.get("held") else set()
    if reasons:
        return f", exact numbers held back: {'; '.join(sorted(reasons))}"
    return f", {groups} groups suppressed for their difference to earlier ones" if groups else ""
