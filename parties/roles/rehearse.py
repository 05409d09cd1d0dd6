"""The rehearsal of a request on the mock twins: the whole run in one process, before anybody is asked.

The mocks are drawn out to the published numbers of rows and re-keyed so that the overlap is as large as the request
allows; where that leaves too few people alone, it is rehearsed once more with a small overlap. So the messages have to
fit the manifest and fill nine tenths of each of its lines in one of the rehearsals: bounds that are too wide would let
more leave than the computation needs.

The reports go through the same disclosure rules as those of a run. Every number of them is about nobody, and each
report says so itself: what is made of it later, a table, a plot, a file, finds the mark there (`showing.is_mock`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from parties import catalog
from parties.blocks.rehearsal import rehearsal_data, rehearsal_keys
from parties.computation import NO_DATA, Computation, Inputs, MockPeople
from parties.roles.plan import Offer
from parties.roles.showing import MOCK_FIELD
from protocols.disclosure import releasable
from protocols.errors import RequestError
from protocols.gate import Trace
from protocols.masking import identities
from protocols.program import Json, Observe, Outcome, simulate
from protocols.psi import all_cores, crew_of
from protocols.request import BlockEntry, ComputationRequest, party
from protocols.request import digest as request_digest
from protocols.seeds import injected
from vertical.table import PartyData, Split

LEAST_FILL = 0.9
"""Share of each bound of the manifest that a rehearsal has to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a rehearsal showed: each role's report (MOCK), and how much of each manifest line was used, by its name.

    Of several the reports are the first one's; shares, messages and bytes are the largest.
    """

    reports: Mapping[str, Mapping[str, Json]]
    fill: Mapping[str, float]
    messages: int
    bytes: int

    def __repr__(self) -> str:
        roles = ", ".join(self.reports)
        return (
            f"MOCK rehearsal, about nobody: reports of {roles}; {self.messages} messages, {self.bytes} bytes"
        )


def rehearse(
    request: ComputationRequest, offers: Mapping[str, Offer], observe: Observe, *, seed: int = 0
) -> Rehearsal:
    """Runs the request on the mocks of all parties (by party name), once for each case that its bounds need.

    Raises GateError when a message doesn't fit the manifest, and RequestError naming a line that no case fills to
    LEAST_FILL.
    """
    computation = catalog.find(request.computation, request.computation_version)
    cases = computation.mock_people(request.parameters, request.rows, request.minimum_overlap)
    done = [
        _rehearse_case(request, computation, offers, people, _numbered(observe, number, len(cases)), seed)
        for number, people in enumerate(cases, 1)
    ]
    fill = {line: max(case.fill[line] for case in done) for line in done[0].fill}
    _check_fill(fill, request, computation)
    return Rehearsal(
        reports=done[0].reports,
        fill=fill,
        messages=max(case.messages for case in done),
        bytes=max(case.bytes for case in done),
    )


def _check_fill(fill: Mapping[str, float], request: ComputationRequest, computation: Computation) -> None:
    star = computation.star
    least = LEAST_FILL if star is None else star.least_fill(request.parameters, len(request.blocks))
    slack = {line: share for line, share in fill.items() if share < least}
    if not slack:
        return
    listed = ", ".join(f"{line} {share:.0%}" for line, share in sorted(slack.items()))
    rows = " and ".join(f"{block.rows} ({block.role})" for block in request.blocks)
    raise RequestError(
        f"the manifest is wider than the computation needs between blocks of at most {rows} people:"
        f" {listed} used",
        remedy=f"leave {', '.join(computation.row_bounds)} out of the parameters, then they follow from these numbers;"
        ' or lower them: README, "A plan of your own"',
    )


def _rehearse_case(
    request: ComputationRequest,
    computation: Computation,
    offers: Mapping[str, Offer],
    people: MockPeople,
    observe: Observe,
    seed: int,
) -> Rehearsal:
    data = _mock_data(request, people, offers, seed)
    used = computation.model_used
    models = {} if used is None else used.mock(request.parameters, data)
    trace = Trace()
    roles = [entry.role for entry in request.parties]
    who = identities(roles, request_digest(request))
    with crew_of(all_cores()) as crew:
        programs = {
            role: computation.program(
                Inputs(
                    role=role,
                    settings=request,
                    data=data.get(role, NO_DATA),
                    seed=injected(seed, role),
                    observe=_only(role, request, observe),
                    model=models.get(role),
                    crew=crew,
                    identity=who[role],
                )
            )
            for role in roles
        }
        catalog.one_thread()
        outcomes = simulate(programs, observe=trace.observe)
    trace.fits(request)
    fill = {f"{kind} {sender} -> {to}": share for (kind, sender, to), share in trace.fill(request).items()}
    return Rehearsal(
        reports={
            role: {MOCK_FIELD: True, **releasable(outcome.report, request.minimum_group)}
            for role, outcome in outcomes.items()
            if isinstance(outcome, Outcome)
        },
        fill=fill,
        messages=len(trace.lines),
        bytes=sum(line.nbytes for line in trace.lines),
    )


def _numbered(observe: Observe, number: int, cases: int) -> Observe:
    """Progress that says which rehearsal of several it is: a second one without a word looks like a fault."""
    if cases == 1:
        return observe
    return lambda progress: observe(replace(progress, phase=f"{number} of {cases}: {progress.phase}"))


def _only(role: str, request: ComputationRequest, observe: Observe) -> Observe:
    """One voice is enough: the first role's progress stands for all."""
    return observe if role == request.parties[0].role else lambda progress: None


def _mock_data(
    request: ComputationRequest, people: MockPeople, offers: Mapping[str, Offer], seed: int
) -> dict[str, PartyData]:
    generator = np.random.default_rng(seed)
    keys = rehearsal_keys(request.rows, people.common, generator)
    data = {}
    for block in request.blocks:
        publication = offers[party(request, block.role).name].publication(block.block)
        whole = rehearsal_data(
            publication.schema, publication.mock, keys=keys[block.role], generator=generator
        )
        data[block.role] = _as_asked(whole, block, keys, people)
    return data


def _as_asked(
    whole: PartyData, block: BlockEntry, keys: Mapping[str, tuple[bytes, ...]], people: MockPeople
) -> PartyData:
    """The block's asked columns, its people in the splits that reach every bound."""
    shared = sorted(set.intersection(*(set(role_keys) for role_keys in keys.values())))
    codes = np.full(people.common, Split.VALIDATION, np.uint8)
    codes[: people.train], codes[people.train : people.train + people.test] = Split.TRAIN, Split.TEST
    split_of = dict(zip(shared, codes.tolist(), strict=True))
    split = np.array([split_of.get(key, people.alone) for key in whole.keys], np.uint8)
    columns = tuple(column for column in whole.table.columns if column.name in block.columns)
    table = type(whole.table)(columns, whole.table.rows)
    labels = whole.labels if block.label else None
    return replace(
        whole, table=table, split=split, labels=labels, classes=whole.classes if block.label else ()
    )
