"""Trains the active party's own network on all its labelled rows, and on those that each fold of the search keeps.

Encoder and settings are those of the configuration that the search chose; for how many steps it is trained is chosen on
the people whom the folds hold out. No message: both parties have finished the search, and the other one waits.
Shapes: n aligned training rows, h active-only ones that some fold holds out, k classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from vertical.active_side import Labels
from vertical.arrays import load_parameters, parameters
from vertical.calibration import calibrated_loss
from vertical.linear import Floats
from vertical.losses import class_weights, cross_entropy
from vertical.messages import Choice
from vertical.optimiser import adamw, take_step
from vertical.own_network import OwnNetwork
from vertical.predict import Situation
from vertical.schedule import evaluation_points, final_training
from vertical.search import Search
from vertical.training import Features, Run, check_converges, tell_step

_NETWORK, _HELD_OUT, _STEPS = "own_network", "own_held_out", "own_steps"
"""Names of its arrays in a checkpoint."""
_PHASE = "active_alone"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnExpert:
    """The network trained for `steps` steps on all rows, and what its trainings on the folds say of held-out rows.

    held_out (n + h, k): logits of the aligned rows and of the active-only ones that folds hold out, as
    `Search.truth` has their labels; NaN where no fold holds a row out.
    """

    network: OwnNetwork
    steps: int
    held_out: Floats

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """All of it, for a checkpoint of what comes after its training."""
        return {
            **parameters(_NETWORK, self.network),
            _HELD_OUT: self.held_out,
            _STEPS: np.array(self.steps),
        }


def own_expert(search: Search, choice: Choice, state: Mapping[str, NDArray[np.generic]]) -> OwnExpert:
    """The expert for the chosen configuration; not trained again where the `state` of a checkpoint holds it."""
    n = len(search.features.aligned)
    run = search.run.with_config(final_training(search.run.config, n, choice).config)
    if _STEPS in state:
        network = _fresh(run, _PHASE, search)
        load_parameters(_NETWORK, network, state)
        held_out = state[_HELD_OUT].astype(np.float64)
        return OwnExpert(network=network, steps=int(state[_STEPS]), held_out=held_out)
    steps, held_out = _cross_fit(run, search)
    network = _fresh(run, _PHASE, search)
    for _ in _train(run, _PHASE, network, search.features, search.labels, steps):
        pass
    return OwnExpert(network=network, steps=steps, held_out=held_out)


def _cross_fit(run: Run, search: Search) -> tuple[int, Floats]:
    """The number of steps with the least loss, and the held-out logits after it; all steps where nobody is held out."""
    points = evaluation_points(search.run.config)
    truth = search.truth(Situation.ACTIVE_ONLY)
    found = {point: np.full((len(truth), len(search.labels.classes)), np.nan) for point in points}
    n = len(search.features.aligned)
    for number, (fold, own) in enumerate(search.folds()):
        name = f"{_PHASE}, fold {number + 1} of {len(search.own)}"
        network = _fresh(run, name, search)
        held = torch.cat([search.features.aligned[fold.held], search.features.alone[own.held]])
        place = np.concatenate([fold.held, n + np.searchsorted(search.own_held, own.held)])
        kept = search.features.keep(fold.kept, own.kept), search.labels.keep(fold.kept, own.kept)
        for done in _train(run, name, network, *kept, max(points)):
            if done in points:
                found[done][place] = network.logits(held)
    losses = {point: calibrated_loss(logits, truth) for point, logits in found.items()}
    best = min(reversed(points), key=lambda point: (np.isnan(losses[point]), losses[point]))
    return best, found[best]


def _fresh(run: Run, name: str, search: Search) -> OwnNetwork:
    generator = run.generator(f"{name} weights")
    return OwnNetwork(run.config, search.features.width, len(search.labels.classes), generator)


def _train(
    run: Run, name: str, network: OwnNetwork, features: Features, labels: Labels, stop: int
) -> Iterator[int]:
    """Trains on all rows given; yields the number of steps done after each, and tells of it."""
    config, rows, codes = run.config, features.training(), labels.training()
    by_class = class_weights(codes, len(labels.classes)) if config.class_balance else None
    optimiser = adamw(config, network.parameters())
    losses: list[float] = []
    for step in range(stop):
        batch = run.rows("active only", len(rows), config.aligned_batch + config.alone_batch, step)
        known = batch[codes[batch].numpy() >= 0]
        logits = network(rows[known], run.generator(f"{name} step {step}"))
        weights = None if by_class is None else by_class[codes[known]]
        loss = cross_entropy(logits, codes[known], weights=weights, smoothing=config.label_smoothing)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        take_step(optimiser, config, step)
        losses.append(float(loss.detach()))
        tell_step(run.observe, name, step, stop, losses)
        yield step + 1
    check_converges(name, *network.parameters())
