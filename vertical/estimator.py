"""FedCVT for somebody who holds both parties' data: arrays or DataFrames in, predictions and the report out.

The programs are those that run between two parties, in one process; with equal seeds all numbers are equal too.

>>> import numpy as np
>>> from vertical import FedCVT, FedCVTConfig
>>> people = np.random.default_rng(0).normal(size=(400, 6))
>>> income = np.where(people.sum(axis=1) > 0, "high", "low")
>>> bank, shop = people[:300, :3], people[100:, 3:]  # rows 0..199 of the shop are rows 100..299 of the bank
>>> common, test = (np.arange(100, 300), np.arange(200)), np.arange(200, 300)
>>> model = FedCVT(FedCVTConfig(candidates="linear", steps=60), seed=1)
>>> model = model.fit(bank, shop, income[:300], aligned=common, test=test)
>>> model.predict(active=bank[200:203], passive=shop[100:103]).tolist()
['low', 'low', 'low']
>>> model.predict_proba(passive=shop[200:]).shape
(100, 2)
>>> model.report["methods"]["fedcvt"]["both"]["accuracy"] > 0.8
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocols.errors import BlockError, ConfigError
from protocols.program import Json, Observe
from protocols.seeds import injected
from vertical.class_labels import array_of, check_no_label_among, read_labels
from vertical.config import FedCVTConfig
from vertical.conversion import Kinds, TableLike, columns_of, kinds_of, to_table
from vertical.fitted import Fitted
from vertical.model import ActivePart, PassivePart, Prediction
from vertical.one_process import train
from vertical.roles import ACTIVE, PASSIVE
from vertical.row_keys import Aligned, On, check_same_people, key_columns, keys_of_rows, splits_of_rows
from vertical.slow_progress import slow_progress
from vertical.table import PartyData, Table


class FedCVT:
    """A FedCVT model of two tables: `fit`, then `predict`, `predict_proba`, `report`, `save`."""

    def __init__(self, config: FedCVTConfig | None = None, *, seed: int = 0) -> None:
        """`seed` decides everything random. The bounds of `config` (`max_...`) follow from the tables instead.

        Raises ConfigError for a setting that no candidate of the search would use.
        """
        self.config = FedCVTConfig() if config is None else config
        if not isinstance(self.config, FedCVTConfig):
            raise ConfigError(
                f"config: expected a FedCVTConfig, came {type(config).__name__}",
                remedy="FedCVT(FedCVTConfig(steps=200))",
            )
        self.config.check_effect()
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise ConfigError(f"seed: expected a whole number, came {type(seed).__name__}")
        self.seed = int(seed)  # numpy's integers would stand for other seeds
        self._kept: Fitted | None = None

    def fit(
        self,
        active: TableLike,
        passive: TableLike,
        labels: ArrayLike,
        *,
        on: On = "",
        aligned: Aligned | None = None,
        test: ArrayLike = (),
        missing_label: object = -1,
        observe: Observe | None = None,
    ) -> FedCVT:
        """Trains on the label holder's table `active` (rows, f) with `labels` (rows,) and the other's table `passive`.

        Who is in both tables: `on` names the column or columns of both that identify people (no features then), or
        `aligned` has the row numbers of common people in each. `test` (row numbers or truth values of `active`) are
        kept out of training; the common ones of them are evaluated. Labels that are None, NaN or `missing_label` are
        unknown; give `missing_label=None` when -1 is a class. `observe` is called with each step's progress; without it
        a fit of more than ten seconds says on standard error, every ten seconds, where it is.

        Raises ConfigError or BlockError for what can't be meant, OverlapError when too few people are common.
        """
        tables = {ACTIVE: columns_of(active), PASSIVE: columns_of(passive)}
        features = {role: _without(table, key_columns(on)) for role, table in tables.items()}
        typed = {role: _features(columns, role) for role, columns in features.items()}
        keys = keys_of_rows(tables, on, aligned)
        splits = splits_of_rows(keys, test)
        codes, classes = read_labels(labels, missing_label, len(keys[ACTIVE]))
        check_no_label_among(features[ACTIVE], codes)
        data = {
            role: PartyData(keys=keys[role], table=table, split=splits[role]) for role, table in typed.items()
        }
        data[ACTIVE] = replace(data[ACTIVE], labels=codes, classes=tuple(map(str, classes)))
        seeds = {role: injected(self.seed, role) for role in data}
        told = slow_progress("FedCVT") if observe is None else observe
        outcomes = train(data, _bounded(self.config, data), self.seed, seeds, told)
        self._kept = Fitted(
            config=self.config,
            seed=self.seed,
            on=key_columns(on),
            active=ActivePart.unpack(outcomes[ACTIVE].artifacts),
            passive=PassivePart.unpack(outcomes[PASSIVE].artifacts),
            kinds={role: kinds_of(party.table) for role, party in data.items()},
            report=outcomes[ACTIVE].report,
            classes=classes,
        )
        return self

    def predict_proba(
        self, active: TableLike | None = None, passive: TableLike | None = None
    ) -> NDArray[np.float32]:
        """Probabilities (m, k) of `classes_`, for people of whom one or both parties' columns are given.

        With both tables, row i of both is the same person; where both have the columns that identified people in `fit`,
        this is checked.
        """
        return self._predict(active, passive).probabilities

    def predict(
        self, active: TableLike | None = None, passive: TableLike | None = None
    ) -> NDArray[np.generic]:
        """The most probable label (m,) of each person; see `predict_proba`."""
        codes = self._predict(active, passive).probabilities.argmax(axis=1)
        labels: NDArray[np.generic] = array_of(self.classes_)[codes]
        return labels

    def save(self, path: str | Path) -> None:
        """Writes the fitted model into one file, whole or not at all: `FedCVT.load(path)` predicts the same bits.

        Raises ConfigError before `fit`, and for labels that are neither texts nor numbers nor truth values.
        """
        target = Path(path)
        partial = target.with_name(target.name + ".part")
        partial.write_bytes(self._fitted().to_bytes())
        os.replace(partial, target)

    @classmethod
    def load(cls, path: str | Path) -> FedCVT:
        """The model in a file that `save` has written. Raises ModelError for another or a damaged one."""
        found = Fitted.from_bytes(Path(path).read_bytes())
        model = cls(found.config, seed=found.seed)
        model._kept = found
        return model

    @property
    def classes_(self) -> tuple[object, ...]:
        """The labels, in the order of the columns of `predict_proba`."""
        return self._fitted().classes

    @property
    def report(self) -> Mapping[str, Json]:
        """The active party's report, unsuppressed: scores by method and situation, groups, pseudo labels, losses."""
        return self._fitted().report

    @property
    def parts(self) -> tuple[ActivePart, PassivePart]:
        """Each party's part of the model."""
        return self._fitted().active, self._fitted().passive

    def _fitted(self) -> Fitted:
        if self._kept is None:
            raise ConfigError("the model isn't trained yet", remedy="call fit first")
        return self._kept

    def _predict(self, active: TableLike | None, passive: TableLike | None) -> Prediction:
        (here, there), kinds = self.parts, self._fitted().kinds
        if active is not None and passive is not None:
            check_same_people(columns_of(active), columns_of(passive), self._fitted().on)
        own = None if active is None else here.known(_table(active, kinds, ACTIVE))
        shown = None if passive is None else there.show_all(_table(passive, kinds, PASSIVE))
        if own is not None and shown is not None and own.rows != len(shown):
            raise BlockError(f"{own.rows} rows of the active party, {len(shown)} of the passive one")
        return here.predict(own, None if shown is None else here.told(shown, "passive views"))


