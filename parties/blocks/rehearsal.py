"""Data for a rehearsal: mocks drawn out to any number of rows and re-keyed, so that two of them share as
many people as wished."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from parties.blocks.mock import PREFIX, even_split, mock_table
from parties.blocks.schema import BlockSchema
from protocols.errors import BlockError
from vertical.table import PartyData, Table


def expand(table: Table, rows: int, generator: np.random.Generator) -> Table:
    """So many rows, each column drawn by itself with replacement from the mock's own column."""
    columns = [column.take(generator.integers(0, table.rows, rows)) for column in table.columns]
    return Table(tuple(columns))


def rehearsal_keys(
    rows: Mapping[str, int], overlap: int, generator: np.random.Generator
) -> dict[str, tuple[bytes, ...]]:
    """Made-up keys for each role:

    `overlap` of them are common to all roles, the others are in one role only; in random order.
    """
    if not rows or not 0 <= overlap <= min(rows.values()):
        sizes = ", ".join(str(count) for count in rows.values())
        raise BlockError(
            f"an overlap of {overlap} people is not possible between blocks of {sizes} rows",
            remedy="choose a smaller overlap",
        )
    keys = {}
    start = overlap
    for role, count in rows.items():
        alone = np.arange(start, start + count - overlap)
        start += count - overlap
        people = generator.permutation(np.concatenate([np.arange(overlap), alone]))
        keys[role] = tuple(f"{PREFIX}{person:06d}".encode() for person in people)
    return keys


def rehearsal_data(
    schema: BlockSchema,
    mock: pd.DataFrame | pa.Table,
    *,
    keys: tuple[bytes, ...],
    generator: np.random.Generator,
) -> PartyData:
    """A party's data for a rehearsal: one row for each key, drawn from the mock; `keys` come from `rehearsal_keys`.

    The split follows the key, in the schema's shares, so that a common person is in the same split at both
    parties. Raises BlockError when a key isn't made up: real keys have no place in a rehearsal.
    """
    if not all(key.startswith(PREFIX.encode()) and key[len(PREFIX) :].isdigit() for key in keys):
        raise BlockError("a rehearsal takes made-up keys only", remedy="make them with rehearsal_keys")
    table, labels = mock_table(schema, mock)
    people = np.array([int(key[len(PREFIX) :]) for key in keys], np.int64)
    drawn = None if labels is None else labels[generator.integers(0, len(labels), len(keys))]
    return PartyData(
        keys=keys,
        table=expand(table, len(keys), generator),
        split=even_split(schema, people),
        labels=drawn,
        classes=schema.classes,
    )
