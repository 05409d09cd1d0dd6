"""Typed access to the fields of a request that came over the supervisor's socket."""

from collections.abc import Mapping

from protocols.errors import RequestError

Fields = Mapping[str, object]


def text(fields: Fields, name: str, default: str | None = None) -> str:
    """The text in a field; RequestError when it is missing (without a default) or not text."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise RequestError(f"field {name} must be text")
    return value


def whole(fields: Fields, name: str) -> int:
    """The whole number in a field; RequestError otherwise."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(f"field {name} must be a whole number")
    return value


def seconds(fields: Fields, name: str, most: float) -> float:
    """The waiting time in a field, cut to 0..`most`; 0 when it is missing."""
    value = fields.get(name, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise RequestError(f"field {name} must be a number of seconds")
    return min(max(float(value), 0.0), most)


def flag(fields: Fields, name: str) -> bool:
    """The true or false in a field; RequestError otherwise."""
    value = fields.get(name)
    if not isinstance(value, bool):
        raise RequestError(f"field {name} must be true or false")
    return value
