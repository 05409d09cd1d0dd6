"""What a configured method does at a client: prepare a local training, do it, and make the answer of it.

The three are apart so that a simulation can prepare many clients, train them as one, and finish each. `ClientWork`
called as a function does one after the other; both ways give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from horizontal import early_stop, fedbss, fednova, fedoui, fedprox, flash, scaffold
from horizontal.average import Array, Arrays, UpdateError, named, unnamed
from horizontal.choices import Adjustment, Admission, Aggregation, Loss, Selection
from horizontal.client import Answer
from horizontal.client_data import ClientData
from horizontal.config import HorizontalConfig
from horizontal.evaluation import metrics
from horizontal.job import Job, MakeOptimizer, Trained, optimizer_of, run
from horizontal.local import Admission as Admit
from horizontal.local import Examples, Objective, cross_entropy, outputs, plan
from horizontal.messages import AGGREGATOR, Broadcast, Task, Update
from horizontal.robust_loss import robust_loss, signals
from horizontal.weights import set_model
from protocols.program import Json
from protocols.seeds import PrivateSeed, derive

Effort: TypeAlias = Callable[[int], int]
"""How many local epochs a client does in a round; what it raises costs it the round."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A job, and what of the answer is known before it: extras, memory, notes, and SCAFFOLD's variates of the round."""

    number: int
    job: Job
    variates: scaffold.Variates | None
    extras: dict[str, Array] = field(default_factory=dict)
    memory: dict[str, Array] = field(default_factory=dict)
    notes: dict[str, Json] = field(default_factory=dict)


