"""The arrays of a stored model by name, and how the settings, rules, names and memory in them are read.

Every reading function raises ModelError naming what is missing or damaged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.errors import FedaccordError, ModelError
from vertical.arrays import Arrays, as_text
from vertical.config import FedCVTConfig
from vertical.experts import LinearExperts
from vertical.heads import HEADS
from vertical.messages import FEDCVT
from vertical.predict import SITUATIONS
from vertical.preprocess import Preprocessor
from vertical.views import Memory

T = TypeVar("T")

MEMORY = f"{FEDCVT.name}.memory."
"""Names of the memory's arrays begin with this."""
ENCODER = f"{FEDCVT.name}.encoder"
TEMPERATURES = f"{FEDCVT.name}.temperatures"
LINEAR, COMPONENTS = f"{FEDCVT.name}.linear", f"{FEDCVT.name}.components"
OWN_NETWORK = f"{FEDCVT.name}.own_network"
MIXTURE = f"{FEDCVT.name}.mixture."
CLASSES, TAG = "classes", "alignment_tag"
_CONFIG, _RULES = "config", "preprocessing"


def without_memory(arrays: Arrays) -> dict[str, NDArray[np.generic]]:
    """A run's arrays without the memory of the other party's representations."""
    return {name: array for name, array in arrays.items() if not name.startswith(MEMORY)}


def pack_texts(config: FedCVTConfig, rules: Preprocessor, tag: str) -> dict[str, NDArray[np.generic]]:
    """What both parties' parts begin with: settings, preprocessing rules and the alignment's tag."""
    return {
        _CONFIG: as_text(json.dumps(dict(config.to_parameters()), sort_keys=True)),
        _RULES: as_text(rules.to_text()),
        TAG: as_text(tag),
    }


def pack_memory(memory: Memory) -> dict[str, NDArray[np.generic]]:
    """The memory by field name."""
    return {MEMORY + field.name: getattr(memory, field.name).numpy() for field in fields(Memory)}


def read_memory(arrays: Arrays) -> Memory | None:
    """The memory; None when all of it was deleted, ModelError when only a part is there."""
    names = [field.name for field in fields(Memory)]
    there = [name for name in names if MEMORY + name in arrays]
    if not there:
        return None
    if there != names:
        raise ModelError(f"model part: of the memory only {', '.join(there)} is there")
    return Memory(**{name: torch.tensor(arrays[MEMORY + name]) for name in names})


def read_under(prefix: str, read: Callable[[str, Arrays], T], arrays: Arrays) -> T:
    """What `read` finds under `prefix`; ModelError when something of it is missing or damaged."""
    try:
        return read(prefix, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"model part: {prefix} is missing or can't be read") from error


def read_linear(config: FedCVTConfig, arrays: Arrays) -> LinearExperts:
    """The linear experts; those that read components are there if the run sent any."""

    def read(prefix: str, state: Arrays) -> LinearExperts:
        return LinearExperts.unpack(prefix, state, components=config.linear_views > 0)

    return read_under(LINEAR, read, arrays)


def read_temperatures(arrays: Arrays) -> Tensor:
    """Temperatures (3, 3) of the heads, by situation and head."""
    shape = (len(SITUATIONS), len(HEADS))
    if TEMPERATURES not in arrays or arrays[TEMPERATURES].shape != shape:
        raise ModelError(f"model part: {TEMPERATURES} aren't {shape[0]} x {shape[1]} numbers")
    return torch.tensor(arrays[TEMPERATURES], dtype=torch.float32)


def read_config(arrays: Arrays) -> FedCVTConfig:
    """The settings of the training."""
    given = _read_json(arrays, _CONFIG)
    try:
        return FedCVTConfig.from_parameters(given.items() if isinstance(given, dict) else ())
    except FedaccordError as error:
        raise ModelError(f"model part: its settings can't be read: {error}") from error


def read_classes(arrays: Arrays) -> tuple[str, ...]:
    """The names of the classes."""
    given = _read_json(arrays, CLASSES)
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(name, str) for name in given):
        raise ModelError(f"model part: {CLASSES} aren't the names of two classes or more")
    return tuple(given)


def read_rules(arrays: Arrays) -> Preprocessor:
    """The preprocessing rules."""
    text = read_text(arrays, _RULES)
    try:
        return Preprocessor.from_text(text)
    except (TypeError, ValueError, KeyError, FedaccordError) as error:
        raise ModelError("model part: its preprocessing rules can't be read") from error


def _read_json(arrays: Arrays, name: str) -> object:
    try:
        return json.loads(read_text(arrays, name))
    except ValueError as error:
        raise ModelError(f"model part: {name} can't be read") from error


def read_text(arrays: Arrays, name: str) -> str:
    """A text."""
    if name not in arrays:
        raise ModelError(f"model part: {name} is missing")
    return arrays[name].tobytes().decode()
