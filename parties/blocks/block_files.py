"""A block as the files of one folder, and the salted commitment to them.

Every file has its own digest SHA-256(salt, file name, content); the commitment is SHA-256(salt, canonical
list of the digests). So one can open a few columns and still check them against the commitment. Without the
32 secret bytes of salt a commitment to small data could be guessed.

    schema.json  mock.csv                public
    keys.bin     key_offsets.npy         all keys one after another, int64 (rows + 1,)
    split.npy    labels.npy              uint8 (rows,), int64 (rows,)
    column-<i>.npy  column-<i>.json      float64 or int32 (rows,); the levels, for a categorical column
"""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from parties.blocks.block import FeatureBlock
from parties.blocks.columns import ColumnKind
from parties.blocks.schema import BlockSchema, schema_text
from protocols.errors import BlockError
from protocols.records import decode_record, encode_record
from vertical.table import CategoricalColumn, Column, DateColumn, NumericColumn

SCHEMA, CONTENT, MOCK = "schema.json", "content.json", "mock.csv"
KEYS, KEY_OFFSETS, SPLIT, LABELS = "keys.bin", "key_offsets.npy", "split.npy", "labels.npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of a block and its salted digest (hex)."""

    file: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What the commitment commits to, with the salt (hex); private."""

    salt: str
    parts: tuple[Part, ...]

    def commitment(self) -> str:
        """The public name of the content, hex."""
        return hashlib.sha256(bytes.fromhex(self.salt) + encode_record(self.parts)).hexdigest()

    def digest(self, file: str) -> str:
        """The digest of one file; BlockError if it is no part of the block."""
        for part in self.parts:
            if part.file == file:
                return part.digest
        raise BlockError(f"content changed: {file} is no part of what was committed to")


def part_digest(salt: bytes, file: str, data: bytes | memoryview) -> str:
    """Salted digest of a file's name and content, hex."""
    sha = hashlib.sha256(salt + len(file).to_bytes(2, "big") + file.encode())
    sha.update(data)
    return sha.hexdigest()


def block_parts(block: FeatureBlock, schema: BlockSchema, mock: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """The files of a block, one after another, without content.json; the schema without its commitment."""
    yield SCHEMA, schema_text(replace(schema, commitment="")).encode()
    yield MOCK, mock.to_csv(index=False, lineterminator="\n").encode()
    data, offsets = _key_buffers(block.keys.texts)
    yield KEYS, data
    yield KEY_OFFSETS, _npy(offsets)
    yield SPLIT, _npy(block.split)
    if block.labels is not None:
        yield LABELS, _npy(block.labels)
    for position, column in enumerate(block.table.columns):
        array = column.values if isinstance(column, NumericColumn) else column.codes
        yield f"column-{position}.npy", _npy(array)
        if isinstance(column, CategoricalColumn):
            yield f"column-{position}.json", json.dumps(column.levels, ensure_ascii=False).encode()


def read_content(data: bytes) -> Content:
    """The content list; BlockError where it isn't one."""
    return decode_record(data, Content, BlockError)


class BlockReader:
    """Opens single parts of a stored block, each checked against its digest first.

    Nothing that isn't asked for is opened.
    """

    def __init__(self, folder: Path, content: Content) -> None:
        self._folder = folder
        self._content = content

    def keys(self) -> tuple[bytes, ...]:
        """All keys, in row order."""
        data = self._checked(KEYS)
        offsets = self._array(KEY_OFFSETS).tolist()
        return tuple(bytes(data[start:end]) for start, end in pairwise(offsets))

    def split(self) -> NDArray[np.uint8]:
        """Split codes uint8 (rows,), memory-mapped."""
        return self._array(SPLIT)

    def labels(self) -> NDArray[np.int64]:
        """Label codes int64 (rows,), memory-mapped."""
        return self._array(LABELS)

    def column(self, name: str, position: int, kind: ColumnKind) -> Column:
        """The feature column at this position, memory-mapped."""
        array = self._array(f"column-{position}.npy")
        if kind is ColumnKind.NUMERIC:
            return NumericColumn(name=name, values=array)
        if kind is ColumnKind.DATE:
            return DateColumn(name=name, values=array)
        levels = tuple(json.loads(bytes(self._checked(f"column-{position}.json"))))
        return CategoricalColumn(name=name, codes=array, levels=levels)

    def check(self, file: str, data: bytes | memoryview) -> None:
        """Raises BlockError unless this is the content of the file that was committed to."""
        if part_digest(bytes.fromhex(self._content.salt), file, data) != self._content.digest(file):
            raise changed(file)

    def _checked(self, file: str) -> memoryview:
        path = self._folder / file
        if path.is_symlink() or not path.is_file():
            raise changed(file)
        data = memoryview(path.read_bytes())
        self.check(file, data)
        return data

    def _array(self, file: str) -> np.ndarray:  # type: ignore[type-arg]
        self._checked(file)
        return np.load(self._folder / file, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]


def changed(file: str) -> BlockError:
    """The error for a part that isn't what was committed to."""
    return BlockError(
        f"content changed: {file} is not what was committed to",
        remedy="register the block again (replace) and ask for new approvals",
    )


def _key_buffers(texts: pa.LargeStringArray) -> tuple[bytes, NDArray[np.int64]]:
    """The keys' UTF-8 bytes one after another, and int64 (rows + 1,) offsets."""
    whole = pa.concat_arrays([texts])
    lengths = pa.compute.binary_length(whole).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    start = int(np.frombuffer(whole.buffers()[1], np.int64)[whole.offset])
    return bytes(whole.buffers()[2])[start : start + int(offsets[-1])], offsets


def _npy(array: NDArray[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()
