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
    "numbers of a description are held against the people of earlier ones and suppressed when they differ by fewer "
    "than k; results of other computations are listed here and compared by nobody but you"
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
    """How many numbers of its descriptions were held back for their difference to an earlier one."""
    count = 0
    for path in sorted((state.folder / RELEASED / block).glob(f"{digest}-*.json")):
        names = read_json(path).get("suppressed")
        count += len(names) if isinstance(names, list) else 0
    return f", {count} groups suppressed for their difference to earlier ones" if count else ""
