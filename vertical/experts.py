"""The linear experts of the active party, fitted by itself on its own features and the passive party's components.

No label, gradient or coefficient leaves the active party: a split regression would hand the passive party the
sign of every label. Per situation:

- both views: `aligned_only` on [x, c] of the aligned rows; `stack`, the score of `active_alone` as an offset and
  then the passive party's components on the aligned rows; `active_alone`; `passive_alone`;
- only the active party's view: `active_alone`, on all its labelled rows;
- only the passive party's view: `passive_alone`, on the components of the aligned rows.

Shapes: n aligned, a active-only, m rows to predict; f own features, w components, k classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vertical.calibration import fit_temperature, log_probabilities
from vertical.linear import ChosenModel, Floats, Integers, LinearModel, choose
from vertical.predict import Situation

SHARES = (1.0, 0.7, 0.5)
"""Shares of the score of `active_alone` that the stack starts from; the passive party tells part of the same (ours)."""

_WITH_COMPONENTS = ("aligned_only", "passive_alone", "stack")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertRows:
    """What the linear experts are fitted on.

    active_aligned (n, f), active_alone (a, f): own scaled features; passive_aligned (n, w): the passive party's
    components. labels_* and folds_*: class codes, -1 where unknown, and the fold that holds a row out, of the
    same rows. class_weights (k,): weight of a row in the fits by class, 1 by default.
    """

    active_aligned: Floats
    active_alone: Floats
    passive_aligned: Floats
    labels_aligned: Integers
    labels_alone: Integers
    folds_aligned: Integers
    folds_alone: Integers
    classes: int
    class_weights: Floats | None = None

    @property
    def active(self) -> Floats:
        """Own features of all rows, aligned ones first, (n + a, f)."""
        return np.concatenate([self.active_aligned, self.active_alone])

    @property
    def labels(self) -> Integers:
        """Labels of all rows, (n + a,)."""
        return np.concatenate([self.labels_aligned, self.labels_alone])

    @property
    def folds(self) -> Integers:
        """Folds of all rows, (n + a,)."""
        return np.concatenate([self.folds_aligned, self.folds_alone])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComponentExperts:
    """The experts that read the passive party's components.

    `temperature` divides the score of `active_alone` before `stack` adds to it: the one that calibrates that score,
    divided by one of `SHARES`.
    """

    aligned_only: LinearModel
    passive_alone: LinearModel
    stack: LinearModel
    temperature: float

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The experts as arrays by dotted name."""
        state: dict[str, NDArray[np.generic]] = {f"{prefix}.temperature": np.array(self.temperature)}
        for name in _WITH_COMPONENTS:
            model: LinearModel = getattr(self, name)
            state |= model.pack(f"{prefix}.{name}")
        return state

    @classmethod
    def unpack(cls, prefix: str, state: Mapping[str, NDArray[np.generic]]) -> ComponentExperts:
        """The experts of `pack`."""
        models = {name: LinearModel.unpack(f"{prefix}.{name}", state) for name in _WITH_COMPONENTS}
        return cls(**models, temperature=float(state[f"{prefix}.temperature"]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearExperts:
    """The fitted experts; `components` None where the passive party sends no components."""

    active_alone: LinearModel
    components: ComponentExperts | None

    def pack(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The experts as arrays by dotted name."""
        others = {} if self.components is None else self.components.pack(prefix)
        return {**self.active_alone.pack(f"{prefix}.active_alone"), **others}

    @classmethod
    def unpack(
        cls, prefix: str, state: Mapping[str, NDArray[np.generic]], *, components: bool
    ) -> LinearExperts:
        """The experts of `pack`; `components` says whether some read components."""
        return cls(
            active_alone=LinearModel.unpack(f"{prefix}.active_alone", state),
            components=ComponentExperts.unpack(prefix, state) if components else None,
        )

    def logits(self, active: Floats | None, passive: Floats | None) -> dict[str, Floats]:
        """Logits (m, k) by expert for the views that are there: own features (m, f), components (m, w), or None."""
        found = {} if active is None else {"active_alone": self.active_alone.logits(active)}
        others = self.components
        if others is None or passive is None:
            return found
        found["passive_alone"] = others.passive_alone.logits(passive)
        if active is not None:
            offsets = log_probabilities(found["active_alone"], others.temperature)
            found["aligned_only"] = others.aligned_only.logits(np.hstack([active, passive]))
            found["stack"] = others.stack.logits(passive, offsets)
        return found


HeldOut = Mapping[Situation, Mapping[str, Floats]]
"""Held-out logits by situation and expert: (n, k), the aligned rows; in ACTIVE_ONLY (n + a, k), the alone ones too."""


def fit_linear_experts(rows: ExpertRows) -> tuple[LinearExperts, HeldOut]:
    """The experts, fitted on all rows, and their held-out logits; without components (w = 0) only `active_alone`."""
    n = len(rows.labels_aligned)
    alone = _choose(rows, rows.active, rows.labels, rows.folds)
    both = {"active_alone": alone.held_out[:n]}
    held_out = {
        Situation.BOTH: both,
        Situation.ACTIVE_ONLY: {"active_alone": alone.held_out},
        Situation.PASSIVE_ONLY: dict[str, Floats](),
    }
    components = None
    if rows.passive_aligned.shape[1]:
        components, others = _fit_component_experts(rows, alone.held_out)
        both.update(others)
        held_out[Situation.PASSIVE_ONLY] = {"passive_alone": others["passive_alone"]}
    return LinearExperts(active_alone=alone.model, components=components), held_out


def _fit_component_experts(rows: ExpertRows, alone: Floats) -> tuple[ComponentExperts, dict[str, Floats]]:
    """The experts that read components, and their held-out logits (n, k); alone (n + a, k): those of `active_alone`.

    The stack's offsets are held-out scores of `active_alone`: no row's score was trained on its own label. Of several
    shares of them it takes the one with the least held-out loss, the largest of equal ones.
    """
    n = len(rows.labels_aligned)
    both = np.hstack([rows.active_aligned, rows.passive_aligned])
    aligned_only = _choose(rows, both, rows.labels_aligned, rows.folds_aligned)
    passive_alone = _choose(rows, rows.passive_aligned, rows.labels_aligned, rows.folds_aligned)
    calibrated = fit_temperature(alone, rows.labels)
    temperatures = [calibrated / share for share in SHARES]
    stacks = [_stack(rows, alone[:n], temperature) for temperature in temperatures]
    best = int(np.argmin([min(stack.losses) for stack in stacks]))  # without a label all are NaN: the first
    stack = stacks[best]
    experts = ComponentExperts(
        aligned_only=aligned_only.model,
        passive_alone=passive_alone.model,
        stack=stack.model,
        temperature=temperatures[best],
    )
    return experts, {
        "aligned_only": aligned_only.held_out,
        "stack": stack.held_out,
        "passive_alone": passive_alone.held_out,
    }


def _stack(rows: ExpertRows, alone: Floats, temperature: float) -> ChosenModel:
    offsets = log_probabilities(alone, temperature)
    return _choose(rows, rows.passive_aligned, rows.labels_aligned, rows.folds_aligned, offsets)


def _choose(
    rows: ExpertRows,
    features: Floats,
    labels: Integers,
    folds: Integers,
    offsets: Floats | None = None,
) -> ChosenModel:
    return choose(
        features,
        labels,
        rows.classes,
        folds,
        class_weights=rows.class_weights,
        offsets=offsets,
    )
