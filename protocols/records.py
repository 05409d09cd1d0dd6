"""Frozen records to canonical JSON and back: one record, one byte string.

Whatever is hashed or signed (requests, approvals, audit entries and heads) goes through this module, so that
a digest has exactly one preimage. Canonical means: UTF-8, keys sorted, no white space, no NaN or infinity, no
escape that UTF-8 doesn't need. The reader is strict: it names the unknown, missing or mistyped field, and
refuses bytes that it would have written differently. A record's field may be str, int, float, bool, a union
of these, a StrEnum, another record, or a tuple of such.
"""

import json
import math
import types
import typing
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import TypeVar, cast

from protocols.errors import FedaccordError

Scalar = str | int | float | bool
"""What a parameter or a detail of a log entry may be."""

R = TypeVar("R")
LIMIT = 1 << 22
"""Largest canonical record that is read, in bytes."""

_BIDI = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def encode_record(record: object) -> bytes:
    """Canonical bytes of a record (or of a tuple of records).

    Raises ValueError for a number that JSON has no form for.
    """
    return canonical_json(plain_record(record))


def canonical_json(value: object) -> bytes:
    """Canonical bytes of a plain JSON value.

    Raises ValueError for NaN, infinity or text that UTF-8 can't hold.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def decode_record(data: bytes, kind: type[R], error: type[FedaccordError]) -> R:
    """The record of type `kind` in canonical form `data`; raises `error` naming the field that is wrong."""
    return cast(R, _decode(data, kind, kind.__name__, error))


def decode_records(data: bytes, kind: type[R], error: type[FedaccordError]) -> tuple[R, ...]:
    """The records of type `kind` whose canonical list `data` is; raises `error` naming item and field."""
    return cast("tuple[R, ...]", _decode(data, types.GenericAlias(tuple, (kind, ...)), kind.__name__, error))


def utf8(text: str, error: type[FedaccordError]) -> bytes:
    """The UTF-8 bytes of a text that came from outside; raises `error` for lone surrogates."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as failure:
        raise error("the text can't be written as UTF-8") from failure


def signing_bytes(purpose: str, payload: bytes) -> bytes:
    """What is signed for a record: a prefix of its purpose, so that no signature serves for another."""
    return b"fedaccord " + purpose.encode("ascii") + b" v1\n" + payload


def signed_form(purpose: str, record: object, without: str) -> bytes:
    """What is signed (or hashed) for a record: all its fields but `without`, which holds the result."""
    names = [name for name in _hints(cast(Hashable, type(record))) if name != without]
    return signing_bytes(purpose, canonical_json({n: plain_record(getattr(record, n)) for n in names}))


def check_types(record: object, error: type[FedaccordError]) -> None:
    """Refuses a record in which a field has another type than annotated (a list for a tuple)."""
    for name, annotation in _hints(cast(Hashable, type(record))).items():
        _check(annotation, getattr(record, name), name, error)


def check_text(
    value: str, field: str, error: type[FedaccordError], *, limit: int = 200, lines: bool = False
) -> None:
    """Refuses text that is empty, blank at an end, too long, or able to mislead the eye on a review page."""
    if not value or value != value.strip():
        what = "blanks at an end" if value.strip() else "nothing"
        raise error(f"{field}: expected text without blanks at its ends, got {what}")
    if len(value) > limit:
        raise error(f"{field}: {len(value)} characters, at most {limit} are allowed")
    if any(c in _BIDI or (not c.isprintable() and c != " " and not (lines and c == "\n")) for c in value):
        raise error(f"{field}: holds a control or direction character, which a reviewer can't see")


def utc_text(now: datetime) -> str:
    """ISO 8601 text of an aware time in UTC, ending in Z. Raises ValueError for a time without a zone."""
    if now.tzinfo is None:
        raise ValueError("a time without a zone was given; pass an aware one, such as datetime.now(UTC)")
    return now.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_utc(text: str, field: str, error: type[FedaccordError]) -> datetime:
    """The time that `utc_text` wrote as `text`; raises `error` naming the field for any other form."""
    wrong = error(f"{field}: expected a UTC time such as 2030-01-31T12:00:00Z, got {text[:40]!r}")
    try:
        time = datetime.fromisoformat(text)
    except ValueError as failure:
        raise wrong from failure
    if time.tzinfo is None or utc_text(time) != text:
        raise wrong
    return time


