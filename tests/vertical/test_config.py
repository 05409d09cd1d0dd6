"""Settings: scalars, validated, and the same after a trip through a request's parameters."""

from __future__ import annotations

import json

import pytest

from protocols.errors import ConfigError
from vertical.choices import EncoderKind, PseudoWeighting, ViewShape
from vertical.config import FedCVTConfig


def test_parameters_are_sorted_scalars_and_come_back_equal() -> None:
    config = FedCVTConfig(
        encoder=EncoderKind.MLP, steps=7, pseudo_weighting=PseudoWeighting.UNION, fill=False
    )
    parameters = config.to_parameters()
    assert [name for name, _ in parameters] == sorted(name for name, _ in parameters)
    assert {type(value) for _, value in parameters} <= {str, int, float, bool}
    over_json = json.loads(json.dumps(parameters))
    assert FedCVTConfig.from_parameters((name, value) for name, value in over_json) == config


def test_a_text_choice_becomes_its_kind() -> None:
    assert FedCVTConfig(encoder="mlp").encoder is EncoderKind.MLP  # type: ignore[arg-type]


def test_a_unique_width_of_zero_is_the_common_one() -> None:
    config = FedCVTConfig(d=4, unique_active=7)
    assert (config.active_view, config.passive_view) == (ViewShape(7, 4), ViewShape(4, 4))
    assert (config.active_view.width, config.passive_view.width) == (11, 8)


def test_an_image_size_becomes_height_and_width() -> None:
    config = FedCVTConfig(encoder=EncoderKind.CNN, image_passive="28x14")
    assert config.passive_view.image == (28, 14)
    assert config.active_view.image is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"encoder": "forest"}, "encoder.*forest"),
        ({"schedule": ""}, "schedule"),
        ({"encoder": "cnn"}, "cnn needs image_active or image_passive"),
        ({"candidates": "image"}, "cnn needs image_active or image_passive"),
        ({"image_active": "8 x 4"}, "image_active must be.*8 x 4"),
        ({"image_passive": "0x4"}, "image_passive must be.*0x4"),
        ({"image_passive": "8"}, "image_passive must be"),
        ({"normalisation": "group"}, "normalisation must be one of none, batch, layer"),
        ({"scaling": "minmax"}, "scaling must be one of auto"),
        ({"d": 0}, "d must lie.*0"),
        ({"unique_passive": -1}, "unique_passive must lie.*-1"),
        ({"d": True}, "d: expected int, came True"),
        ({"d": 2.0}, "d: expected int, came 2.0"),
        ({"learning_rate": float("nan")}, "learning_rate.*nan"),
        ({"learning_rate": 1}, "learning_rate: expected float, came 1"),
        ({"learning_rate": -0.5}, "learning_rate.*-0.5"),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"temperature": 0.0}, "temperature.*0.0"),
        ({"temperature": float("inf")}, "temperature.*inf"),
        ({"threshold_passive": 1.5}, "threshold_passive.*1.5"),
        ({"l3": -1.0}, "l3.*-1.0"),
        ({"aligned_batch": 0}, "aligned_batch.*0"),
        ({"memory_every": 0}, "memory_every.*0"),
        ({"fill": 1}, "fill: expected bool, came 1"),
        ({"minimum_overlap": 99, "max_aligned_train": 98}, "minimum_overlap 99 exceeds max_aligned_train 98"),
    ],
)
def test_a_bad_value_is_named(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        FedCVTConfig(**changes)  # type: ignore[arg-type]


def test_parameters_must_be_complete_known_and_single() -> None:
    parameters = FedCVTConfig().to_parameters()
    with pytest.raises(ConfigError, match="unknown parameters: extra"):
        FedCVTConfig.from_parameters([*parameters, ("extra", 1)])
    with pytest.raises(ConfigError, match="missing parameters: aligned_batch"):
        FedCVTConfig.from_parameters(parameters[1:])
    with pytest.raises(ConfigError, match="twice"):
        FedCVTConfig.from_parameters([*parameters, parameters[0]])


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": "mlp", "candidates": "linear"},
        {"dropout": 0.7},
        {"input_noise": 0.0},
        {"label_smoothing": 0.1, "candidates": "small,wide"},
        {"learning_rate": 0.5, "candidates": "wide"},
    ],
)
def test_a_setting_that_every_candidate_replaces_is_refused_where_it_is_given(
    changes: dict[str, object],
) -> None:
    config = FedCVTConfig(**changes)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"{next(iter(changes))}=.* has no effect: each of the candidates"):
        config.check_effect()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder": "mlp", "candidates": "given"},
        {"encoder": "mlp", "dropout": 0.5, "candidates": "given,linear"},
        {"learning_rate": 0.5, "folds": 0},
        {"learning_rate": 0.004, "candidates": "wide"},  # what the candidate has itself
        {"hidden": 16},  # the linear candidate leaves it as it is
        {"steps": 10, "cuts": 0},
    ],
)
def test_a_setting_that_some_candidate_keeps_may_be_given(changes: dict[str, object]) -> None:
    FedCVTConfig(**changes).check_effect()  # type: ignore[arg-type]
