"""Messages as frozen dataclasses, and their one and only encoding as bytes.

    magic (4) | header length, uint32 | header, compact JSON in ASCII | buffers, each at a multiple of 16

The header names the kind and, per field in declared order, a number or bool itself, the byte length of a str or bytes
(a list of lengths for tuple[str, ...]), or [dtype, shape] of an array. The buffers hold text as UTF-8 and arrays in row
order, little-endian. A valid message has exactly one encoding: the header is written again after parsing and must be
the same bytes (so repeated keys, spaces and odd numbers are refused), padding is zero, nothing follows the last buffer.

All sizes are checked before anything is allocated, and decoded arrays are views on the received bytes: what arrives can
never make the receiver use more than a small multiple of `HEADER_LIMIT` beyond the bytes that it already holds.

Arrays may hold NaN and infinities: whether numbers make sense is the business of the program that uses them. Scalar
floats must be finite. Nothing here can run code: there is no pickle and no type that is named by the sender.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from protocols.errors import FedaccordError, WireError

MESSAGE_LIMIT = 1 << 26
"""Bytes of one encoded message that `decode` accepts unless told otherwise (64 MiB)."""
ARRAYS_LIMIT = 1 << 32
"""Bytes of one packed set of arrays that `unpack_arrays` accepts unless told otherwise."""
HEADER_LIMIT = 1 << 16
"""Bytes of a message's header."""
ARRAYS_HEADER_LIMIT = 1 << 20
"""Bytes of the header of a packed set of arrays: room for some ten thousand of them."""

_MESSAGE_MAGIC = b"FDM1"
_ARRAYS_MAGIC = b"FDA1"
_PREFIX = struct.Struct("<4sI")
_ALIGNMENT = 16
_MAXIMUM_DIMENSIONS = 8
_DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
}
_TEXT_TYPES = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "bytes": "bytes",
    "tuple[str,...]": "strings",
}
_ARRAY = "fedaccord.array"

AnyArray = NDArray[Any]
Buffer = bytes | AnyArray
M = TypeVar("M", bound="Message")


def array(dtype: type[np.generic], ndim: int) -> Any:
    """A dataclass field for an array of exactly this dtype and number of dimensions (it has no default)."""
    name = np.dtype(dtype).name
    if name not in _DTYPES or not 0 <= ndim <= _MAXIMUM_DIMENSIONS:
        raise TypeError(f"a message cannot hold {name} arrays of {ndim} dimensions")
    return field(metadata={_ARRAY: (name, ndim)})


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """The base of all kinds. A kind is `@dataclass(frozen=True, slots=True) class Name(Message)`.

    Fields are int (64 bits, signed), float (finite), bool, str, bytes, tuple[str, ...] or `array(dtype, ndim)`.
    The constructor checks them (WireError) and keeps private, read-only, C-ordered copies of arrays. A kind that has
    rules of its own, such as equal lengths, overrides `check`. Equal means bit-equal: the same encoding.
    """

    def __init_subclass__(cls) -> None:
        # Set before @dataclass runs, which leaves it alone; its own == would ask an array for a truth value.
        cls.__eq__ = Message.__eq__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for entry in _layout(type(self)):
            value = _checked(type(self).__name__, entry, getattr(self, entry.name))
            object.__setattr__(self, entry.name, value)
        self.check()

    def check(self) -> None:
        """Raise WireError when fields contradict each other; called after every construction and decoding."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(self) is not type(other):
            return NotImplemented
        return encode(self) == encode(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One field of a kind: its name, its type ("array" or a value of _TEXT_TYPES), and dtype and ndim of an array."""

    name: str
    type: str
    dtype: str = ""
    ndim: int = 0


@lru_cache(maxsize=None)
def _layout(kind: type[Message]) -> tuple[_Entry, ...]:
    """The fields of a kind in declared order. TypeError for a field that messages cannot hold: a mistake in our code."""
    entries = []
    for declared in fields(kind):
        if _ARRAY in declared.metadata:
            dtype, ndim = declared.metadata[_ARRAY]
            entries.append(_Entry(declared.name, "array", dtype, ndim))
            continue
        text = declared.type if isinstance(declared.type, str) else getattr(declared.type, "__name__", "")
        if not isinstance(declared.type, str) and str(declared.type).startswith("tuple["):
            text = str(declared.type)
        found = _TEXT_TYPES.get(text.replace(" ", ""))
        if found is None:
            raise TypeError(f"{kind.__name__}.{declared.name}: a message cannot hold {declared.type}")
        entries.append(_Entry(declared.name, found))
    return tuple(entries)


