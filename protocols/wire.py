"""Messages as frozen dataclasses, and their one encoding as bytes.

    @dataclass(frozen=True, slots=True)
    class PassiveViews(Message):
        step: int
        aligned: NDArray[np.float32] = array(np.float32, 2)  # (n, 2d)

A message is one frame (see `framing`). Its header names the kind and, per field in declared order, a number
or bool itself, the byte length of a str or bytes, a list of byte lengths for tuple[str, ...], or [dtype,
shape] of an array.

Arrays may hold NaN and infinities: whether their numbers make sense is the business of the program that uses
them. Scalar floats must be finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from protocols.errors import FedaccordError, WireError
from protocols.framing import (
    ARRAYS_LIMIT,
    DTYPES,
    MAXIMUM_DIMENSIONS,
    Buffer,
    Reader,
    dump_header,
    frame,
    framed_size,
    pack_arrays,
    unpack_arrays,
)

__all__ = [
    "ARRAYS_LIMIT",
    "HEADER_LIMIT",
    "MESSAGE_LIMIT",
    "Message",
    "array",
    "decode",
    "encode",
    "encoded_size",
    "pack_arrays",
    "shapes",
    "unpack_arrays",
]

MESSAGE_LIMIT = 1 << 26
"""Bytes of one encoded message that `decode` accepts unless told otherwise (64 MiB)."""
HEADER_LIMIT = 1 << 16
"""Bytes of a message's header. Only a tuple of very many texts comes near it."""

_MAGIC = b"FDM1"
_ARRAY = "fedaccord.array"
_TYPES: dict[str, type[object]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "tuple[str,...]": tuple,
}


def array(dtype: type[np.generic], ndim: int) -> Any:
    """A field of a message: an array of exactly this dtype and number of dimensions.

    It has no default, although type checkers take it for one: declare arrays after the other fields.
    """
    name = np.dtype(dtype).name
    if name not in DTYPES or not 0 <= ndim <= MAXIMUM_DIMENSIONS:
        raise TypeError(f"a message cannot hold arrays of {name} with {ndim} dimensions")
    return field(metadata={_ARRAY: (name, ndim)})


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """The base of all kinds. A kind is `@dataclass(frozen=True, slots=True) class Name(Message)`.

    Fields are int (64 bits, signed), float (finite), bool, str, bytes, tuple[str, ...] or `array(dtype,
    ndim)`. The constructor checks them (WireError naming kind and field, never the value) and keeps
    read-only, C-ordered copies of arrays, so that nobody can change a message afterwards. Equal messages are
    bit-equal.
    """

    def __init_subclass__(cls) -> None:
        # @dataclass keeps what a class defines; its own == would ask a whole array for one truth value.
        cls.__eq__ = Message.__eq__  # type: ignore[method-assign]
        cls.__hash__ = Message.__hash__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for entry in _layout(type(self)):
            object.__setattr__(self, entry.name, _checked(entry, getattr(self, entry.name)))
        self.check()

    def check(self) -> None:
        """Raise WireError if fields contradict each other. Kinds override it; decoding calls it too."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(self) is not type(other):
            return NotImplemented
        return encode(self) == encode(other)

    def __hash__(self) -> int:
        return hash(encode(self))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One field of a kind: where it stands, its type, and dtype and ndim of an array."""

    kind: str
    name: str
    type: type[object]
    dtype: str = ""
    ndim: int = 0

    def error(self, text: str) -> WireError:
        return WireError(f"{self.kind}.{self.name}: {text}")


_LAYOUTS: dict[type[Message], tuple[_Entry, ...]] = {}  # a memo of _entries


def _layout(kind: type[Message]) -> tuple[_Entry, ...]:
    found = _LAYOUTS.get(kind)
    if found is None:
        found = _LAYOUTS[kind] = _entries(kind)
    return found


def _entries(kind: type[Message]) -> tuple[_Entry, ...]:
    """The fields of a kind in declared order. TypeError for one that messages cannot hold."""
    entries = []
    for declared in fields(kind):
        if _ARRAY in declared.metadata:
            entries.append(_Entry(kind.__name__, declared.name, np.ndarray, *declared.metadata[_ARRAY]))
            continue
        # A class or, with postponed annotations, its text. Evaluating it would need names that may not exist.
        text = declared.type.__name__ if type(declared.type) is type else str(declared.type)
        if text.replace(" ", "") not in _TYPES:
            raise TypeError(f"{kind.__name__}.{declared.name}: a message cannot hold {text}")
        entries.append(_Entry(kind.__name__, declared.name, _TYPES[text.replace(" ", "")]))
    return tuple(entries)


def _checked(entry: _Entry, value: Any) -> Any:
    """The value as the message keeps it."""
    checked: Any = value
    if entry.type is np.ndarray:
        return _frozen_array(entry, value)
    if entry.type is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _finite(entry, value)
    if type(value) is not entry.type:
        raise entry.error(f"expected {entry.type.__name__}, came {type(value).__name__}")
    if entry.type is int and not -(1 << 63) <= checked < 1 << 63:
        raise entry.error("the number does not fit into 64 bits")
    if entry.type in (str, tuple):
        for text in (checked,) if entry.type is str else checked:
            _utf8(entry, text)
    return checked


