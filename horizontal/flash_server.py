"""FLASH at the aggregator: from a run's state and contributions to the bandit of `flash`, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from horizontal import flash
from horizontal.average import Array, Arrays, Contribution, named, unnamed
from horizontal.config import HorizontalConfig, Retire
from horizontal.fedavg import clients_per_round
from horizontal.round_rules import State
from protocols.seeds import PrivateSeed, numpy_generator

_FLASH = "flash"
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlashServer:
    """FLASH's selection among these clients; the aggregator's private seed decides the draws."""

    config: HorizontalConfig
    clients: tuple[str, ...]
    private_seed: PrivateSeed
    context: flash.Context
    reward: flash.Reward

    def start(self) -> dict[str, Array]:
        """What is kept before the first round."""
        return _pack(flash.Memory.of(len(self.clients), self._size(), self.config.flash_lambda))

    def asks(self, number: int) -> bool:
        """Whether all clients are asked for their signals before this round."""
        refresh = self.config.flash_refresh
        return number == 1 or (refresh > 0 and (number - 1) % refresh == 0)

    def hear(self, state: State, contributions: Sequence[Contribution]) -> State:
        """The state with what clients said of their data."""
        return _keep(state, self._heard(_unpack(state.kept), contributions))

    def choose(self, number: int, state: State, present: Sequence[str]) -> Sequence[str]:
        """The clients of a round: those whose signals are known, that aren't retired, with the largest scores."""
        memory, config, can = _unpack(state.kept), self.config, set(present)
        width = flash.width(
            number, len(self.clients), self._size(), lam=config.flash_lambda, delta=config.flash_delta
        )
        theta = memory.bandit.draw(width, numpy_generator(self.private_seed, f"selection of round {number}"))
        may = memory.known & ~memory.retired & np.array([client in can for client in self.clients])
        size = clients_per_round(len(self.clients), config.fraction, config.minimum_clients)
        return [self.clients[i] for i in flash.choose(memory.context(self.context) @ theta, may, size)]

    def remember(
        self,
        before: State,
        after: State,
        contributions: Sequence[Contribution],
        alignment: Mapping[str, float],
    ) -> State:
        """The state `after` a round, with what was learned from those whom the state `before` it chose."""
        memory = _unpack(before.kept)
        contexts = memory.context(self.context)  # those of the choice, before the new signals
        cosines = np.array([alignment.get(client, np.nan) for client in self.clients])
        return _keep(after, self._heard(memory, contributions).trained(contexts, cosines))

    def enough(self, state: State) -> str:
        """Why the run ends, or ""."""
        left = int((~_unpack(state.kept).retired).sum())
        needed = self.config.minimum_clients
        return f"{left} clients are not retired, a round needs {needed}" if left < needed else ""

    def _heard(self, memory: flash.Memory, contributions: Sequence[Contribution]) -> flash.Memory:
        signals, examples = np.full_like(memory.signals, np.nan), np.zeros(len(self.clients))
        for contribution in contributions:
            at = self.clients.index(contribution.client)
            signals[at], examples[at] = contribution.extras[flash.SIGNALS], contribution.examples
        retire = self.config.flash_retire
        return memory.heard(
            signals,
            examples,
            self.reward,
            literal=retire is Retire.ABOVE,
            limit=_NEVER if retire is Retire.NEVER else flash.patience(self.config.rounds),
        )

    def _size(self) -> int:
        return self.context(np.zeros((1, flash.SIGNAL_COUNT)), np.zeros(1), np.zeros(1)).shape[1]


def _keep(state: State, memory: flash.Memory) -> State:
    return replace(state, kept={**state.kept, **_pack(memory)})


def _pack(memory: flash.Memory) -> dict[str, Array]:
    arrays = {field.name: getattr(memory, field.name) for field in fields(memory) if field.name != "bandit"}
    return named(_FLASH, arrays | {"gram": memory.bandit.gram, "moment": memory.bandit.moment})


def _unpack(kept: Arrays) -> flash.Memory:
    arrays = unnamed(_FLASH, kept)
    numbers = {name: value.astype(np.float64) for name, value in arrays.items()}
    return flash.Memory(
        bandit=flash.Bandit(gram=numbers["gram"], moment=numbers["moment"]),
        signals=numbers["signals"],
        examples=numbers["examples"],
        since=numbers["since"],
        behind=arrays["behind"].astype(np.int64),
        retired=arrays["retired"].astype(np.bool_),
        waiting=arrays["waiting"].astype(np.bool_),
        contexts=numbers["contexts"],
        alignment=numbers["alignment"],
    )