def _without(table: Mapping[str, object], names: tuple[str, ...]) -> dict[str, object]:
    """The columns but for these."""
    return {name: column for name, column in table.items() if name not in names}


def _features(columns: Mapping[str, object], role: str) -> Table:
    """A table to train on; BlockError for one without a column or a row."""
    if not columns:
        raise BlockError(f"the {role} table has no column of features", remedy="give one beside its keys")
    table = to_table(columns)
    if table.rows == 0:
        raise BlockError(f"the {role} table has no row", remedy="give a table with people")
    return table


def _table(given: TableLike, kinds: Mapping[str, Kinds], role: str) -> Table:
    """The columns that the role's part was trained on, in its order; BlockError naming those that are missing."""
    columns, wanted = columns_of(given), kinds[role]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise BlockError(
            f"columns missing in the {role} table: {', '.join(missing)}",
            remedy=f"give all columns that it had in fit; an array with {len(wanted)} columns if it was one",
        )
    return to_table({name: columns[name] for name in wanted}, wanted)


def _bounded(config: FedCVTConfig, data: Mapping[str, PartyData]) -> FedCVTConfig:
    """The settings with bounds that leave nobody out."""
    most = max(config.minimum_overlap, *(party.table.rows for party in data.values()))
    return replace(
        config, max_common=most, max_aligned_train=most, max_aligned_test=most, max_passive_only=most
    )
