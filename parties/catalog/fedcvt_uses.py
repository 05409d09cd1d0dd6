"""What can be done with a trained FedCVT model, as entries of the catalog: fill, vote, predict."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from parties.catalog.fedcvt import whole
from parties.computation import (
    Arrays,
    Computation,
    Given,
    Inputs,
    MockPeople,
    ModelUsed,
    OwnRows,
    Parameters,
    Rows,
)
from protocols.errors import ModelError
from protocols.program import Outcome, Program
from protocols.psi import UNBOUNDED
from protocols.request import Release
from protocols.settings import check_names, from_parameters, names_of, to_parameters
from protocols.wire import Message
from vertical.table import PartyData, Split
from vertical.use_config import People, PredictConfig, UseConfig, VoteConfig, inherited
from vertical.use_manifest import fill_manifest, predict_manifest, vote_manifest
from vertical.use_messages import FILL_KINDS, PREDICT_KINDS, VOTE_KINDS

if TYPE_CHECKING:
    from vertical.model import ActivePart, PassivePart
    from vertical.use import UseRun

ROLES = ("active", "passive")
ROW_BOUNDS = ("max_common", "max_passive_only")
Kind: TypeAlias = type[UseConfig]
Manifest: TypeAlias = Callable[[Parameters, Mapping[str, int]], tuple[Release, ...]]


def _parameters(kind: Kind) -> Callable[[Mapping[str, object], int], Parameters]:
    def complete(given: Mapping[str, object], minimum_overlap: int) -> Parameters:
        check_names(kind, given)
        return to_parameters(kind(**given))  # type: ignore[arg-type]  # the config checks every value

    return complete


def _bounds(given: Given, rows: Rows, least: int) -> Mapping[str, int]:
    """The bounds that follow neither from the plan nor from the training: everybody who may be common, or alone."""
    usual = UseConfig(model="0" * 64)
    return {
        "max_common": min(whole(given, "max_common", usual.max_common), *rows.values()),
        "max_passive_only": max(0, min(usual.max_passive_only, rows["passive"] - least)),
    }


def _mock_people(kind: Kind) -> Callable[[Parameters, Rows, int], tuple[MockPeople, ...]]:
    """As many common people as may be; and, where too few others are left then, as few as there must be."""

    def invent(parameters: Parameters, rows: Rows, least: int) -> tuple[MockPeople, ...]:
        config = from_parameters(kind, parameters)
        split = Split.TRAIN if config.split == People.ALL else Split[config.split.name]
        common = min(config.max_common, *rows.values())
        few = rows["passive"] - common < config.max_passive_only and least < common
        return tuple(
            MockPeople(
                common=people,
                train=people if split == Split.TRAIN else 0,
                test=people if split == Split.TEST else 0,
                alone=split,
            )
            for people in ((common, least) if few else (common,))
        )

    return invent


def _model_used(kind: Kind) -> ModelUsed:
    def follows(trained: Parameters, classes: Sequence[str]) -> Mapping[str, object]:
        from vertical.config import FedCVTConfig

        names = names_of(kind)
        settings = inherited(FedCVTConfig.from_parameters(trained), classes)
        return {name: value for name, value in settings.items() if name in names}

    def mock(parameters: Parameters, data: Mapping[str, PartyData]) -> Mapping[str, Arrays]:
        from vertical.one_process import mock_parts

        return mock_parts(from_parameters(kind, parameters), data)

    return ModelUsed(trained_by="vertical.fedcvt.train", inherited=follows, mock=mock)


def _fill(inputs: Inputs) -> Program[Outcome]:
    from vertical import use_fill

    config, run = from_parameters(UseConfig, inputs.settings.parameters), _run(inputs)
    if inputs.role == "active":
        return use_fill.active_program(inputs.data, _active_part(inputs), config, run)
    return use_fill.passive_program(inputs.data, _passive_part(inputs), config, run)


def _vote(inputs: Inputs) -> Program[Outcome]:
    from vertical import use_vote

    config, run = from_parameters(VoteConfig, inputs.settings.parameters), _run(inputs)
    if inputs.role == "active":
        return use_vote.active_program(inputs.data, _active_part(inputs), config, run)
    return use_vote.passive_program(inputs.data, _passive_part(inputs), config, run)


def _predict(inputs: Inputs) -> Program[Outcome]:
    from vertical import use_predict

    config, run = from_parameters(PredictConfig, inputs.settings.parameters), _run(inputs)
    if inputs.role == "active":
        return use_predict.active_program(inputs.data, _active_part(inputs), config, run)
    return use_predict.passive_program(inputs.data, _passive_part(inputs), config, run)


def _run(inputs: Inputs) -> "UseRun":
    from vertical.use import UseRun

    settings = inputs.settings
    return UseRun(
        seed=inputs.seed,
        observe=inputs.observe,
        rows=(settings.rows.get("active", UNBOUNDED), settings.rows.get("passive", UNBOUNDED)),
        least=settings.minimum_overlap,
        crew=inputs.crew,
    )


def _active_part(inputs: Inputs) -> "ActivePart":
    from vertical.model import ActivePart

    return ActivePart.unpack(_model(inputs))


def _passive_part(inputs: Inputs) -> "PassivePart":
    from vertical.model import PassivePart

    return PassivePart.unpack(_model(inputs))


def _model(inputs: Inputs) -> Arrays:
    if inputs.model is None:
        raise ModelError(f"the {inputs.role} party was given no model")
    return inputs.model


def _computation(
    name: str,
    kind: Kind,
    *,
    summary: str,
    receives: tuple[str, ...],
    manifest: Manifest,
    program: Callable[[Inputs], Program[Outcome]],
    kinds: tuple[type[Message], ...],
    label_role: str = "",
    own_rows: Callable[[Arrays], OwnRows | None] | None = None,
) -> Computation:
    return Computation(
        name=name,
        version="1",
        summary=summary,
        roles=ROLES,
        analyst_receives=receives,
        parameters=_parameters(kind),
        manifest=manifest,
        mock_people=_mock_people(kind),
        program=program,
        kinds=lambda: kinds,
        label_role=label_role,
        setting_names=lambda: names_of(kind),
        row_bounds=ROW_BOUNDS,
        bounds=_bounds,
        model_used=_model_used(kind),
        own_rows=own_rows,
    )


def _own_votes(arrays: Arrays) -> OwnRows | None:
    from vertical.use_vote import columns_of

    found = columns_of(arrays)
    return None if found is None else OwnRows(rows=found[0], columns=found[1])


def _own_predictions(arrays: Arrays) -> OwnRows | None:
    from vertical.use_predict import columns_of

    found = columns_of(arrays)
    return None if found is None else OwnRows(rows=found[0], columns=found[1])


FILL = _computation(
    "vertical.fedcvt.fill",
    UseConfig,
    summary="Fills the views that people lack with a trained model, into the active party's store",
    receives=(
        "numbers of people whose views were filled, small ones suppressed",
        "how well fills match true views on the aligned training people, to three digits",
    ),
    manifest=lambda parameters, rows: fill_manifest(
        from_parameters(UseConfig, parameters), rows["active"], rows["passive"]
    ),
    program=_fill,
    kinds=FILL_KINDS,
)
VOTE = _computation(
    "vertical.fedcvt.vote",
    VoteConfig,
    summary="Lets a trained model's three classifiers vote on people without a label, into the active party's store",
    receives=("numbers of people per pseudo label and without one, small ones suppressed",),
    manifest=lambda parameters, rows: vote_manifest(
        from_parameters(VoteConfig, parameters), rows["active"], rows["passive"]
    ),
    program=_vote,
    kinds=VOTE_KINDS,
    label_role="active",
    own_rows=_own_votes,
)
PREDICT = _computation(
    "vertical.fedcvt.predict",
    PredictConfig,
    summary="Predicts with a trained model; the party that the request names gets its own people's probabilities",
    receives=("numbers of people who were predicted for, small ones suppressed",),
    manifest=lambda parameters, rows: predict_manifest(
        from_parameters(PredictConfig, parameters), rows["active"], rows["passive"]
    ),
    program=_predict,
    kinds=PREDICT_KINDS,
    own_rows=_own_predictions,
)