def plain_record(value: object) -> object:
    """The record as dicts, lists and scalars, as JSON has them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_record(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [plain_record(item) for item in value]
    return value


def _decode(data: bytes, annotation: object, path: str, error: type[FedaccordError]) -> object:
    if len(data) > LIMIT:
        raise error(f"{path}: {len(data)} bytes, at most {LIMIT} are read")
    try:
        plain: object = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as failure:
        raise error(f"{path}: not UTF-8 JSON") from failure
    record = _build(annotation, plain, path, error)
    try:
        canonical = encode_record(record)
    except ValueError as failure:
        raise error(f"{path}: holds a value without a canonical form") from failure
    if canonical != data:
        raise error(
            f"{path}: the bytes are not in canonical form (key order, blanks, repeated keys or escapes)"
        )
    return record


def _build(annotation: object, value: object, path: str, error: type[FedaccordError]) -> object:
    """The value of the annotated type, from plain JSON."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        return _build_record(annotation, value, path, error)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        if isinstance(value, str) and value in set(annotation):
            return annotation(value)
        raise error(f"{path}: expected one of {', '.join(annotation)}")
    if typing.get_origin(annotation) is tuple:
        if not isinstance(value, list):
            raise _mistyped(path, "a list", value, error)
        inner = _item_types(annotation, len(value), path, error)
        return tuple(
            _build(a, v, f"{path}[{i}]", error) for i, (a, v) in enumerate(zip(inner, value, strict=True))
        )
    _check(annotation, value, path, error)
    return value


def _build_record(kind: type, value: object, path: str, error: type[FedaccordError]) -> object:
    if not isinstance(value, dict):
        raise _mistyped(path, "an object", value, error)
    hints = _hints(kind)
    for what, names in (("missing", hints.keys() - value.keys()), ("unknown", value.keys() - hints.keys())):
        if names:
            raise error(f"{path}: {what} field {', '.join(repr(name[:60]) for name in sorted(names))}")
    built = {
        name: _build(annotation, value[name], f"{path}.{name}", error) for name, annotation in hints.items()
    }
    try:
        return kind(**built)
    except error as failure:
        raise error(f"{path}.{failure}") from failure


def _check(annotation: object, value: object, path: str, error: type[FedaccordError]) -> None:
    """Refuses a value that isn't exactly of the annotated type (a bool is no int, an int no float)."""
    if typing.get_origin(annotation) is tuple:
        if type(value) is not tuple:
            raise _mistyped(path, "a tuple", value, error)
        for i, (a, v) in enumerate(zip(_item_types(annotation, len(value), path, error), value, strict=True)):
            _check(a, v, f"{path}[{i}]", error)
        return
    allowed = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if type(value) not in allowed:
        raise _mistyped(path, " or ".join(getattr(a, "__name__", str(a)) for a in allowed), value, error)
    if isinstance(value, float) and not math.isfinite(value):
        raise error(f"{path}: expected a finite number")


def _item_types(
    annotation: object, length: int, path: str, error: type[FedaccordError]
) -> tuple[object, ...]:
    inner = typing.get_args(annotation)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return (inner[0],) * length
    if len(inner) != length:
        raise error(f"{path}: expected {len(inner)} items, got {length}")
    return inner


def _mistyped(path: str, expected: str, value: object, error: type[FedaccordError]) -> FedaccordError:
    return error(f"{path}: expected {expected}, got {type(value).__name__}")


@cache
def _hints(kind: Hashable) -> dict[str, object]:
    record = cast(type, kind)
    hints = typing.get_type_hints(record)
    return {f.name: hints[f.name] for f in fields(record)}
