"""The demo's data and settings for scripts: the parties' blocks as a program reads them, without files or datasites.

Data, licence and the protected attributes among them: see `parties.demo.data`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parties.demo.data import (
    BANK_COLUMNS,
    CLASSES,
    RETAILER_COLUMNS,
    People,
    Rows,
    columns,
    customer_number,
    labels,
)
from parties.demo.setup import SETTINGS
from vertical.config import FedCVTConfig
from vertical.table import CategoricalColumn, NumericColumn, PartyData, Split, Table

DEMO_CONFIG = FedCVTConfig(**SETTINGS)  # type: ignore[arg-type]  # the config checks every value
"""The demo's settings, chosen by `benchmarks.choose_demo_settings`; the bounds follow from the people."""

_NUMERIC = frozenset({"age", "education-num", "hours-per-week", "capital-gain", "capital-loss"})


def bank_data(who: People) -> PartyData:
    """The bank's block, as the store would hand it to a program."""
    rows = who.bank()
    return PartyData(
        keys=_keys(rows),
        table=table(BANK_COLUMNS, rows),
        split=_split(rows, who.test),
        labels=labels()[rows],
        classes=CLASSES,
    )


def retailer_data(who: People) -> PartyData:
    """The retailer's block, as the store would hand it to a program."""
    rows = who.retailer()
    return PartyData(keys=_keys(rows), table=table(RETAILER_COLUMNS, rows), split=_split(rows, who.test))


def table(names: Sequence[str], rows: Rows) -> Table:
    """The named columns of the given people."""
    return Table(tuple(_column(name, [columns()[name][row] for row in rows.tolist()]) for name in names))


def _column(name: str, cells: Sequence[str]) -> NumericColumn | CategoricalColumn:
    if name in _NUMERIC:
        return NumericColumn(name=name, values=np.array([float(cell) if cell else np.nan for cell in cells]))
    levels = tuple(sorted({cell for cell in cells if cell}))
    code_of = {level: code for code, level in enumerate(levels)}
    codes = np.array([code_of.get(cell, -1) for cell in cells], dtype=np.int32)
    return CategoricalColumn(name=name, codes=codes, levels=levels)


def _keys(rows: Rows) -> tuple[bytes, ...]:
    return tuple(customer_number(row).encode() for row in rows.tolist())


def _split(rows: Rows, test: Rows) -> NDArray[np.uint8]:
    return np.where(np.isin(rows, test), Split.TEST, Split.TRAIN).astype(np.uint8)
