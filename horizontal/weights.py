"""Models as named arrays, for messages and means."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from horizontal.average import Array, Arrays, check_layout
from protocols.errors import ConfigError
from protocols.framing import DTYPES


def model_arrays(model: nn.Module) -> dict[str, Array]:
    """Copies of all parameters and buffers by name. ConfigError naming one that doesn't travel."""
    found: dict[str, Array] = {}
    for name, value in model.state_dict().items():
        dtype = str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__
        if dtype not in DTYPES:
            raise ConfigError(f"the model's {name!r} is of {dtype}", remedy=f"one of: {', '.join(DTYPES)}")
        found[name] = np.array(value.detach().cpu().numpy())
    return found


@torch.no_grad()
def set_model(model: nn.Module, arrays: Arrays, who: str) -> None:
    """Sets all parameters and buffers, in place. UpdateError naming `who` sent them unless they fit exactly."""
    own = model.state_dict()
    check_layout(arrays, {name: value.detach().cpu().numpy() for name, value in own.items()}, who)
    for name, value in own.items():
        value.copy_(torch.tensor(arrays[name]))


def parameter_names(model: nn.Module) -> tuple[str, ...]:
    """The names of what training changes by gradients: parameters that aren't frozen, and no buffers."""
    return tuple(name for name, value in model.named_parameters() if value.requires_grad)
