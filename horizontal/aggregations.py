"""The choices of aggregation as functions of one form; the mathematics of each is in its own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from horizontal import fednova, fedoui, robust_means, scaffold
from horizontal.average import Array, Contribution, named, unnamed, weighted_mean
from horizontal.choices import Adjustment, Aggregation
from horizontal.config import HorizontalConfig
from horizontal.fedalign import agreement
from horizontal.fedavg import size_weighted_mean, uniform_mean
from horizontal.masked_sum import Summed
from horizontal.round_rules import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What an aggregation knows besides a round: the settings, all clients, the names of trainable arrays."""

    config: HorizontalConfig
    clients: tuple[str, ...]
    parameters: tuple[str, ...]


Aggregate: TypeAlias = Callable[[State, Sequence[Contribution], Frame], State]
"""(state, contributions of a round, frame) -> the next state. Raises UpdateError or NoExamplesError."""
Mean: TypeAlias = Callable[[State, Sequence[Contribution], Frame], dict[str, Array]]


def _mean(mean: Mean) -> Aggregate:
    """An aggregation that only makes the next model."""
    return lambda state, sent, frame: replace(state, model=mean(state, sent, frame))


def _plain_mean(state: State, sent: Sequence[Contribution], frame: Frame) -> State:
    """The uniform mean, or SCAFFOLD's server step, which takes it of models and of control variates."""
    if frame.config.adjustment is not Adjustment.SCAFFOLD:
        return replace(state, model=uniform_mean(sent))
    control = unnamed(scaffold.CONTROL, state.shared)
    model, control = scaffold.server_step(
        state.model, control, sent, clients=len(frame.clients), server_rate=frame.config.server_rate
    )
    return replace(state, model=model, shared=named(scaffold.CONTROL, control))


def next_of_sum(state: State, total: Summed, frame: Frame) -> State:
    """The next state from means alone: what `size` and `mean`, SCAFFOLD's too, make of the same clients."""
    if frame.config.adjustment is not Adjustment.SCAFFOLD:
        return replace(state, model=total.arrays)
    model, control = scaffold.step_by_means(
        state.model,
        unnamed(scaffold.CONTROL, state.shared),
        total.arrays,
        unnamed(scaffold.CONTROL, total.extras),
        share=len(total.clients) / len(frame.clients),
        server_rate=frame.config.server_rate,
    )
    return replace(state, model=model, shared=named(scaffold.CONTROL, control))


def _fedalign(state: State, sent: Sequence[Contribution], frame: Frame) -> dict[str, Array]:
    return _scored(agreement(state.model, sent, frame.parameters), sent)


def _fedoui(state: State, sent: Sequence[Contribution], frame: Frame, *, align: bool = False) -> State:
    """By typicality, or with `align` by its product with the agreement of directions."""
    trained = [contribution for contribution in sent if contribution.examples > 0]
    at = [frame.clients.index(contribution.client) for contribution in trained]
    values = state.kept[fedoui.OUI].astype(np.float64)
    now = np.array([float(contribution.extras[fedoui.OUI]) for contribution in trained])
    values[at] = fedoui.smoothed(values[at], now, frame.config.oui_smoothing)
    scores = fedoui.typicality(values[at]) if trained else np.zeros(0)
    if align and trained:
        scores = scores * agreement(state.model, trained, frame.parameters)
    model = _scored(scores, trained)
    return replace(state, model=model, kept={**state.kept, fedoui.OUI: values})


def _scored(scores: NDArray[np.float64], sent: Sequence[Contribution]) -> dict[str, Array]:
    shares = fedoui.weights(scores, [contribution.examples for contribution in sent])
    return weighted_mean(sent, shares.tolist())


AGGREGATE: Mapping[Aggregation, Aggregate] = {
    Aggregation.SIZE: _mean(lambda state, sent, frame: size_weighted_mean(sent)),
    Aggregation.MEAN: _plain_mean,
    Aggregation.FEDOUI: _fedoui,
    Aggregation.FEDALIGN: _mean(_fedalign),
    Aggregation.FEDOUI_FEDALIGN: lambda state, sent, frame: _fedoui(state, sent, frame, align=True),
    Aggregation.FEDNOVA: _mean(
        lambda state, sent, frame: fednova.normalised_mean(
            state.model, sent, frame.parameters, shrink=frame.config.learning_rate * frame.config.mu
        )
    ),
    Aggregation.MEDIAN: _mean(lambda state, sent, frame: robust_means.coordinate_median(sent)),
    Aggregation.TRIMMED: _mean(
        lambda state, sent, frame: robust_means.trimmed_mean(sent, frame.config.trim_share)
    ),
    Aggregation.CLIPPED: _mean(
        lambda state, sent, frame: robust_means.clipped_mean(
            state.model, sent, frame.parameters, frame.config.clip_norm
        )
    ),
}
