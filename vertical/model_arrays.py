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

from protocols.errors import FedaccordError
from vertical.arrays import Arrays, as_text, damaged, load_parameters
from vertical.config import FedCVTConfig
from vertical.experts import LinearExperts
from vertical.heads import HEADS
from vertical.linear import Floats
from vertical.messages import FEDCVT
from vertical.own_network import OwnNetwork, uses_own_network
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


def read_memory(config: FedCVTConfig, arrays: Arrays) -> Memory | None:
    """The memory; None when all of it was deleted, ModelError when only a part is there."""
    names, blank = [field.name for field in fields(Memory)], Memory.blank(config, 0)
    there = [name for name in names if MEMORY + name in arrays]
    if not there:
        return None
    if there != names:
        raise damaged(f"of the memory only {', '.join(there)} is there")
    memory = Memory(**{name: _like(getattr(blank, name), arrays[MEMORY + name]) for name in names})
    for pool, positions in (
        (memory.active_common, memory.active_position),
        (memory.passive_common, memory.passive_position),
    ):
        if bool(((positions < -1) | (positions >= len(pool))).any()):
            raise damaged("its memory has a position outside a pool")
        if not len(positions) == len(memory.active_unique) == len(memory.passive_unique):
            raise damaged("its memory has other people in one part than in another")
    return memory


def _like(blank: Tensor, array: NDArray[np.generic]) -> Tensor:
    """The array as a tensor of the same type and width as `blank`, of any number of rows."""
    if array.dtype != blank.numpy().dtype or array.ndim != blank.ndim or array.shape[1:] != blank.shape[1:]:
        raise damaged(f"its memory has {array.dtype} {array.shape}, expected width {blank.shape[1:]}")
    return torch.tensor(array)


def read_under(prefix: str, read: Callable[[str, Arrays], T], arrays: Arrays) -> T:
    """What `read` finds under `prefix`; ModelError when something of it is missing or damaged."""
    try:
        return read(prefix, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise damaged(f"{prefix} is missing or can't be read") from error


def tried(trial: Callable[[], None]) -> None:
    """Runs a trial of a part that was read; ModelError when its arrays don't fit together."""
    try:
        with torch.no_grad(), np.errstate(all="ignore"):
            trial()
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError) as error:
        raise damaged("its arrays don't fit together, or hold what is no number") from error


def check_finite(*arrays: Floats | NDArray[np.float32]) -> None:
    """ValueError unless all values are finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("values that are not finite")


def read_linear(config: FedCVTConfig, arrays: Arrays) -> LinearExperts:
    """The linear experts; those that read components are there if the run sent any."""

    def read(prefix: str, state: Arrays) -> LinearExperts:
        return LinearExperts.unpack(prefix, state, components=config.linear_views > 0)

    return read_under(LINEAR, read, arrays)


def read_temperatures(arrays: Arrays) -> Tensor:
    """Temperatures (3, 3) of the heads, by situation and head."""
    shape = (len(SITUATIONS), len(HEADS))
    found = arrays.get(TEMPERATURES)
    if found is None or found.shape != shape or found.dtype.kind != "f":
        raise damaged(f"{TEMPERATURES} aren't {shape[0]} x {shape[1]} numbers")
    temperatures = torch.tensor(found, dtype=torch.float32)
    if not bool((temperatures > 0).all()):
        raise damaged(f"{TEMPERATURES} aren't above 0")
    return temperatures


def read_network(config: FedCVTConfig, inputs: int, classes: int, arrays: Arrays) -> OwnNetwork | None:
    """The active party's own network; None in a part whose run had no use for it."""
    if not uses_own_network(config):
        return None
    network = OwnNetwork(config, inputs, classes, torch.Generator())
    load_parameters(OWN_NETWORK, network, arrays)
    return network


def read_config(arrays: Arrays) -> FedCVTConfig:
    """The settings of the training."""
    given = _read_json(arrays, _CONFIG)
    try:
        return FedCVTConfig.from_parameters(given.items() if isinstance(given, dict) else ())
    except FedaccordError as error:
        raise damaged(f"its settings can't be read: {error}") from error


def read_classes(arrays: Arrays) -> tuple[str, ...]:
    """The names of the classes."""
    given = _read_json(arrays, CLASSES)
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(name, str) for name in given):
        raise damaged(f"{CLASSES} aren't the names of two classes or more")
    return tuple(given)


def read_rules(arrays: Arrays) -> Preprocessor:
    """The preprocessing rules."""
    text = read_text(arrays, _RULES)
    try:
        return Preprocessor.from_text(text)
    except (TypeError, ValueError, KeyError, FedaccordError) as error:
        raise damaged("its preprocessing rules can't be read") from error


def _read_json(arrays: Arrays, name: str) -> object:
    try:
        return json.loads(read_text(arrays, name))
    except ValueError as error:
        raise damaged(f"{name} can't be read") from error


def read_text(arrays: Arrays, name: str) -> str:
    """A text."""
    if name not in arrays:
        raise damaged(f"{name} is missing")
    try:
        return arrays[name].tobytes().decode()
    except UnicodeDecodeError:  # its message would quote the bytes
        raise damaged(f"{name} is no text") from None
