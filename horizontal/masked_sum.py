"""What clients' updates are as words that can be added up, and what their sum is: no aggregator sees one alone.

A client's words are its number of rows, then its model and what goes with it in fixed point, each times its weight: its
number of rows where the method weighs by it, else 1. So both the weighted sum and its weights are hidden, each client's
as well as the others'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from horizontal.average import Arrays, NoExamplesError, UpdateError
from horizontal.choices import Aggregation
from horizontal.config import HorizontalConfig
from horizontal.fixed_point import FixedPoint, Words, size
from horizontal.messages import Update


@dataclass(frozen=True, slots=True, kw_only=True)
class SumTerms:
    """What clients and aggregator have to do alike: fixed point, weights, fewest clients of a sum, most rows of one."""

    point: FixedPoint
    by_rows: bool
    least: int
    most_rows: int

    @classmethod
    def of(cls, config: HorizontalConfig) -> SumTerms:
        """Those of a configuration."""
        return cls(
            point=FixedPoint(bits=config.fraction_bits, limit=config.value_limit),
            by_rows=config.aggregation is Aggregation.SIZE,
            least=config.minimum_clients,
            most_rows=config.maximum_examples,
        )

    def check_room(self, clients: int) -> None:
        """ConfigError if sums over so many clients could leave 64 bits."""
        self.point.check_room(clients * (self.most_rows if self.by_rows else 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summed:
    """What the sum over these clients gives: rows in all, and means of their models and of what goes with them."""

    clients: tuple[str, ...]
    examples: int
    arrays: Arrays
    extras: Arrays


def count(model: Arrays, extras: Arrays) -> int:
    """Number of words of an update laid out like this."""
    return 1 + size(model) + size(extras)


def words_of(update: Update, terms: SumTerms) -> Words:
    """The update's words. NoExamplesError without rows, UpdateError for too many or values that can't be added up."""
    if update.examples < 1:
        raise NoExamplesError("no rows to train on: without weight there is nothing to add")
    if update.examples > terms.most_rows:
        raise UpdateError(
            f"more than {terms.most_rows} rows, which a sum has no room for",
            remedy="raise maximum_examples",
        )
    weight = update.examples if terms.by_rows else 1
    rows = np.array([update.examples], np.uint64)
    arrays, extras = update.arrays(), update.extra_arrays()
    return np.concatenate([rows, terms.point.words(arrays, weight), terms.point.words(extras, weight)])


def summed(words: Words, clients: tuple[str, ...], model: Arrays, extras: Arrays, terms: SumTerms) -> Summed:
    """What the sum of these clients' words says. UpdateError for one that no such clients can have sent."""
    rows = int(words[0])
    if not len(clients) <= rows <= len(clients) * terms.most_rows:
        raise UpdateError(f"the numbers of rows of {len(clients)} clients don't add up to one that can be")
    weight = rows if terms.by_rows else len(clients)
    at = 1 + size(model)
    return Summed(
        clients=clients,
        examples=rows,
        arrays=terms.point.mean(words[1:at], model, weight),
        extras=terms.point.mean(words[at:], extras, weight),
    )
