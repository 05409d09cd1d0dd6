"""The example's messages, from the same two programs under `simulate` with the request and seeds of the real run.

A datasite's log has the number, bytes and hash of its messages, not each of them; the trace of the twin stands in, and
is only used after it was compared with the real run: bytes and messages of each kind, and both model parts bit for bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from docs.example_run.people import ROLES, specs
from parties import catalog
from parties.computation import Inputs
from parties.demo.setup import read_traffic
from parties.demo.steps import same_bits
from parties.home.state import State
from parties.roles.simulating import read_data
from parties.running.runspec import ARTIFACTS_FILE
from protocols.errors import DatasiteError
from protocols.gate import Trace, TraceLine
from protocols.program import Json, Outcome, Progress, simulate
from protocols.request import ComputationRequest
from protocols.seeds import injected
from protocols.wire import unpack_arrays
from vertical.table import PartyData


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The messages in order, and each role's outcome before the disclosure rules."""

    lines: tuple[TraceLine, ...]
    outcomes: Mapping[str, Outcome]

    def report(self, party: str) -> Mapping[str, Json]:
        """A party's numbers before the disclosure rules."""
        return self.outcomes[ROLES[party]].report


def run_twin(request: ComputationRequest, files: Mapping[str, Path], seed: int) -> Twin:
    """The run of `request` in this process, on the parties' files, with the injected private seed."""
    computation = catalog.find(request.computation, request.computation_version)
    trace = Trace()
    programs = {
        role: computation.program(
            Inputs(
                role=role,
                settings=request,
                data=_asked(request, role, files[name]),
                seed=injected(seed, role),
                observe=_silent,
            )
        )
        for name, role in ROLES.items()
    }
    outcomes = simulate(programs, observe=trace.observe)
    trace.fits(request)
    return Twin(
        lines=trace.lines,
        outcomes={role: outcome for role, outcome in outcomes.items() if isinstance(outcome, Outcome)},
    )


def check_same(twin: Twin, states: Mapping[str, State]) -> None:
    """Raises DatasiteError unless both datasites counted the twin's messages and hold the twin's model parts."""
    counted = _by_kind(twin.lines)
    for name, role in ROLES.items():
        found = {
            (str(row["kind"]), str(row["sender"])): (row["messages"], row["bytes"])
            for row in read_traffic(states[name])
        }
        if found != counted:
            raise DatasiteError(f"{name} counted other messages than the twin: {found} against {counted}")
        (path,) = states[name].runs.glob(f"*/{ARTIFACTS_FILE}")
        if not same_bits(unpack_arrays(path.read_bytes()), twin.outcomes[role].artifacts):
            raise DatasiteError(f"the model part of {name} differs from the twin's")


def _by_kind(lines: Sequence[TraceLine]) -> dict[tuple[str, str], tuple[int, int]]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for line in lines:
        messages, size = sums.get((line.kind, line.sender), (0, 0))
        sums[line.kind, line.sender] = (messages + 1, size + line.nbytes)
    return sums


def _asked(request: ComputationRequest, role: str, file: Path) -> PartyData:
    """The party's data with the columns that the request names, as its store hands them out."""
    (block,) = (entry for entry in request.blocks if entry.role == role)
    (name,) = (name for name, its_role in ROLES.items() if its_role == role)
    data = read_data(file, specs()[name])
    columns = {column.name: column for column in data.table.columns}
    return replace(data, table=type(data.table)(tuple(columns[column] for column in block.columns)))


def _silent(progress: Progress) -> None:
    """The page shows no progress."""
