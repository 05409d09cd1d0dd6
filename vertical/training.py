"""What both sides of a training loop share: randomness, checks of arrays from the peer, checkpoints.

Checkpoints hold everything that a side needs to go on at the same bits: groups, parameters, running statistics, moments
of AdamW. Noise and dropout of a step come from a generator of that step alone, so there is no generator state to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from protocols.errors import ModelError, ProtocolError
from protocols.program import Observe, Progress
from protocols.seeds import PrivateSeed, derive, public_order
from vertical.choices import ViewShape
from vertical.config import FedCVTConfig
from vertical.groups import Groups
from vertical.preprocess import Preprocessor, fit
from vertical.table import PartyData, Rows

PROGRESS_EVERY = 20
"""Steps between two progress reports, and behind each loss in one."""

State: TypeAlias = Mapping[str, NDArray[np.generic]]
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a party's trainings depend on besides its data: settings, both seeds, and whom to tell of progress."""

    config: FedCVTConfig
    public_seed: int
    private_seed: PrivateSeed
    observe: Observe

    def generator(self, purpose: str) -> torch.Generator:
        """A generator for one purpose, from the private seed."""
        return torch_generator(self.private_seed, purpose)

    def rows(self, group: str, size: int, batch: int, step: int) -> Rows:
        """Positions in a group of `size` rows that `step` uses, (min(size, batch),); the same at both parties."""
        if batch == 0:
            return np.zeros(0, dtype=np.int64)
        return public_order(self.public_seed, group, size, batch, step)

    def with_config(self, config: FedCVTConfig) -> Run:
        """The same with other settings."""
        return replace(self, config=config)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """One party's scaled features by group, each (rows, f), and the rules that made them."""

    aligned: Tensor
    alone: Tensor
    test: Tensor
    rules: Preprocessor

    @classmethod
    def of(cls, data: PartyData, groups: Groups, config: FedCVTConfig, shape: ViewShape) -> Features:
        """Features of the groups; the rules are fitted on the party's own training rows."""
        rules = fit(data.table, groups.training(), config.scaling, shape.image, cuts=config.cuts)

        def transform(rows: Rows) -> Tensor:
            return torch.tensor(rules.transform(data.table.take(rows)))

        return cls(
            aligned=transform(groups.aligned_train),
            alone=transform(groups.alone),
            test=transform(groups.aligned_test),
            rules=rules,
        )

    @property
    def width(self) -> int:
        """Number f of features."""
        return self.aligned.shape[1]

    def aligned_only(self) -> Features:
        """The same people without the alone rows."""
        return replace(self, alone=self.alone[:0])

    def training(self) -> Tensor:
        """Features of all training rows, aligned ones first."""
        return torch.cat([self.aligned, self.alone])

    def keep(self, aligned: Rows, alone: Rows) -> Features:
        """The same with only these aligned and alone rows."""
        return replace(self, aligned=self.aligned[aligned], alone=self.alone[alone])


def silent(progress: Progress) -> None:
    """An observer that does nothing."""


def torch_generator(seed: PrivateSeed, purpose: str) -> torch.Generator:
    """A generator for one purpose, from a party's private seed."""
    generator = torch.Generator()
    generator.manual_seed(derive(seed, purpose))
    return generator


def is_refresh(config: FedCVTConfig, step: int) -> bool:
    """Whether the memory is refreshed before `step`."""
    return step % config.memory_every == 0


def received(array: NDArray[np.float32], shape: tuple[int, int], what: str) -> Tensor:
    """The peer's array as a tensor of its own; ProtocolError if it isn't of this shape or not finite."""
    if array.shape != shape:
        raise ProtocolError(f"{what}: expected shape {shape}, came {array.shape}")
    if not np.isfinite(array).all():
        raise ProtocolError(f"{what}: some values are not finite")
    return torch.tensor(array)


def expect_number(came: int, expected: int, what: str) -> None:
    """ProtocolError unless the peer's step or position is the expected one."""
    if came != expected:
        raise ProtocolError(f"{what}: expected {expected}, came {came}")


def to_array(tensor: Tensor) -> NDArray[np.float32]:
    """The values of a float32 tensor, without history."""
    array: NDArray[np.float32] = tensor.detach().cpu().numpy()
    return array


def parameters(prefix: str, module: nn.Module) -> dict[str, NDArray[np.generic]]:
    """Copies of a module's parameters and running statistics by dotted name under `prefix`."""
    return {f"{prefix}.{name}": to_array(value).copy() for name, value in _tensors(module)}


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Everything that a trained module holds: parameters, and the buffers of batch normalisation."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def load_parameters(prefix: str, module: nn.Module, state: State) -> None:
    """Sets what `parameters` gave, in place; ModelError naming an array that is missing or of another shape."""
    for name, value in _tensors(module):
        stored = state.get(f"{prefix}.{name}")
        if stored is None or stored.shape != tuple(value.shape):
            came = "nothing" if stored is None else f"shape {stored.shape}"
            raise ModelError(f"model part: expected {prefix}.{name} {tuple(value.shape)}, came {came}")
        with torch.no_grad():
            value.copy_(torch.tensor(stored))


def pack_training(module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, NDArray[np.generic]]:
    """Parameters, running statistics and moments of a module and its AdamW."""
    state = parameters("parameter", module)
    for name, parameter in module.named_parameters():
        for moment in _MOMENTS:
            state[f"{moment}.{name}"] = to_array(optimiser.state[parameter][moment]).copy()
    return state


def restore_training(module: nn.Module, optimiser: torch.optim.Optimizer, state: State) -> None:
    """Sets what `pack_training` stored, in place."""
    load_parameters("parameter", module, state)
    for name, parameter in module.named_parameters():
        optimiser.state[parameter] = {moment: torch.tensor(state[f"{moment}.{name}"]) for moment in _MOMENTS}


def as_text(text: str) -> NDArray[np.generic]:
    """Text as UTF-8 bytes in an array: artifacts are arrays."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def tell_step(observe: Observe, phase: str, step: int, of: int, losses: Sequence[float] = ()) -> None:
    """Reports the first step, every `PROGRESS_EVERY`th and the last, with the mean of the last so many losses.

    Progress reaches the analyst, and one step's loss would say something of one batch of people: so a loss is told
    once there are `PROGRESS_EVERY` of them. `losses` are those of all steps so far; () at a party that knows none.
    """
    done = step + 1
    if step == 0 or done % PROGRESS_EVERY == 0 or done == of:
        interval = losses[-PROGRESS_EVERY:]
        loss = sum(interval) / PROGRESS_EVERY if len(interval) == PROGRESS_EVERY else None
        observe(Progress(phase, done, of, loss))