def _checked(kind: str, entry: _Entry, value: Any) -> Any:
    """The value as the message keeps it; WireError naming kind and field (never the value) if it doesn't fit."""
    where = f"{kind}.{entry.name}"
    if entry.type == "array":
        if not isinstance(value, np.ndarray):
            raise WireError(f"{where}: expected an array, came {type(value).__name__}")
        if value.dtype.name != entry.dtype or value.ndim != entry.ndim:
            expected = f"{entry.dtype} with {entry.ndim} dimensions"
            raise WireError(f"{where}: expected {expected}, came {value.dtype.name} with {value.ndim}")
        copy = np.array(value, dtype=_DTYPES[entry.dtype], order="C", copy=True, subok=False)
        copy.flags.writeable = False
        return copy
    if entry.type == "float" and type(value) is not bool and isinstance(value, (int, float)):
        return _finite(where, value)
    expected_type = {"int": int, "bool": bool, "str": str, "bytes": bytes, "strings": tuple}.get(entry.type, float)
    if type(value) is not expected_type:
        raise WireError(f"{where}: expected {expected_type.__name__}, came {type(value).__name__}")
    if entry.type == "int" and not -(1 << 63) <= value < 1 << 63:
        raise WireError(f"{where}: the number does not fit into 64 bits")
    if entry.type in ("str", "strings"):
        for text in (value,) if entry.type == "str" else value:
            _utf8(where, text)
    return value


