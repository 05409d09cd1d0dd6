"""The feature blocks of a party on disk: <state>/blocks/<name>/v<N>/, each version written whole or not at all.

A version is written under another name, made durable and renamed. When a block is replaced, the private
files of the old version are erased (only its schema stays), so nothing that was approved for it can be
opened any more. Every opening of private files is counted in opens.log *before* the first is read.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as altered
from pathlib import Path

import pandas as pd

from parties.blocks.block import BLOCK_NAME, FeatureBlock, describe_block
from parties.blocks.block_files import (
    CONTENT,
    MOCK,
    SCHEMA,
    BlockReader,
    Content,
    Part,
    block_parts,
    changed,
    part_digest,
    read_content,
)
from parties.blocks.csv_format import STORED
from parties.blocks.csv_text import read_csv
from parties.blocks.schema import SMALLEST_GROUP, BlockSchema, parse_schema, schema_text
from parties.home.private_files import make_private_folder, sync_folder, write_private
from protocols.errors import BlockError, DataMissingError
from protocols.records import encode_record
from vertical.table import PartyData, Table

_INCOMING = ".incoming"
_OPENS = "opens.log"
SALT_BYTES = 32


class Store:
    """The blocks under one folder. Safe for several processes: adding takes a lock, opening needs none."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_private_folder(folder)

    def add(
        self,
        block: FeatureBlock,
        mock: pd.DataFrame,
        *,
        replace: bool = False,
        made_from: int = 0,
        salt: bytes | None = None,
        k: int = SMALLEST_GROUP,
    ) -> BlockSchema:
        """Stores the block as version 1, or as the next version if `replace`; gives back its public schema.

        `mock` comes from `checked_mock`. The salt is drawn from the operating system unless it is given (32
        bytes, for tests). Raises BlockError for a name that is taken, for a replacement of nothing, and when the block
        was made from a version (`made_from`, 0: from none) that isn't the newest any more.
        """
        name = block.spec.name
        if salt is not None and len(salt) != SALT_BYTES:
            raise BlockError(f"the salt has {len(salt)} bytes, expected {SALT_BYTES}")
        with self._lock():
            self._remove_left_overs()
            version = self._latest(name)
            if version and not replace:
                raise BlockError(
                    f"block {name!r} exists already (version {version})",
                    remedy="give another --name, or --replace: approvals of the old version won't carry over",
                )
            if replace and not version:
                raise BlockError(f"there is no block {name!r} to replace", remedy="leave out --replace")
            if made_from not in (0, version):
                raise BlockError(
                    f"block {name!r} became version {version} while version {made_from} was being changed",
                    remedy="nothing was changed; give the command again",
                )
            schema = altered(describe_block(block, k), version=version + 1)
            schema = self._write(block, schema, mock, salt or secrets.token_bytes(SALT_BYTES))
            self._erase_superseded(name)
        return schema

    def list(self) -> tuple[BlockSchema, ...]:
        """The newest version of every block, by name."""
        names = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
        return tuple(self.describe(name) for name in names if self._latest(name))

    def describe(self, name: str, version: int = 0) -> BlockSchema:
        """The public schema of a block's version (0 = the newest); DataMissingError where there is none."""
        known = re.fullmatch(BLOCK_NAME, name) is not None
        path = self._version_folder(name, version or self._latest(name)) / SCHEMA if known else None
        if path is None or not path.is_file():
            which = f"{name!r} version {version}" if version else repr(name)
            raise DataMissingError(f"there is no block {which}", remedy="look at `block show`")
        try:
            return parse_schema(path.read_text(encoding="utf-8"))
        except (BlockError, UnicodeDecodeError):
            raise changed(f"the schema of block {name!r}") from None

    def mock(self, name: str) -> pd.DataFrame:
        """The mock twin of the newest version, every cell text, "" where missing."""
        schema = self.describe(name)
        path = self._version_folder(name, schema.version) / MOCK
        return read_csv(path, keys=schema.key_columns, form=STORED)[0].to_pandas()

    def find(self, commitment: str) -> BlockSchema:
        """The schema of the block of this commitment; BlockError if it was replaced, DataMissingError if
        it was never here."""
        for newest in self.list():
            for version in range(newest.version, 0, -1):
                schema = newest if version == newest.version else self.describe(newest.block, version)
                if schema.commitment != commitment:
                    continue
                if version < newest.version:
                    raise BlockError(
                        f"block {schema.block!r} version {version} was replaced by version {newest.version}",
                        remedy="make a new request for the new version",
                    )
                return schema
        raise DataMissingError(
            "no block of this party has the requested commitment", remedy="look at `block show`"
        )

    def open(self, commitment: str, columns: tuple[str, ...], label: str = "") -> PartyData:
        """The asked columns of the block, with keys and split, and with labels when its label column is named.

        Without columns it is keys and split alone, as an alignment reads them.
        Arrays are memory-mapped and read-only. Raises BlockError "content changed" when a file isn't what
        was committed to, DataMissingError naming a column that the block lacks.
        """
        schema = self.find(commitment)
        absent = [name for name in columns if name not in schema.names]
        absent += [label] if label and label != schema.label else []
        if absent or len(set(columns)) < len(columns):
            problem = f"has no column {', '.join(absent)}" if absent else "is asked for one column twice"
            raise DataMissingError(f"block {schema.block!r} {problem}", remedy="look at `block show`")
        reader = self._reader(schema, commitment, (*columns, *([label] if label else [])))
        kinds = {column.name: column.kind for column in schema.columns}
        opened = [reader.column(name, schema.names.index(name), kinds[name]) for name in columns]
        keys = reader.keys()
        return PartyData(
            keys=keys,
            table=Table(tuple(opened), len(keys)),
            split=reader.split(),
            labels=reader.labels() if label else None,
            classes=schema.classes if label else (),
        )

    def opens(self, name: str) -> int:
        """How often private files of the block, in any version, were opened."""
        path = self.folder / name / _OPENS
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def _reader(self, schema: BlockSchema, commitment: str, columns: tuple[str, ...]) -> BlockReader:
        folder = self._version_folder(schema.block, schema.version)
        line = f"v{schema.version} {len(columns)} columns\n"
        descriptor = os.open(
            self.folder / schema.block / _OPENS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        with os.fdopen(descriptor, "w") as log:
            log.write(line)
        if not (folder / CONTENT).is_file():
            raise changed(CONTENT)
        content = read_content((folder / CONTENT).read_bytes())
        if content.commitment() != commitment:
            raise changed(CONTENT)
        reader = BlockReader(folder, content)
        reader.check(SCHEMA, schema_text(altered(schema, commitment="")).encode())
        return reader

    def _write(
        self, block: FeatureBlock, schema: BlockSchema, mock: pd.DataFrame, salt: bytes
    ) -> BlockSchema:
        home = make_private_folder(self.folder / schema.block)
        incoming = make_private_folder(home / f"{_INCOMING}-{os.getpid()}")
        parts = []
        for file, data in block_parts(block, schema, mock):
            parts.append(Part(file=file, digest=part_digest(salt, file, data)))
            write_private(incoming / file, data)
        content = Content(salt=salt.hex(), parts=tuple(parts))
        schema = altered(schema, commitment=content.commitment())
        write_private(incoming / CONTENT, encode_record(content))
        write_private(incoming / SCHEMA, schema_text(schema))
        os.rename(incoming, self._version_folder(schema.block, schema.version))
        sync_folder(home)
        return schema

    def _remove_left_overs(self) -> None:
        """Removes what processes that died left half written, of any block: whoever writes holds the lock, as we do."""
        for left_over in self.folder.glob(f"*/{_INCOMING}-*"):
            shutil.rmtree(left_over)

    def _erase_superseded(self, name: str) -> None:
        for version in range(1, self._latest(name)):
            for path in self._version_folder(name, version).iterdir():
                if path.name != SCHEMA:
                    path.unlink()

    def _latest(self, name: str) -> int:
        home = self.folder / name
        found = (
            [re.fullmatch(r"v([1-9][0-9]*)", path.name) for path in home.iterdir()] if home.is_dir() else []
        )
        return max((int(match[1]) for match in found if match), default=0)

    def _version_folder(self, name: str, version: int) -> Path:
        return self.folder / name / f"v{version}"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        descriptor = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