class ClientWork:
    """A client's `Work` under a configuration; `model` gives the architecture and is overwritten.

    `objective` and `optimizer`, for research, stand for the configured ones. The private seed decides the order of
    rows, the model's own randomness and FedOUI's probe, each round's apart from the others'.
    """

    def __init__(
        self,
        model: nn.Module,
        data: ClientData,
        config: HorizontalConfig,
        private_seed: PrivateSeed,
        *,
        objective: Objective | None = None,
        optimizer: MakeOptimizer | None = None,
        effort: Effort | None = None,
    ) -> None:
        self.model, self.data, self.config = model, data, config
        self._seed = private_seed
        self._objective = objective or _objective(config)
        self._optimizer = optimizer or optimizer_of(config)
        self._effort = effort or (lambda number: config.epochs)
        parts = (config.admission, config.adjustment, config.selection)
        plain = parts == (Admission.ALL, Adjustment.NONE, Selection.UNIFORM) and not config.stop_after
        self._measures = not plain  # whether anything is measured with the received model before training

    def __call__(self, broadcast: Broadcast, memory: Arrays) -> Answer:
        """See `client.Work`."""
        if broadcast.task == Task.DESCRIBE:
            return self.describe(broadcast, memory)
        return self.complete(self.prepare(broadcast, memory))

    def complete(self, prepared: Prepared) -> Answer:
        """The answer, after training alone."""
        optimizer = self._optimizer(self.model.parameters())
        if prepared.variates is not None:
            scaffold.check_plain(optimizer)
        return self.finish(prepared, run(self.model, prepared.job, optimizer))

    def describe(self, broadcast: Broadcast, memory: Arrays) -> Answer:
        """FLASH's signals, with the received model."""
        set_model(self.model, broadcast.arrays(), AGGREGATOR)
        rows = self.data.rows(broadcast.round)
        sent = Update.of(broadcast.round, Task.DESCRIBE, len(rows), {}, {flash.SIGNALS: self._signals(rows)})
        return Answer(update=sent, memory=memory)

    def prepare(self, broadcast: Broadcast, memory: Arrays) -> Prepared:
        """What to train, and all that is measured with the received model."""
        number, received, rows = broadcast.round, broadcast.arrays(), self.data.rows(broadcast.round)
        epochs = self._effort(number)
        if self._measures:
            set_model(self.model, received, AGGREGATOR)
        remembered: dict[str, Array] = {}
        notes: dict[str, Json] = {"people": len(rows)}
        admission, variates = None, None
        if self.config.admission is Admission.FEDBSS:
            stage = fedbss.Stage.unpack(memory).at(number, len(rows), self.config.rewarm_rounds)
            remembered.update(stage.pack())
            if len(rows) and not stage.warm(number, self.config.warmup_rounds):
                admission = self._admission(rows, epochs, notes)
        if self.config.adjustment is Adjustment.SCAFFOLD:
            variates = self._variates(broadcast, memory, rows)
        order = torch.Generator().manual_seed(derive(self._seed, f"order of round {number}"))
        job = Job(
            received=received,
            examples=rows,
            steps=plan(
                len(rows), epochs=epochs, batch=self.config.batch, generator=order, admission=admission
            ),
            seed=derive(self._seed, f"model of round {number}"),
            objective=self._objective,
            penalty=fedprox.proximal(received, self.config.mu),
            adjustment=None if variates is None else variates.correction(),
        )
        return Prepared(
            number=number,
            job=job,
            variates=variates,
            extras=self._measured(rows),
            memory=remembered,
            notes=notes,
        )

    def finish(self, prepared: Prepared, trained: Trained) -> Answer:
        """The answer. Raises UpdateError if the training diverged: then what the client remembers stays."""
        arrays, training, config = trained.arrays, trained.training, self.config
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise UpdateError(f"training diverged: {name!r} has values that are not finite")
        extras, memory, notes = dict(prepared.extras), dict(prepared.memory), dict(prepared.notes)
        if prepared.variates is not None:
            new = prepared.variates.next(
                prepared.job.received, arrays, steps=training.steps, learning_rate=config.learning_rate
            )
            memory.update(named(scaffold.CONTROL, new))
            extras.update(named(scaffold.CONTROL, prepared.variates.change(new)))
        if config.aggregation is Aggregation.FEDNOVA:
            extras[fednova.STEPS] = np.array(training.steps)
        if config.uses_oui:
            extras[fedoui.OUI] = np.array(self._indicator(arrays, prepared.job.examples))
        if config.stop_after:
            extras[early_stop.LOSSES][0] = training.losses[-1] if training.losses else 0.0
        notes["losses"] = list(training.losses)
        update = Update.of(prepared.number, Task.TRAIN, training.examples, arrays, extras)
        return Answer(update=update, memory=memory, notes=notes)

    def evaluate(self, arrays: Arrays) -> Mapping[str, Json]:
        """What the final model is worth on the client's own test rows."""
        rows = self.data.test
        if rows is None:
            return {}
        set_model(self.model, arrays, AGGREGATOR)
        return {"people": len(rows), **metrics(self.model, rows, self._objective)}

    def _admission(self, rows: Examples, epochs: int, notes: dict[str, Json]) -> Admit:
        """FedBSS's rows of each epoch; notes |G|, |R| and how many red rows each epoch admits."""
        gate = self.config.gate
        made = fedbss.curriculum(outputs(self.model, rows.features), rows.labels)
        notes.update({"green": made.green, "red": made.red, "admitted": list(made.admitted(epochs, gate))})
        return made.admission(epochs, gate, shuffle=self.config.shuffle)

    def _variates(self, broadcast: Broadcast, memory: Arrays, rows: Examples) -> scaffold.Variates:
        server = unnamed(scaffold.CONTROL, broadcast.extra_arrays())
        own = unnamed(scaffold.CONTROL, memory) or scaffold.zero_control(server, tuple(server))
        gradient = None
        if self.config.scaffold_option == 1 and len(rows):
            gradient = scaffold.gradient_at(self.model, rows, self._objective)
        return scaffold.Variates(own=own, server=server, gradient=gradient)

    def _measured(self, rows: Examples) -> dict[str, Array]:
        """The extras that are measured with the received model."""
        extras: dict[str, Array] = {}
        if self.config.selection is Selection.FLASH:
            extras[flash.SIGNALS] = self._signals(rows)
        if self.config.stop_after:
            held_out = self.data.held_out(rows)
            loss = metrics(self.model, held_out, self._objective).get("loss", 0.0)
            extras[early_stop.LOSSES] = np.array([0.0, loss, len(held_out)])
        return extras

    def _signals(self, rows: Examples) -> NDArray[np.float64]:
        return signals(self.model, rows, self.data.held_out(rows), self.data.seconds)

    def _indicator(self, arrays: Arrays, rows: Examples) -> float:
        """FedOUI's, of the trained model."""
        set_model(self.model, arrays, AGGREGATOR)
        probe = self.data.probe(rows, self.config.oui_probe, self._seed)
        return fedoui.model_indicator(self.model, probe, all_layers=self.config.oui_all_layers)


def _objective(config: HorizontalConfig) -> Objective:
    if config.objective is Loss.ROBUST:
        return robust_loss(config.robust_alpha, config.robust_beta)
    return cross_entropy
