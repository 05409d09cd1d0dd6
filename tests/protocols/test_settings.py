"""Settings as dataclasses and as a request's parameters: nothing is added, dropped or of another type."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import ConfigError
from protocols.settings import check_names, check_settings, from_parameters, to_parameters


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    coats: int = 2
    share: float = 0.5
    matt: bool = False
    name: str = ""
    colour: Colour = Colour.RED

    def __post_init__(self) -> None:
        check_settings(self, {"coats": (1, 9), "share": (0.0, 1.0)}, {"colour": Colour})


@given(
    st.integers(1, 9),
    st.floats(0, 1),
    st.booleans(),
    st.text(max_size=9),
    st.sampled_from(Colour),
)
def test_parameters_are_sorted_scalars_and_give_the_same_settings(coats, share, matt, name, colour):
    paint = Paint(coats=coats, share=share, matt=matt, name=name, colour=colour)
    parameters = to_parameters(paint)
    assert [name for name, _ in parameters] == sorted(Paint.__dataclass_fields__)
    assert all(type(value) in (int, float, bool, str) for _, value in parameters)
    assert from_parameters(Paint, parameters) == paint


def test_a_choice_may_be_given_as_text():
    assert Paint(colour="blue").colour is Colour.BLUE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"coats": 0}, r"coats must lie in \[1, 9\], came 0"),
        ({"coats": True}, "coats: expected int, came True"),
        ({"coats": 2.0}, "coats: expected int, came 2.0"),
        ({"share": 1}, "share: expected float, came 1"),
        ({"share": float("nan")}, "share must lie in"),
        ({"share": float("inf")}, "share must lie in"),
        ({"matt": 1}, "matt: expected bool"),
        ({"name": None}, "name: expected str"),
        ({"colour": "green"}, "colour must be one of red, blue, came 'green'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(changes, told):
    with pytest.raises(ConfigError, match=told):
        Paint(**changes)


def test_every_parameter_must_be_there_once_and_no_other():
    parameters = to_parameters(Paint())
    for wrong, told in (
        (parameters[1:], "missing parameters: coats"),
        ((*parameters, ("extra", 1)), "unknown parameters: extra"),
        ((*parameters, parameters[0]), "given twice"),
    ):
        with pytest.raises(ConfigError, match=told):
            from_parameters(Paint, wrong)


def test_unknown_names_are_listed_with_the_known_ones():
    check_names(Paint, ["coats"])
    with pytest.raises(ConfigError, match="unknown parameters: b, z") as caught:
        check_names(Paint, ["z", "coats", "b"])
    assert caught.value.remedy == "there are: coats, colour, matt, name, share"
