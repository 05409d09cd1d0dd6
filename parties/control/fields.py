"""Typed access to the fields of a request that came over the supervisor's socket."""

from collections.abc import Mapping

from protocols.errors import RequestError

Fields = Mapping[str, object]
WHOLE_LIMIT = 10**15
"""Whole numbers are smaller than this, either side of 0: longer ones fit neither SQLite nor a float."""


def text(fields: Fields, name: str, default: str | None = None) -> str:
    """The text in a field; RequestError when it is missing (without a default) or not text."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise RequestError(f"field {name} must be text")
    return value


def texts(fields: Fields, name: str) -> list[str]:
    """The texts in a list; none when it is missing. RequestError when it is no list of texts."""
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RequestError(f"field {name} must be a list of texts")
    return value


def whole(fields: Fields, name: str) -> int:
    """The whole number in a field; RequestError otherwise, and for one of more than 15 digits."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestError(f"field {name} must be a whole number")
    if abs(value) >= WHOLE_LIMIT:
        raise RequestError(f"field {name} must be a whole number of at most 15 digits")
    return value


def seconds(fields: Fields, name: str, most: float) -> float:
    """The waiting time in a field, cut to 0..`most`; 0 when it is missing."""
    value = fields.get(name, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise RequestError(f"field {name} must be a number of seconds")
    return float(min(max(value, 0.0), most))  # cut first: a long whole number is no float


def flag(fields: Fields, name: str) -> bool:
    """The true or false in a field; RequestError otherwise."""
    value = fields.get(name)
    if not isinstance(value, bool):
        raise RequestError(f"field {name} must be true or false")
    return value
