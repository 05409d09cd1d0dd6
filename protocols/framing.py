"""The frame that messages, checkpoints and models share: a checked JSON header, then raw buffers.

    magic (4) | header length, uint32 | header, compact JSON in ASCII | buffers, each at a multiple of 16

Lengths and numbers are little-endian, arrays in row order, text is UTF-8. Valid content has exactly one
frame: the header is written again after parsing and must be the same bytes (so repeated keys, spaces, NaN and
odd spellings of numbers are refused), padding is zero, nothing follows the last buffer.

Every length is compared with the bytes that are there before it is used. Decoded arrays are views on these
bytes, so reading a frame takes at most one more copy of them (for texts) and a small multiple of the header's
limit. There is no pickle and no type that the sender could name: nothing here can run code.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from protocols.errors import WireError

ARRAYS_LIMIT = 1 << 32
"""Bytes of one packed set of arrays that `unpack_arrays` accepts unless told otherwise."""
ARRAYS_HEADER_LIMIT = 1 << 20
"""Bytes of the header of a packed set of arrays: room for some ten thousand of them."""
MAXIMUM_DIMENSIONS = 8

AnyArray = NDArray[Any]
Buffer = bytes | AnyArray

_ARRAYS_MAGIC = b"FDA1"
_PREFIX = struct.Struct("<4sI")
_ALIGNMENT = 16
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("bool", *_INTEGERS, "float32", "float64")}
"""The only dtypes that travel, by name."""


def dump_header(header: object) -> bytes:
    """The one spelling of a header. ValueError for NaN and infinities."""
    return json.dumps(header, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def frame(magic: bytes, header: bytes, buffers: Sequence[Buffer]) -> bytes:
    """Header and buffers as bytes. Arrays must be C-ordered and little-endian; each costs one memcpy."""
    pieces: list[Any] = [_PREFIX.pack(magic, len(header)), header]
    end = _PREFIX.size + len(header)
    for buffer in buffers:
        pieces += (bytes(_aligned(end) - end), buffer)
        end = _aligned(end) + _length(buffer)
    return b"".join(pieces)


def framed_size(header: bytes, buffers: Sequence[Buffer]) -> int:
    """`len(frame(magic, header, buffers))`, without copying anything."""
    end = _PREFIX.size + len(header)
    for buffer in buffers:
        end = _aligned(end) + _length(buffer)
    return end


def _length(buffer: Buffer) -> int:
    return len(buffer) if isinstance(buffer, bytes) else buffer.nbytes


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


class Reader:
    """Takes a frame apart: the header, then the buffers in order, then `finish`. Raises WireError only."""

    def __init__(self, data: bytes, magic: bytes, *, header_limit: int, limit: int) -> None:
        if not isinstance(data, bytes):  # a view on something that can still change would defeat all checks
            raise WireError(f"expected bytes, came {type(data).__name__}")
        if len(data) > limit:
            raise WireError(f"{len(data)} bytes, the limit is {limit}")
        if len(data) < _PREFIX.size or not data.startswith(magic):
            raise WireError(f"{len(data)} bytes that do not start as expected")
        length = _PREFIX.unpack_from(data)[1]
        if length > header_limit or length > len(data) - _PREFIX.size:
            raise WireError(f"the header claims {length} bytes")
        self._data = data
        self._limit = limit
        self._end = _PREFIX.size + length

    def header(self) -> dict[str, object]:
        """The parsed header, an object in its only spelling."""
        raw = self._data[_PREFIX.size : self._end]
        try:
            header = json.loads(raw.decode("ascii"))
            canonical = dump_header(header) == raw
        except (ValueError, RecursionError):  # also: too many digits, too deep, not finite, not ASCII
            raise WireError("the header is not valid") from None
        if not canonical or not isinstance(header, dict):
            raise WireError("the header is not an object in its only spelling")
        return header

    def raw(self, length: object) -> bytes:
        """The next buffer, which has this many bytes."""
        start = self._take(length)
        return self._data[start : self._end]

    def text(self, length: object) -> str:
        """The next buffer as text."""
        return _text(self.raw(length))

    def texts(self, lengths: object) -> tuple[str, ...]:
        """The next buffer, cut into texts of these many bytes each."""
        if not isinstance(lengths, list) or not all(_is_size(length) for length in lengths):
            raise WireError("a tuple of texts is not described by lengths")
        raw = self.raw(sum(lengths))
        found, start = [], 0
        for length in lengths:
            found.append(_text(raw[start : start + length]))
            start += length
        return tuple(found)

    def array(self, spec: object) -> AnyArray:
        """The next buffer as an array, a read-only view. `spec` is [dtype, shape]."""
        dtype, shape = _array_spec(spec)
        # An empty axis counts as one entry: (0, 10**18) must not reach code that allocates per column.
        if math.prod(max(size, 1) for size in shape) * dtype.itemsize > self._limit:
            raise WireError("an array is larger than the limit")
        count = math.prod(shape)
        start = self._take(count * dtype.itemsize)
        if dtype == np.bool_ and self._data[start : self._end].translate(None, b"\0\1"):
            raise WireError("an array of bool holds something else than 0 and 1")
        return np.ndarray(shape, dtype, self._data, start if count else 0)

    def finish(self) -> None:
        """Check that nothing is left."""
        if self._end != len(self._data):
            raise WireError(f"{len(self._data) - self._end} bytes follow the last buffer")

    def _take(self, length: object) -> int:
        """Where the next buffer starts; its end is in `_end` then."""
        if not _is_size(length):
            raise WireError("a length is not a whole number from 0")
        start = _aligned(self._end)
        if start + length > len(self._data):
            raise WireError(f"a buffer of {length} bytes is announced, fewer are there")
        if any(self._data[self._end : start]):
            raise WireError("the padding is not zero")
        self._end = start + length
        return start


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _array_spec(spec: object) -> tuple[np.dtype[Any], tuple[int, ...]]:
    match spec:
        case [str(name), [*sizes]] if name in DTYPES and len(sizes) <= MAXIMUM_DIMENSIONS:
            shape = tuple(size for size in sizes if _is_size(size))
        case _:
            raise WireError("an array is not described by an allowed dtype and a shape")
    if len(shape) != len(sizes):
        raise WireError("a shape holds something else than whole numbers from 0")
    return DTYPES[name], shape


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("a text is not valid UTF-8") from None


def pack_arrays(arrays: Mapping[str, AnyArray]) -> bytes:
    """Named arrays as bytes, for checkpoints and models. Equal contents give equal bytes, in any order."""
    specs: dict[str, object] = {}
    buffers: list[Buffer] = []
    for name in sorted(arrays):
        value = arrays[name]
        if (
            not isinstance(value, np.ndarray)
            or value.dtype.name not in DTYPES
            or value.ndim > MAXIMUM_DIMENSIONS
        ):
            raise WireError(f"{name}: not an array of a dtype that can be packed")
        specs[name] = [value.dtype.name, list(value.shape)]
        buffers.append(np.asarray(value, dtype=DTYPES[value.dtype.name], order="C"))
    header = dump_header(specs)
    if len(header) > ARRAYS_HEADER_LIMIT:
        raise WireError(
            f"{len(specs)} arrays: {len(header)} bytes of header, the limit is {ARRAYS_HEADER_LIMIT}"
        )
    return frame(_ARRAYS_MAGIC, header, buffers)


def unpack_arrays(data: bytes, *, limit: int = ARRAYS_LIMIT) -> dict[str, AnyArray]:
    """The arrays of `pack_arrays` sorted by name, read-only views on `data`. Raises WireError only."""
    reader = Reader(data, _ARRAYS_MAGIC, header_limit=ARRAYS_HEADER_LIMIT, limit=limit)
    header = reader.header()
    if list(header) != sorted(header):
        raise WireError("the arrays are not sorted by name")
    found = {name: reader.array(spec) for name, spec in header.items()}
    reader.finish()
    return found
