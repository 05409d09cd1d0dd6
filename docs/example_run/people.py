"""The invented people of the example, as two organisations hold them; the same files at every call.

Nobody is described: every cell is drawn from a formula. 60 training and 40 test people are in both files, 57 others
are the bank's only, 73 the retailer's only. Their number is small so that the whole page can be read.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.blocks.block import BlockSpec

BANK, RETAILER = "bank", "retailer"
ROLES: Mapping[str, str] = {BANK: "active", RETAILER: "passive"}
ALIGNED, TEST, BANK_ONLY, RETAILER_ONLY = 60, 40, 57, 73
BLOCK = "customers"
KEY, SPLIT, LABEL = "customer", "split", "opened_plan"
BANK_COLUMNS = ("account_years", "balance", "card_use", "branch")
RETAILER_COLUMNS = ("visits", "basket", "shelf", "town")
BRANCHES = ("Amberton", "Birchhaven", "Coldwell")
SHELVES = ("garden", "kitchen", "books", "toys", "fishing")
SHELF_SHARES = (0.32, 0.3, 0.2, 0.15, 0.03)
SEED = 11

Cells = dict[str, list[str]]


def specs() -> dict[str, BlockSpec]:
    """How each party's file is read, by party."""
    bank = BlockSpec(name=BLOCK, subject_key=KEY, label=LABEL, split=SPLIT)
    return {BANK: bank, RETAILER: BlockSpec(name=BLOCK, subject_key=KEY, split=SPLIT)}


def write_files(folder: Path) -> dict[str, Path]:
    """Writes bank.csv and retailer.csv; their paths by party."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    cells = _cells(generator)
    both = np.arange(ALIGNED + TEST)
    bank_only = np.arange(BANK_ONLY) + len(both)
    retailer_only = np.arange(RETAILER_ONLY) + len(both) + BANK_ONLY
    files = {}
    for name, columns, own in (
        (BANK, (*BANK_COLUMNS, LABEL), bank_only),
        (RETAILER, RETAILER_COLUMNS, retailer_only),
    ):
        rows = generator.permutation(np.concatenate([both, own]))
        files[name] = folder / f"{name}.csv"
        _write(files[name], (KEY, SPLIT, *columns), cells, rows)
    return files


def _cells(generator: np.random.Generator) -> Cells:
    """Every column of everybody: the first 60 train in both files, the next 40 test in both."""
    size = ALIGNED + TEST + BANK_ONLY + RETAILER_ONLY
    thrift, interest = generator.normal(size=(2, size))
    wish = thrift + interest + 0.5 * generator.normal(size=size)
    basket = _text(24 + 9 * interest + 4 * generator.normal(size=size), low=1)
    for row in np.flatnonzero(generator.random(size) < 0.08):
        basket[row] = ""
    return {
        KEY: [f"C-{number}" for number in 1000 + generator.permutation(size)],
        SPLIT: ["test" if ALIGNED <= row < ALIGNED + TEST else "train" for row in range(size)],
        "account_years": _text(7 + 3 * thrift + generator.normal(size=size), low=0),
        "balance": _text(2100 + 700 * thrift + 300 * generator.normal(size=size), low=0),
        "card_use": [("often", "sometimes", "rarely")[level] for level in np.digitize(thrift, (-0.5, 0.6))],
        "branch": [str(name) for name in generator.choice(BRANCHES, size)],
        "visits": _text(8 + 3 * interest + generator.normal(size=size), low=0),
        "basket": basket,
        "shelf": [str(name) for name in generator.choice(SHELVES, size, p=SHELF_SHARES)],
        "town": [str(name) for name in generator.choice(BRANCHES, size)],
        LABEL: ["yes" if value > 0 else "no" for value in wish],
    }


def _text(values: NDArray[np.float64], *, low: int) -> list[str]:
    return [str(max(low, round(value))) for value in values.tolist()]


def _write(path: Path, names: Sequence[str], cells: Cells, rows: NDArray[np.int64]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([cells[name][row] for name in names] for row in rows.tolist())


PLAN = f"""\
purpose = "savings-plan"
purpose_text = "Which customers would open a savings plan: a first small model of bank and retailer."
computation = "vertical.fedcvt.train"
minimum_group = 10
minimum_overlap = 20
public_seed = {SEED}
runs = 1
days = 7

[parties]                           # the active party has the label, the passive one only features
bank = {{ role = "active", block = "customers", columns = ["account_years", "balance", "card_use"] }}
retailer = {{ role = "passive", block = "customers", columns = ["visits", "basket", "shelf"] }}

[parameters]
steps = 10
d = 4                               # width of each representation
learning_rate = 0.05
memory_every = 5
folds = 0                           # no search among configurations
linear_views = 0                    # no linear experts
pseudo_from = 4
pseudo_ramp = 2
threshold_joint = 0.6
threshold_active = 0.6
threshold_passive = 0.6
baselines = false
max_common = 112                    # bounds: the true numbers aren't known yet
max_aligned_train = 64
max_aligned_test = 48
max_passive_only = 75
"""
"""What the analyst asks for; everything else of the request comes from the datasites and the catalog."""
