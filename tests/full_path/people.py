"""Made-up customers of a bank and a retailer: 64 common ones that train, 16 common test people, 40 alone at each."""

import csv
import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ALIGNED, TEST, ALONE = 64, 16, 40
KEY, SPLIT, LABEL = "customer", "split", "churned"
SEGMENTS, REGIONS = ("young", "family", "senior"), ("north", "south", "west")
BANK_HEADER = (KEY, SPLIT, "balance", "tenure", "segment", LABEL)
RETAILER_HEADER = (KEY, SPLIT, "spend", "visits", "region")


@dataclass(frozen=True)
class Customers:
    """Rows of both files by party; every key and every amount of money is unique text that occurs nowhere else."""

    rows: dict[str, list[tuple[str, ...]]]

    def keys(self, party: str) -> list[str]:
        """The keys of a party's file, in its order."""
        return [row[0] for row in self.rows[party]]

    def alone(self, party: str) -> set[str]:
        """The keys that only this party has."""
        (other,) = set(self.rows) - {party}
        return set(self.keys(party)) - set(self.keys(other))

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Texts that no error, answer or log entry may hold: all keys, and each person's amount of money."""
        return frozenset(row[at] for rows in self.rows.values() for row in rows for at in (0, 2))


def customers(seed: int = 5) -> Customers:
    """The customers of a seed."""
    draw = random.Random(seed)
    total = ALIGNED + TEST + 2 * ALONE
    keys = [f"{number:011d}" for number in draw.sample(range(10**10, 10**11), total)]
    mood = [draw.gauss(0, 1) for _ in range(total)]
    common = list(range(ALIGNED + TEST))
    bank = common + list(range(len(common), len(common) + ALONE))
    retailer = common + list(range(len(common) + ALONE, total))

    def split(person: int) -> str:
        return "test" if ALIGNED <= person < ALIGNED + TEST else "train"

    def money(person: int, scale: float) -> str:
        return f"{abs(50_000 + scale * mood[person] + draw.gauss(0, 9_000)):.3f}"

    rows = {
        "bank": [
            (
                keys[person],
                split(person),
                money(person, 9_000),
                str(draw.randint(1, 30)),
                draw.choice(SEGMENTS),
                "yes" if mood[person] + draw.gauss(0, 0.5) > 0 else "no",
            )
            for person in draw.sample(bank, len(bank))
        ],
        "retailer": [
            (
                keys[person],
                split(person),
                money(person, -7_000),
                str(draw.randint(0, 60)),
                draw.choice(REGIONS),
            )
            for person in draw.sample(retailer, len(retailer))
        ],
    }
    return Customers(rows)


def write_csv(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> Path:
    """Writes one party's file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path
