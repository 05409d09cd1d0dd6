"""The settings of a computation: a frozen dataclass of scalars in the code, name and value pairs in a request."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from enum import StrEnum
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from protocols.errors import ConfigError


class Settings(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


Scalar: TypeAlias = str | int | float | bool
Parameters: TypeAlias = tuple[tuple[str, Scalar], ...]
S = TypeVar("S", bound=Settings)


def check_settings(
    settings: Settings,
    ranges: Mapping[str, tuple[float, float]],
    choices: Mapping[str, type[StrEnum]],
) -> None:
    """ConfigError naming the first setting that isn't of its default's type, in its range, or one of its choices.

    For `__post_init__`: a choice that was given as text is replaced by its member.
    """
    for name, kind in choices.items():
        object.__setattr__(settings, name, _choose(name, kind, getattr(settings, name)))
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name not in choices and type(value) is not type(field.default):
            whole = type(value) is int and type(field.default) is float
            raise ConfigError(
                f"{field.name}: expected {type(field.default).__name__}, came {value!r}",
                remedy="with a point, such as 1.0" if whole else "",
            )
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if not (math.isfinite(value) and low <= value <= high):
            raise ConfigError(f"{name} must lie in [{low:g}, {high:g}], came {value!r}")


def names_of(kind: type[Settings]) -> tuple[str, ...]:
    """The names of all settings of this kind."""
    return tuple(field.name for field in fields(kind))


def to_parameters(settings: Settings) -> Parameters:
    """Every setting as (name, scalar), sorted by name: what a request carries."""
    return tuple(
        (name, str(value) if isinstance(value, StrEnum) else value)
        for name, value in sorted((field.name, getattr(settings, field.name)) for field in fields(settings))
    )


def from_parameters(kind: type[S], parameters: Iterable[tuple[str, Scalar]]) -> S:
    """The settings of a request; each one must be there, so that no default changes an approved run."""
    given = list(parameters)
    values = dict(given)
    known = {field.name for field in fields(kind)}
    if len(values) != len(given):
        raise ConfigError("a parameter is given twice")
    check_names(kind, values)
    if missing := sorted(known - values.keys()):
        raise ConfigError(f"missing parameters: {', '.join(missing)}")
    return kind(**values)


def check_names(kind: type[Settings], given: Iterable[str]) -> None:
    """ConfigError listing the names that are no setting of this kind, and those that are."""
    known = names_of(kind)
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(sorted(known))}"
        )


def _choose(name: str, kind: type[StrEnum], value: object) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError:
        raise ConfigError(f"{name} must be one of {', '.join(kind)}, came {value!r}") from None
