"""Tensors, modules and texts as numpy arrays: what messages, checkpoints and stored models hold.

A checkpoint has everything that a side needs to go on at the same bits: groups, parameters, running statistics, moments
of AdamW. Noise and dropout of a step come from a generator of that step alone, so there is no generator state to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from protocols.errors import ModelError

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
"""Arrays by dotted name."""
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


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


def load_parameters(prefix: str, module: nn.Module, state: Arrays) -> None:
    """Sets what `parameters` gave, in place; ModelError naming an array that is missing or of another shape."""
    for name, value in _tensors(module):
        stored = state.get(f"{prefix}.{name}")
        if stored is None or stored.shape != tuple(value.shape):
            came = "nothing" if stored is None else f"shape {stored.shape}"
            raise damaged(f"expected {prefix}.{name} {tuple(value.shape)}, came {came}")
        if stored.dtype.kind != "f":
            raise damaged(f"expected {prefix}.{name} of numbers, came {stored.dtype}")
        with torch.no_grad():
            value.copy_(torch.tensor(stored))


def damaged(what: str) -> ModelError:
    """The error for arrays of a stored model that aren't what was stored."""
    return ModelError(
        f"model part: {what}", remedy="restore what the training's run left from a backup, or train again"
    )


def pack_training(module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, NDArray[np.generic]]:
    """Parameters, running statistics and moments of a module and its AdamW."""
    state = parameters("parameter", module)
    for name, parameter in module.named_parameters():
        for moment in _MOMENTS:
            state[f"{moment}.{name}"] = to_array(optimiser.state[parameter][moment]).copy()
    return state


def restore_training(module: nn.Module, optimiser: torch.optim.Optimizer, state: Arrays) -> None:
    """Sets what `pack_training` stored, in place."""
    load_parameters("parameter", module, state)
    for name, parameter in module.named_parameters():
        optimiser.state[parameter] = {moment: torch.tensor(state[f"{moment}.{name}"]) for moment in _MOMENTS}


def as_text(text: str) -> NDArray[np.generic]:
    """Text as UTF-8 bytes in an array: artifacts are arrays."""
    return np.frombuffer(text.encode(), dtype=np.uint8)
