"""What a configured method does at the aggregator: its parts, put together, as the `Rules` of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from horizontal import early_stop, fednova, fedoui, flash, scaffold
from horizontal.aggregations import AGGREGATE, Frame, next_of_sum
from horizontal.average import Array, Arrays, Contribution, named
from horizontal.choices import Adjustment, Aggregation, Selection
from horizontal.client import Notes
from horizontal.config import HorizontalConfig
from horizontal.drift import cosine, distance, flat
from horizontal.fedavg import choose_uniformly
from horizontal.flash_server import FlashServer
from horizontal.masked_sum import Summed, SumTerms
from horizontal.round_rules import Metrics, Rules, State, Sums
from horizontal.weights import model_arrays, parameter_names
from protocols.program import Json
from protocols.seeds import PrivateSeed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Method:
    """A configured method for these clients and a model whose trainable arrays are `parameters`."""

    config: HorizontalConfig
    clients: tuple[str, ...]
    parameters: tuple[str, ...]
    selector: FlashServer
    public_seed: int

    @classmethod
    def of(
        cls,
        model: nn.Module,
        clients: Sequence[str],
        config: HorizontalConfig,
        public_seed: int,
        private_seed: PrivateSeed,
        *,
        context: flash.Context = flash.default_context,
        reward: flash.Reward | None = None,
    ) -> Method:
        """The method for a model's parameters.

        The public seed decides a uniform selection, the aggregator's private seed FLASH's draws. `context` and `reward`
        (None: the default with the configured price) are FLASH's, to be replaced in research. Raises ConfigError for a
        model that FedOUI can't look into.
        """
        if config.uses_oui:
            fedoui.check_model(model)
        server = FlashServer(
            config=config,
            clients=tuple(clients),
            private_seed=private_seed,
            context=context,
            reward=reward or flash.default_reward(config.flash_price),
        )
        return cls(
            config=config,
            clients=tuple(clients),
            parameters=parameter_names(model),
            selector=server,
            public_seed=public_seed,
        )

    def start(self, model: nn.Module) -> State:
        """The state before the first round, with the model's present weights."""
        arrays, config = model_arrays(model), self.config
        shared: dict[str, Array] = {}
        kept: dict[str, Array] = {}
        if config.adjustment is Adjustment.SCAFFOLD:
            shared |= named(scaffold.CONTROL, scaffold.zero_control(arrays, self.parameters))
        if config.uses_oui:
            kept[fedoui.OUI] = np.full(len(self.clients), np.nan)
        if config.selection is Selection.FLASH:
            kept |= self.selector.start()
        if config.stop_after:
            kept[early_stop.LOSSES] = early_stop.START
        return State(model=arrays, shared=shared, kept=kept)

    def rules(self, model: Arrays) -> Rules:
        """The rules of a run of models laid out like this one."""
        rules = Rules(
            choose=self._uniform(), advance=self._advance, extras=self._extras(model), check=self._check
        )
        if self.config.selection is Selection.FLASH:
            rules = replace(
                rules,
                choose=self.selector.choose,
                asks=self.selector.asks,
                described={flash.SIGNALS: np.zeros(flash.SIGNAL_COUNT)},
                hear=self.selector.hear,
                enough=self.selector.enough,
            )
        if self.config.secure_aggregation:
            terms = SumTerms.of(self.config)
            terms.check_room(len(self.clients))
            rules = replace(rules, sums=Sums(terms=terms, advance=self._advance_sum))
        if self.config.stop_after:
            rules = replace(rules, judge=self._judge, enough=self._overfits)
        return rules

    def _uniform(self) -> Callable[[int, State, Sequence[str]], Sequence[str]]:
        config = self.config
        choose = choose_uniformly(self.clients, config.fraction, config.minimum_clients, self.public_seed)
        return lambda number, state, present: choose(number, present)

    def _extras(self, model: Arrays) -> dict[str, Array]:
        """The layout of what each client sends beside its model."""
        layout: dict[str, Array] = {}
        if self.config.adjustment is Adjustment.SCAFFOLD:
            layout |= named(scaffold.CONTROL, {name: model[name] for name in self.parameters})
        if self.config.aggregation is Aggregation.FEDNOVA:
            layout[fednova.STEPS] = np.zeros((), np.int64)
        if self.config.uses_oui:
            layout[fedoui.OUI] = np.zeros(())
        if self.config.selection is Selection.FLASH:
            layout[flash.SIGNALS] = np.zeros(flash.SIGNAL_COUNT)
        if self.config.stop_after:
            layout[early_stop.LOSSES] = early_stop.START
        return layout

    def _check(self, contribution: Contribution) -> None:
        """UpdateError naming the client for a value beside its model that can't be."""
        if self.config.aggregation is Aggregation.FEDNOVA:
            fednova.check_steps(contribution)
        if self.config.uses_oui:
            fedoui.check_indicator(contribution)
        if self.config.selection is Selection.FLASH:
            flash.check_signals(contribution)

    def _advance(
        self, number: int, state: State, contributions: Sequence[Contribution]
    ) -> tuple[State, Notes]:
        """The next state, and of each client how far it moved, its cosine to what the model moved by, and its rows."""
        after = AGGREGATE[self.config.aggregation](state, contributions, self._frame())
        origin = flat(state.model, self.parameters)
        moved = flat(after.model, self.parameters) - origin
        length = distance(moved)
        drift, direction = {}, {}
        for contribution in contributions:
            change = flat(contribution.arrays, self.parameters) - origin
            drift[contribution.client] = distance(change)
            direction[contribution.client] = cosine(change, moved, (drift[contribution.client], length))
        if self.config.selection is Selection.FLASH:
            after = self.selector.remember(state, after, contributions, direction)
        rows: dict[str, Json] = {contribution.client: contribution.examples for contribution in contributions}
        return after, {"drift": drift, "cosine": direction, "rows": rows}

    def _advance_sum(self, number: int, state: State, total: Summed) -> tuple[State, Notes]:
        """The next state, how far the model moved, and on how many rows in all: of one client nothing is known."""
        after = next_of_sum(state, total, self._frame())
        moved = distance(flat(after.model, self.parameters) - flat(state.model, self.parameters))
        return after, {"sum": {"people": total.examples, "moved": moved}}

    def _frame(self) -> Frame:
        return Frame(config=self.config, clients=self.clients, parameters=self.parameters)

    def _judge(self, state: State, contributions: Sequence[Contribution], metrics: Metrics) -> State:
        before = state.kept[early_stop.LOSSES].astype(np.float64)
        now = early_stop.overfitting(before, contributions, metrics.get("loss"))
        return replace(state, kept={**state.kept, early_stop.LOSSES: now})

    def _overfits(self, state: State) -> str:
        limit = self.config.stop_after
        if float(state.kept[early_stop.LOSSES].astype(np.float64)[2]) >= limit:
            return f"the validation loss rose and the training loss fell {limit} rounds in a row"
        return self.selector.enough(state) if self.config.selection is Selection.FLASH else ""
