"""The description of one party's columns as an entry of the catalog: a run of one party, which speaks with nobody."""

from collections.abc import Mapping

from parties.computation import Computation, Inputs, MockPeople, Parameters, Rows
from protocols.program import Outcome, Program
from protocols.settings import check_names, from_parameters, names_of, to_parameters
from vertical.describe import COLUMN as COLUMN
from vertical.describe import DescribeConfig, describe_program
from vertical.table import Split
from vertical.use_config import People

ROLE = "holder"


def _parameters(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
    check_names(DescribeConfig, given)
    return to_parameters(DescribeConfig(**given))  # type: ignore[arg-type]  # the config checks every value


def _mock_people(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
    config = from_parameters(DescribeConfig, parameters)
    split = Split.TRAIN if config.people == People.ALL else Split[config.people.name]
    return (MockPeople.of_one(rows[ROLE], split),)


def _program(inputs: Inputs) -> Program[Outcome]:
    settings = inputs.settings
    config = from_parameters(DescribeConfig, settings.parameters)
    return describe_program(inputs.data, config, settings.minimum_group)


DESCRIBE = Computation(
    name="describe.columns",
    version="1",
    summary="Counts, means and quantiles of columns at one party",
    roles=(ROLE,),
    analyst_receives=(
        "how many people have a value in each column, and of categories how many people have each level",
        "of numbers the mean to three digits, unless few people make up nearly all of the sum, and quantiles as the "
        "mean of the values around them, never the smallest or largest",
        "for numbers on groups that are too small, or that differ by too few people from an earlier release: that they "
        "are suppressed, and why",
    ),
    parameters=_parameters,
    manifest=lambda parameters, rows: (),
    mock_people=_mock_people,
    program=_program,
    kinds=lambda: (),
    setting_names=lambda: names_of(DescribeConfig),
)


def asked_for(*, people: str, quantiles: int) -> tuple[str, dict[str, object]]:
    """Name and parameters of the description that an analyst wants."""
    return DESCRIBE.name, {"people": people, "quantiles": quantiles}
