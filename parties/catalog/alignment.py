"""Alignments as entries of the catalog: how many people are common, or who."""

from dataclasses import replace

from parties.computation import Computation, Inputs, MockPeople, Parameters, Rows
from protocols.errors import RequestError
from protocols.program import Outcome, Program
from protocols.psi import PSI_KINDS, PSI_SIZE_KINDS, psi_manifest, size_manifest
from vertical import align
from vertical.roles import ACTIVE, PASSIVE


def check_can_be_told(parameters: Parameters, rows: Rows, group: int) -> None:
    """RequestError when the rules would hide the size whatever it is: asking would only use up an alignment."""
    terms = align.align_terms(parameters, rows)
    if align.most_told(terms, group) >= group:
        return
    sizes = " and ".join(f"{count} ({role})" for role, count in rows.items())
    if align.most_told(replace(terms, bucket=0), group) < group:
        raise RequestError(
            f"with at most {sizes} people and a smallest group of {group} no number of common people could be told",
            remedy=f"ask for blocks of more than {2 * group} people, or with a smaller minimum_group if both policies "
            "allow it",
        )
    raise RequestError(
        f"size_bucket {terms.bucket} would hide every number of common people: of blocks of at most {sizes} people"
        " nobody could see then that they aren't nearly empty",
        remedy=f"ask with --bucket {align.useful_bucket(terms, group)} or less, or without one",
    )


def _size_people(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
    return (MockPeople(common=min(rows.values()) // 2),)  # were all common, the rules would hide the size


def _pairs_people(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
    return (MockPeople(common=align.align_terms(parameters, rows).most_common),)


def _size_program(inputs: Inputs) -> Program[Outcome]:
    settings = inputs.settings
    return align.size_program(
        inputs.role,
        inputs.data.keys,
        inputs.seed,
        align.align_terms(settings.parameters, settings.rows),
        group=settings.minimum_group,
        crew=inputs.crew,
        observe=inputs.observe,
    )


def _pairs_program(inputs: Inputs) -> Program[Outcome]:
    settings = inputs.settings
    return align.pairs_program(
        inputs.role,
        inputs.data.keys,
        inputs.seed,
        align.align_terms(settings.parameters, settings.rows),
        group=settings.minimum_group,
        least=settings.minimum_overlap,
        crew=inputs.crew,
        observe=inputs.observe,
    )


SIZE = Computation(
    name="align.size",
    version="1",
    summary="Counts the people that two parties have in common; neither learns who they are",
    roles=("active", "passive"),
    analyst_receives=(
        "how many people are common, rounded down to a multiple of the smallest group, or that it is hidden: "
        "too few are common, or perhaps too few of one party's people are not",
    ),
    parameters=lambda given, least: align.complete(align.SIZE_SETTINGS, given),
    manifest=lambda given, rows: size_manifest(ACTIVE, PASSIVE, align.align_terms(given, rows)),
    mock_people=_size_people,
    program=_size_program,
    kinds=lambda: PSI_SIZE_KINDS,
    setting_names=lambda: tuple(align.SIZE_SETTINGS),
    check_rows=check_can_be_told,
    reads_columns=False,
)
PAIRS = Computation(
    name="align.pairs",
    version="1",
    summary="Finds the people that two parties have in common; both learn which of their own they are",
    roles=("active", "passive"),
    analyst_receives=(
        "how many people are common, rounded down to a multiple of the smallest group, or that it is hidden: "
        "perhaps too few of one party's people are not",
    ),
    parameters=lambda given, least: align.complete(align.PAIRS_SETTINGS, given),
    manifest=lambda given, rows: psi_manifest(ACTIVE, PASSIVE, align.align_terms(given, rows)),
    mock_people=_pairs_people,
    program=_pairs_program,
    kinds=lambda: PSI_KINDS,
    setting_names=lambda: tuple(align.PAIRS_SETTINGS),
    reads_columns=False,
    row_bounds=("max_common",),
)


def asked_for(*, full: bool, bucket: int, max_common: int | None) -> tuple[str, dict[str, object]]:
    """Name and parameters of the alignment that an analyst wants: a pairing if `full`, else a size."""
    parameters: dict[str, object] = {"size_bucket": bucket}
    if max_common is not None:
        parameters["max_common"] = max_common
    return (PAIRS if full else SIZE).name, parameters
