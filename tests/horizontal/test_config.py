"""Settings: ranges, parameters of a request, what doesn't combine, methods by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from horizontal.choices import Aggregation
from horizontal.config import HorizontalConfig
from horizontal.methods import METHODS, method
from protocols.errors import ConfigError


def test_settings_go_through_parameters() -> None:
    config = HorizontalConfig(rounds=7, fraction=0.5, aggregation="fedoui", gate="linear")
    parameters = config.to_parameters()
    assert list(parameters) == sorted(parameters)
    assert all(type(value) in (str, int, float, bool) for _, value in parameters)
    assert HorizontalConfig.from_parameters(parameters) == config
    assert config.aggregation is Aggregation.FEDOUI


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda p: p[1:], "missing parameters: adjustment"),
        (lambda p: (*p, p[0]), "given twice"),
        (lambda p: (*p, ("speed", 0.1)), "unknown parameters: speed"),
        (lambda p: (), "missing parameters"),
    ],
)
def test_parameters_must_be_complete(wrong, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        HorizontalConfig.from_parameters(wrong(HorizontalConfig().to_parameters()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 0),
        ("rounds", 1.0),
        ("rounds", True),
        ("fraction", 1.1),
        ("fraction", -0.1),
        ("fraction", 1),
        ("minimum_clients", 0),
        ("epochs", 0),
        ("batch", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("mu", -0.1),
        ("scaffold_option", 3),
        ("shuffle", 1),
        ("oui_probe", 1),
        ("trim_share", 0.5),
        ("flash_lambda", 0.0),
        ("flash_delta", 0.0),
        ("aggregation", "largest"),
        ("selection", ""),
        ("gate", None),
    ],
)
def test_a_bad_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        HorizontalConfig(**{name: value})


def test_every_number_has_a_range() -> None:
    for field in fields(HorizontalConfig):
        if type(field.default) in (int, float):
            with pytest.raises(ConfigError, match=f"{field.name} must lie in"):
                HorizontalConfig(**{field.name: type(field.default)(10**13)})


@pytest.mark.parametrize(
    ("share", "rounds", "warm"), [(0.25, 200, 50), (0.25, 60, 15), (0.25, 2, 1), (0.0, 9, 0)]
)
def test_the_warm_up_scales_with_the_rounds(share: float, rounds: int, warm: int) -> None:
    assert HorizontalConfig(warmup_share=share, rounds=rounds).warmup_rounds == warm


def test_settings_that_do_not_combine_say_why() -> None:
    with pytest.raises(
        ConfigError, match=r"adjustment scaffold with optimizer adam: SCAFFOLD corrects plain gradient"
    ):
        HorizontalConfig(adjustment="scaffold", aggregation="mean", optimizer="adam")


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_settings_that_others_may_add_to(name: str) -> None:
    config = method(name, rounds=9)
    assert config.rounds == 9
    for key, value in METHODS[name].items():
        assert getattr(config, key) == value


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ConfigError, match="no method 'fedsgd'"):
        method("fedsgd")
    assert method("fedprox", mu=0.5).mu == 0.5