def _finite(where: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise WireError(f"{where}: expected a finite number")
    return number


def _utf8(where: str, text: object) -> bytes:
    if type(text) is not str:
        raise WireError(f"{where}: expected str, came {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise WireError(f"{where}: the text is not valid Unicode") from None


def _dump(header: object) -> bytes:
    return json.dumps(header, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def _parts(message: Message) -> tuple[bytes, list[Buffer]]:
    """Header and buffers of a message."""
    kind = type(message).__name__
    values: dict[str, object] = {}
    buffers: list[Buffer] = []
    for entry in _layout(type(message)):
        value = getattr(message, entry.name)
        if entry.type == "array":
            values[entry.name] = [entry.dtype, list(value.shape)]
            buffers.append(value)
        elif entry.type == "strings":
            encoded = [text.encode("utf-8") for text in value]
            values[entry.name] = [len(text) for text in encoded]
            buffers.append(b"".join(encoded))
        elif entry.type in ("str", "bytes"):
            encoded_value = value.encode("utf-8") if entry.type == "str" else value
            values[entry.name] = len(encoded_value)
            buffers.append(encoded_value)
        else:
            values[entry.name] = value
    header = _dump({"kind": kind, "fields": values})
    if len(header) > HEADER_LIMIT:
        raise WireError(f"{kind}: the header has {len(header)} bytes, the limit is {HEADER_LIMIT}")
    return header, buffers


def _nbytes(buffer: Buffer) -> int:
    return len(buffer) if isinstance(buffer, bytes) else buffer.nbytes


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _join(magic: bytes, header: bytes, buffers: Sequence[Buffer]) -> bytes:
    pieces: list[Buffer] = [_PREFIX.pack(magic, len(header)), header]
    end = _PREFIX.size + len(header)
    for buffer in buffers:
        pieces.append(bytes(_aligned(end) - end))
        pieces.append(buffer)
        end = _aligned(end) + _nbytes(buffer)
    return b"".join(pieces)  # arrays are read through the buffer protocol: one memcpy each


def encode(message: Message) -> bytes:
    """The bytes of a message. WireError if its header would be too long (only a very long tuple of texts can do that)."""
    header, buffers = _parts(message)
    return _join(_MESSAGE_MAGIC, header, buffers)


def encoded_size(message: Message) -> int:
    """`len(encode(message))`, without writing the buffers."""
    header, buffers = _parts(message)
    end = _PREFIX.size + len(header)
    for buffer in buffers:
        end = _aligned(end) + _nbytes(buffer)
    return end


def shapes(message: Message) -> dict[str, tuple[int, ...]]:
    """The shape of each array; (bytes,) for a bytes or str field (as UTF-8); (items,) for a tuple of texts."""
    found: dict[str, tuple[int, ...]] = {}
    for entry in _layout(type(message)):
        value = getattr(message, entry.name)
        if entry.type == "array":
            found[entry.name] = value.shape
        elif entry.type in ("str", "bytes", "strings"):
            found[entry.name] = (len(value.encode("utf-8") if entry.type == "str" else value),)
    return found


class _Reader:
    """Takes buffers off received bytes in order; WireError for what isn't there."""

    def __init__(self, data: bytes, magic: bytes, header_limit: int, limit: int) -> None:
        if not isinstance(data, bytes):
            raise WireError(f"expected bytes, came {type(data).__name__}")
        if len(data) > limit:
            raise WireError(f"{len(data)} bytes, the limit is {limit}")
        if len(data) < _PREFIX.size:
            raise WireError(f"{len(data)} bytes are too few for a message")
        came, length = _PREFIX.unpack_from(data)
        if came != magic:
            raise WireError("the bytes do not start like a message")
        if length > header_limit or length > len(data) - _PREFIX.size:
            raise WireError(f"the header claims {length} bytes")
        self.data = data
        self.limit = limit
        self.end = _PREFIX.size + length
        self.raw_header = data[_PREFIX.size : self.end]

    def header(self) -> dict[str, object]:
        try:
            header = json.loads(self.raw_header.decode("ascii"))
            canonical = isinstance(header, dict) and _dump(header) == self.raw_header
        except (ValueError, RecursionError, OverflowError):
            raise WireError("the header is not valid") from None
        if not canonical:
            raise WireError("the header is not in its canonical form")
        return header  # type: ignore[no-any-return]

    def take(self, length: object) -> tuple[int, int]:
        """Start and end of the next buffer of this many bytes."""
        if type(length) is not int or length < 0:
            raise WireError("a length is not a whole number from 0")
        start = _aligned(self.end)
        if length > len(self.data) - start:
            raise WireError(f"{length} bytes are announced, {max(len(self.data) - start, 0)} are there")
        if any(self.data[self.end : start]):
            raise WireError("the padding is not zero")
        self.end = start + length
        return start, self.end

    def array(self, spec: object) -> AnyArray:
        """The next array, a read-only view. `spec` is [dtype, shape]."""
        if not isinstance(spec, list) or len(spec) != 2 or not isinstance(spec[1], list):
            raise WireError("an array is not described by dtype and shape")
        name, shape = spec
        if not isinstance(name, str) or name not in _DTYPES or len(shape) > _MAXIMUM_DIMENSIONS:
            raise WireError("an array has a dtype or a number of dimensions that is not allowed")
        if any(type(size) is not int or size < 0 for size in shape):
            raise WireError("a shape holds something else than whole numbers from 0")
        dtype = _DTYPES[name]
        # Empty arrays count as if each empty axis had one entry: (0, 10**18) must not reach code that allocates rows.
        if math.prod(max(size, 1) for size in shape) * dtype.itemsize > self.limit:
            raise WireError("an array would be larger than the limit")
        count = math.prod(shape)
        start, end = self.take(count * dtype.itemsize)
        if name == "bool" and self.data[start:end].translate(None, b"\0\1"):
            raise WireError("a bool array holds something else than 0 and 1")
        if count == 0:
            empty = np.empty(shape, dtype)
            empty.flags.writeable = False
            return empty
        return np.frombuffer(self.data, dtype, count, start).reshape(shape)

    def text(self, length: object) -> str:
        start, end = self.take(length)
        return self.decoded(start, end)

    def strings(self, lengths: object) -> tuple[str, ...]:
        if not isinstance(lengths, list) or any(type(n) is not int or n < 0 for n in lengths):
            raise WireError("a tuple of texts is not described by lengths")
        start, _ = self.take(sum(lengths))
        texts = []
        for length in lengths:
            texts.append(self.decoded(start, start + length))
            start += length
        return tuple(texts)

    def decoded(self, start: int, end: int) -> str:
        try:
            return self.data[start:end].decode("utf-8")
        except UnicodeDecodeError:
            raise WireError("a text is not valid UTF-8") from None

    def finish(self) -> None:
        if self.end != len(self.data):
            raise WireError(f"{len(self.data) - self.end} bytes follow the message")


def _read(reader: _Reader, kind: type[Message], entry: _Entry, value: object) -> Any:
    if entry.type == "array":
        result = reader.array(value)
        if not isinstance(value, list) or value[0] != entry.dtype or result.ndim != entry.ndim:
            raise WireError(f"{kind.__name__}.{entry.name}: expected {entry.dtype} with {entry.ndim} dimensions")
        return result
    if entry.type == "str":
        return reader.text(value)
    if entry.type == "bytes":
        start, end = reader.take(value)
        return reader.data[start:end]
    if entry.type == "strings":
        return reader.strings(value)
    if entry.type == "float" and type(value) is not float:
        raise WireError(f"{kind.__name__}.{entry.name}: expected float")
    return _checked(kind.__name__, entry, value)


def decode(data: bytes, kinds: Iterable[type[Message]], *, limit: int = MESSAGE_LIMIT) -> Message:
    """The message in `data`, which must be one of `kinds`. Its arrays are read-only views on `data`.

    Raises WireError, and nothing else, for every sequence of bytes that `encode` doesn't make of such a message.
    """
    reader = _Reader(data, _MESSAGE_MAGIC, HEADER_LIMIT, limit)
    header = reader.header()
    values = header.get("fields")
    if list(header) != ["kind", "fields"] or not isinstance(values, dict):
        raise WireError("the header does not consist of kind and fields")
    kind = {candidate.__name__: candidate for candidate in kinds}.get(str(header["kind"]))
    if kind is None or not isinstance(header["kind"], str):
        raise WireError("the message is of a kind that is not expected here")
    layout = _layout(kind)
    if list(values) != [entry.name for entry in layout]:
        raise WireError(f"{kind.__name__}: the fields are not those of this kind")
    message = object.__new__(kind)
    for entry in layout:
        object.__setattr__(message, entry.name, _read(reader, kind, entry, values[entry.name]))
    reader.finish()
    try:
        message.check()
    except WireError:
        raise
    except (FedaccordError, ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise WireError(f"{kind.__name__}: the fields contradict each other") from error
    return message


def pack_arrays(arrays: Mapping[str, AnyArray]) -> bytes:
    """Named arrays as bytes, for checkpoints and models; equal contents give equal bytes, whatever their order."""
    specs: dict[str, object] = {}
    buffers: list[Buffer] = []
    for name in sorted(arrays):
        value = arrays[name]
        if not isinstance(value, np.ndarray) or value.dtype.name not in _DTYPES or value.ndim > _MAXIMUM_DIMENSIONS:
            raise WireError(f"{name}: not an array of a dtype that can be packed")
        specs[name] = [value.dtype.name, list(value.shape)]
        buffers.append(np.asarray(value, dtype=_DTYPES[value.dtype.name], order="C"))
    header = _dump(specs)
    if len(header) > ARRAYS_HEADER_LIMIT:
        raise WireError(f"{len(specs)} arrays: the header has {len(header)} bytes, the limit is {ARRAYS_HEADER_LIMIT}")
    return _join(_ARRAYS_MAGIC, header, buffers)


def unpack_arrays(data: bytes, *, limit: int = ARRAYS_LIMIT) -> dict[str, AnyArray]:
    """The arrays that `pack_arrays` wrote, sorted by name, as read-only views on `data`. Raises WireError only."""
    reader = _Reader(data, _ARRAYS_MAGIC, ARRAYS_HEADER_LIMIT, limit)
    header = reader.header()
    if list(header) != sorted(header):
        raise WireError("the arrays are not sorted by name")
    found = {name: reader.array(spec) for name, spec in header.items()}
    reader.finish()
    return found
