"""What a computation is to the parties: one record that holds everything in which two computations differ.

The rooms of `parties` know a computation by this record alone; `parties.catalog` has the records there are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocols.masking import Identity
from protocols.program import Json, Observe, Outcome, Program
from protocols.psi import ALONE, Crew
from protocols.request import Release
from protocols.seeds import PrivateSeed
from protocols.wire import Message
from vertical.table import PartyData, Split, Table

if TYPE_CHECKING:
    from parties.blocks.schema import BlockSchema

Parameters: TypeAlias = tuple[tuple[str, str | int | float | bool], ...]
Given: TypeAlias = Mapping[str, object]
"""The settings that a plan says, before anything is checked."""
Rows: TypeAlias = Mapping[str, int]
"""Published upper bound of the rows of each role's block."""
Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Resume: TypeAlias = Arrays | None
"""The state of a checkpoint that a program goes on from, or None: from the beginning."""
CheckSeats: TypeAlias = Callable[[Parameters, Mapping[str, str], str], None]
"""(parameters, each role's organisation, the analyst's): raises RequestError for a role that one may not have."""
NO_DATA = PartyData(keys=(), table=Table((), 0), split=np.zeros(0, np.uint8))
"""What the program of a role without a block is given."""


class Settings(Protocol):
    """What a program needs of a request; a ComputationRequest has it, and so has a run without one (`simulate`)."""

    @property
    def parameters(self) -> Parameters:
        """Every setting of the computation, sorted by name."""

    @property
    def public_seed(self) -> int:
        """Seed of the order of rows."""

    @property
    def minimum_overlap(self) -> int:
        """Smallest number of aligned training people."""

    @property
    def minimum_group(self) -> int:
        """The k of the disclosure rules."""

    @property
    def rows(self) -> Mapping[str, int]:
        """Published upper bound of the rows of each role's block; none for a run without blocks in a store."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inputs:
    """All that a role's program is made from.

    `data` is NO_DATA for a role without a block. `model` is this party's part of the trained model that the request
    names: None unless the computation needs one.
    `crew` helps with an alignment. `identity` proves to roles without a link to this one who it is.
    """

    role: str
    settings: Settings
    data: PartyData
    seed: PrivateSeed
    observe: Observe
    resume: Resume = None
    model: Arrays | None = None
    crew: Crew = ALONE
    identity: Identity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MockPeople:
    """Whom a rehearsal invents so that bounds of the manifest are reached.

    `common` people are in all blocks: the first `train` of them training people, then `test` test people, the rest for
    validation. Everybody else is in the split `alone`.
    """

    common: int
    train: int = 0
    test: int = 0
    alone: Split = Split.TRAIN

    @classmethod
    def of_one(cls, rows: int, split: Split) -> "MockPeople":
        """Those of a run of one party, in whose block so many are all in this split."""
        train, test = (rows if split == each else 0 for each in (Split.TRAIN, Split.TEST))
        return cls(common=rows, train=train, test=test, alone=split)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLeft:
    """How what a finished run leaves at a role is read as that party's part of a model.

    `describe(role, arrays)` says in JSON what the part is, without a cell of data (ModelError for a part that isn't
    whole); `preprocessing(role, arrays)` how columns become its features, levels of categories included;
    `tensors(role, arrays)` names the arrays of numbers that make it up; `without_memory(arrays)` is all but what it
    remembers of the other party's people.
    """

    describe: Callable[[str, Arrays], Mapping[str, Json]]
    preprocessing: Callable[[str, Arrays], Mapping[str, Json]]
    tensors: Callable[[str, Arrays], tuple[str, ...]]
    without_memory: Callable[[Arrays], Arrays]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnRows:
    """What a run left about people of the party's own: their row numbers in its block, and columns of as many cells."""

    rows: Sequence[int]
    columns: Mapping[str, Sequence[str | int | float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsed:
    """How a computation uses the model that runs of the computation `trained_by` leave.

    The request's parameter `model` names it by its training request's digest. `inherited(parameters, classes)` are the
    settings that follow from that request's parameters and the names of its classes. `mock(parameters, data)` makes
    each role's part for a rehearsal, from mock data. With `alone` one party that trained the model, in whatever role,
    uses its part by itself; else it takes all of them in the same roles.
    """

    trained_by: str
    inherited: Callable[[Parameters, Sequence[str]], Mapping[str, object]]
    mock: Callable[[Parameters, Mapping[str, PartyData]], Mapping[str, Arrays]]
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    """What differs where one party in the role `centre`, without a block, speaks with any number of parties alike.

    Those have the role `spoke`, numbered in the order of the plan ("client-1"), each with a block, and speak with the
    centre only. What goes wrong with one of them is raised in the centre's program, which may go on without it; a run
    is taken up at the centre's newest checkpoint, by the others at their newest one of that step or before, for which
    they keep `kept(parameters)` checkpoints. `least_fill(parameters, spokes)` is the share of each bound of the
    manifest that a rehearsal has to use.
    """

    centre: str
    spoke: str
    kept: Callable[[Parameters], int]
    least_fill: Callable[[Parameters, int], float]

    def role(self, number: int) -> str:
        """The role of the spoke of this number, from 1."""
        return f"{self.spoke}-{number}"

    def is_spoke(self, role: str) -> bool:
        """Whether the role is that of a numbered spoke."""
        kind, _, number = role.rpartition("-")
        return kind == self.spoke and number.isdecimal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """One entry of the catalog.

    `analyst_receives` is what a run releases, in words for the review. `label_role` is the only role whose labels are
    opened, "" for none; without `reads_columns` only keys are read. `meanings` says in a line what each method and
    situation of its report is. `row_bounds` names the parameters that bound the manifest's numbers of rows.

    `parameters(given, minimum_overlap)` completes and checks settings (ConfigError); `bounds(given, rows,
    minimum_overlap)` are the row bounds that a plan leaves out, such that all can be reached with blocks of these rows;
    `manifest` derives the release manifest from complete parameters and the rows, and `mock_people`, with the minimum
    overlap, whom its rehearsals need: of some bounds each can be reached, but not with the same people.
    `setting_names` are those of its parameters, whatever a plan says (of a computation without any: none).
    `check_seats` refuses an organisation in a role in which it would learn what it mustn't.
    `check_rows(parameters, rows, minimum_group)` raises RequestError for a request that could tell nothing of such
    blocks. `program` makes a role's program, which runs until its Outcome; `kinds` are all messages
    that its worker decodes. `model_left` and `model_used` say what model a run leaves and uses, if any;
    `own_rows` reads what it left about people of this party's own (None: nothing). `star` is for one whose number of
    parties is open: its `roles` are centre and spoke. `from_schemas(given, schemas)` adds settings that follow from
    what the datasites publish of the blocks, by role.
    """

    name: str
    version: str
    summary: str
    roles: tuple[str, ...]
    analyst_receives: tuple[str, ...]
    parameters: Callable[[Mapping[str, object], int], Parameters]
    manifest: Callable[[Parameters, Rows], tuple[Release, ...]]
    mock_people: Callable[[Parameters, Rows, int], tuple[MockPeople, ...]]
    program: Callable[[Inputs], Program[Outcome]]
    kinds: Callable[[], tuple[type[Message], ...]]
    label_role: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    reads_columns: bool = True
    row_bounds: tuple[str, ...] = ()
    bounds: Callable[[Given, Rows, int], Mapping[str, int]] = lambda given, rows, least: {}
    check_rows: Callable[[Parameters, Rows, int], None] = lambda parameters, rows, group: None
    model_left: ModelLeft | None = None
    model_used: ModelUsed | None = None
    own_rows: Callable[[Arrays], OwnRows | None] | None = None
    star: Star | None = None
    setting_names: Callable[[], Sequence[str]] = lambda: ()
    check_seats: CheckSeats = lambda parameters, organisations, analyst: None
    from_schemas: (
        Callable[[Mapping[str, object], Mapping[str, "BlockSchema"]], Mapping[str, object]] | None
    ) = None

    def takes(self, role: str) -> bool:
        """Whether a party of a request can have this role."""
        if self.star is None:
            return role in self.roles
        return role == self.star.centre or self.star.is_spoke(role)

    def has_block(self, role: str) -> bool:
        """Whether the party in this role brings a block."""
        return self.star is None or role != self.star.centre

    def opens_label(self, role: str) -> bool:
        """Whether the labels of this role's block are opened."""
        if self.star is not None and self.star.is_spoke(role):
            return self.label_role == self.star.spoke
        return role == self.label_role

    def roles_of(self, blocks: Iterable[str]) -> tuple[str, ...]:
        """All roles of a run whose blocks are in these roles."""
        return self.roles if self.star is None else (self.star.centre, *blocks)