def _frozen_array(entry: _Entry, value: object) -> np.ndarray[Any, Any]:
    if not isinstance(value, np.ndarray):
        raise entry.error(f"expected an array, came {type(value).__name__}")
    if value.dtype.name != entry.dtype or value.ndim != entry.ndim:
        came = f"{value.dtype.name} with {value.ndim}"
        raise entry.error(f"expected {entry.dtype} with {entry.ndim} dimensions, came {came}")
    copy = np.array(value, dtype=DTYPES[entry.dtype], order="C")  # a plain array, whatever subclass came
    copy.flags.writeable = False
    return copy


def _finite(entry: _Entry, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise entry.error("the number is not finite")
    return number


def _utf8(entry: _Entry, text: object) -> bytes:
    if type(text) is not str:
        raise entry.error(f"expected str, came {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise entry.error("the text is not valid Unicode") from None


def _parts(message: Message) -> tuple[bytes, list[Buffer]]:
    """Header and buffers of a message."""
    values: dict[str, object] = {}
    buffers: list[Buffer] = []
    for entry in _layout(type(message)):
        value = getattr(message, entry.name)
        if entry.type is np.ndarray:
            values[entry.name] = [entry.dtype, list(value.shape)]
            buffers.append(value)
        elif entry.type is tuple:
            texts = [text.encode("utf-8") for text in value]
            values[entry.name] = [len(text) for text in texts]
            buffers.append(b"".join(texts))
        elif entry.type in (str, bytes):
            raw = value.encode("utf-8") if entry.type is str else value
            values[entry.name] = len(raw)
            buffers.append(raw)
        else:
            values[entry.name] = value
    kind = type(message).__name__
    header = dump_header({"kind": kind, "fields": values})
    if len(header) > HEADER_LIMIT:
        raise WireError(f"{kind}: {len(header)} bytes of header, the limit is {HEADER_LIMIT}")
    return header, buffers


def encode(message: Message) -> bytes:
    """The bytes of a message. WireError if its header is too long."""
    return frame(_MAGIC, *_parts(message))


def encoded_size(message: Message) -> int:
    """`len(encode(message))`, without copying its arrays."""
    return framed_size(*_parts(message))


def shapes(message: Message) -> dict[str, tuple[int, ...]]:
    """The shape of each array, (bytes,) of a bytes or str field (as UTF-8), (items,) of a tuple of texts."""
    found: dict[str, tuple[int, ...]] = {}
    for entry in _layout(type(message)):
        value = getattr(message, entry.name)
        if entry.type is np.ndarray:
            found[entry.name] = value.shape
        elif entry.type in (str, bytes, tuple):
            found[entry.name] = (len(value.encode("utf-8") if entry.type is str else value),)
    return found


def _read(reader: Reader, entry: _Entry, value: Any) -> Any:
    """The value of one field, from the header and, for texts, bytes and arrays, from the next buffer."""
    if entry.type is np.ndarray:
        result = reader.array(value)
        if value[0] != entry.dtype or result.ndim != entry.ndim:
            raise entry.error(f"expected {entry.dtype} with {entry.ndim} dimensions")
        return result
    if entry.type is str:
        return reader.text(value)
    if entry.type is bytes:
        return reader.raw(value)
    if entry.type is tuple:
        return reader.texts(value)
    if type(value) is not entry.type:  # stricter than the constructor: a whole float is written 1.0, never 1
        raise entry.error(f"expected {entry.type.__name__}, came {type(value).__name__}")
    return _checked(entry, value)


def decode(data: bytes, kinds: Iterable[type[Message]], *, limit: int = MESSAGE_LIMIT) -> Message:
    """The message in `data`, which must be one of `kinds`. Its arrays are read-only views on `data`.

    Raises WireError, and nothing else, for all bytes that are not the encoding of such a message.
    """
    reader = Reader(data, _MAGIC, header_limit=HEADER_LIMIT, limit=limit)
    header = reader.header()
    match header:
        case {"kind": str(name), "fields": dict(values)} if list(header) == ["kind", "fields"]:
            kind = {candidate.__name__: candidate for candidate in kinds}.get(name)
        case _:
            raise WireError("the header does not consist of kind and fields")
    if kind is None:
        raise WireError("the message is of a kind that is not expected here")
    layout = _layout(kind)
    if list(values) != [entry.name for entry in layout]:
        raise WireError(f"{kind.__name__}: the fields are not those of this kind")
    message = object.__new__(kind)
    for entry in layout:
        object.__setattr__(message, entry.name, _read(reader, entry, values[entry.name]))
    reader.finish()
    try:
        message.check()
    except (FedaccordError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise WireError(f"{kind.__name__}: {error}") from error
    return message
