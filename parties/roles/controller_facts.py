"""What a reviewer is shown of the own party beside the request: its record of processing and what is left.

The record follows Art. 30(1) GDPR, a to g. What the request settles is taken from the request; the rest is in the
controller's own words from policy.toml, or visibly open. Another party's words stand on that party's own page.
"""

from parties.home.processing import OPEN, Processing
from parties.home.state import State
from parties.roles.facts import Content, Fact, Group, Note, Section, section
from protocols.request import ComputationRequest, blocks_of

REVOKING = (
    "revoking takes one command, at any time and for good: no new start, a running run stops within a step at every "
    "party, its checkpoints are deleted, a trained model is marked here and takes part in no use any more, and the "
    "analyst is told the reason; another party isn't told of it once the training has ended and keeps its own part, so "
    "tell its owner; what was released before can't be called back"
)


def controller_sections(
    state: State, request: ComputationRequest, said: Processing, *, used: int
) -> tuple[Section, ...]:
    """The sections of the party whose state folder this is; `used` runs of the request are used."""
    return (
        section("Record of processing (Art. 30(1) GDPR)", _record(state, request, said)),
        section("What is left, and how it ends", _left(request, used)),
    )


def outputs(request: ComputationRequest) -> tuple[str, ...]:
    """Who receives what: one text for each receiver of messages, and one for the analyst."""
    facts = []
    for entry in request.parties:
        learns = dict.fromkeys(line.learns for line in request.manifest if line.receiver == entry.role)
        facts += [f"{entry.name}: {'; '.join(learns)}"] if learns else []
    received = "; ".join(request.analyst_receives) or "nothing"
    return (*facts, f"{request.analyst.name}, {request.analyst.organisation} (analyst): {received}")


def _record(state: State, request: ComputationRequest, said: Processing) -> list[Content]:
    others = [f"{entry.name} ({entry.role})" for entry in request.parties if entry.name != state.name]
    columns = [
        f"{block.block} version {block.version}: "
        + (", ".join([*block.columns, *([f"{block.label} (label)"] if block.label else [])]) or "keys only")
        for block in blocks_of(request, state.name)
    ]
    return [
        Fact(
            name="a controller", text=f"{state.organisation} ({state.name}), contact: {said.contact or OPEN}"
        ),
        Fact(name="  with", text=", ".join(others) or "nobody else"),
        Fact(name="b purpose", text=f"{request.purpose}: {request.purpose_text or 'no further text'}"),
        Fact(name="  legal basis", text=said.legal_basis or OPEN),
        Fact(name="c people", text=said.people or OPEN),
        Fact(name="  data", text=said.data or OPEN),
        Fact(name="  columns", text="; ".join(columns) or "none of ours"),
        Group(title="d recipients of each output", items=outputs(request)),
        Fact(name="e transfer out of the region", text=said.transfer or OPEN),
        Fact(name="f retention of results", text=said.retention or OPEN),
        Fact(
            name="g security measures",
            text=f"{said.security or OPEN}; by the program: release manifest and gates, mutual TLS, own audit log",
        ),
    ]


def _left(request: ComputationRequest, used: int) -> list[Content]:
    left = max(0, request.runs - used)
    return [
        Fact(name="runs", text=f"{left} of {request.runs} left"),
        Fact(name="ends", text=f"{request.expires} (UTC)"),
        Note(text=REVOKING),
    ]
