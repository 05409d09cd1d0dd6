"""Data of the horizontal demo: the Wisconsin breast cancer records, as three hospitals of different patients hold them.

The file comes with scikit-learn (breast_cancer.csv, 569 tumours, 30 measurements of cell nuclei, 212 of them malignant)
and is read as a plain file. The data are UCI's Breast Cancer Wisconsin (Diagnostic), CC BY 4.0 as commonly stated (not
verified here). The hospitals are made up: each gets another share of the malignant and of the benign tumours.
"""

import csv
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.demo.setup import HOSPITALS
from protocols.errors import DataMissingError

MEASURES = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave-points",
    "symmetry",
    "fractal-dimension",
)
COLUMNS = tuple(f"{kind}-{name}" for kind in ("mean", "error", "worst") for name in MEASURES)
LABEL, SUBJECT_KEY, SPLIT = "diagnosis", "tumour", "split"
CLASSES = ("benign", "malignant")
SHARES: Mapping[str, tuple[float, ...]] = {"malignant": (0.62, 0.22, 0.16), "benign": (0.15, 0.35, 0.50)}
"""Of each class, the share of every hospital."""
TEST_SHARE = 0.3
SEED = 20240501
Rows = NDArray[np.int64]


@cache
def records() -> tuple[tuple[str, ...], ...]:
    """The file's rows: 30 measurements as text, and the class. DataMissingError names the package to install."""
    try:
        files = importlib.metadata.files("scikit-learn") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if str(file).endswith("breast_cancer.csv")), None)
    path = None if found is None else Path(str(found.locate()))
    if path is None or not path.is_file():
        raise DataMissingError(
            "the breast cancer data aren't installed",
            remedy='they come with a package: pip install "fedaccord[demo]"',
        )
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    names = rows[0][2:]  # malignant is coded 0, benign 1
    return tuple((*row[:-1], names[int(row[-1])]) for row in rows[1:])


def deal() -> dict[str, tuple[Rows, Rows]]:
    """Training and test rows of each hospital, by its name: skewed classes, the same for every run."""
    generator = np.random.default_rng(SEED)
    parts: dict[str, list[tuple[Rows, Rows]]] = {name: [] for name in HOSPITALS}
    for label, shares in SHARES.items():
        rows = generator.permutation([at for at, record in enumerate(records()) if record[-1] == label])
        edges = np.rint(np.cumsum((0.0, *shares)) * len(rows)).astype(np.int64)
        for name, first, last in zip(HOSPITALS, edges, edges[1:], strict=False):
            test = round(TEST_SHARE * int(last - first))
            parts[name].append((rows[first + test : last], rows[first : first + test]))
    return {
        name: (
            np.concatenate([train for train, _ in both]).astype(np.int64),
            np.concatenate([test for _, test in both]).astype(np.int64),
        )
        for name, both in parts.items()
    }


def write_csv(folder: Path) -> dict[str, Path]:
    """Writes each hospital's file as it would deliver it, and gives back its path by name."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, (train, test) in deal().items():
        order = np.random.default_rng([SEED, HOSPITALS.index(name)]).permutation(
            np.concatenate([train, test])
        )
        held_out = set(test.tolist())
        paths[name] = folder / f"{name}.csv"
        with paths[name].open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([SUBJECT_KEY, SPLIT, *COLUMNS, LABEL])
            for row in order.tolist():
                split = "test" if row in held_out else "train"
                writer.writerow([f"T{row * 48_271 % 99_991:05d}", split, *records()[row]])
    return paths
