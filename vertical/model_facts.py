"""What a party's stored part of a model is, for its owner: described, and named array by array."""

from __future__ import annotations

import json

import numpy as np

from protocols.program import Json
from vertical.arrays import Arrays
from vertical.model import ActivePart, PassivePart


def describe(role: str, arrays: Arrays) -> dict[str, Json]:
    """What a party's part of a model is, in JSON without a cell of its data. ModelError for a part that isn't whole."""
    part = part_of(role, arrays)
    found: dict[str, Json] = {
        "settings": dict(part.config.to_parameters()),
        "features": len(part.rules.features),
        "alignment_tag": part.tag,
    }
    if isinstance(part, ActivePart):
        memory = part.memory
        found["classes"] = list(part.classes)
        found["experts"] = {situation: mixture.by_name() for situation, mixture in part.mixtures.items()}
        found["memory"] = (
            None
            if memory is None
            else {
                "aligned": len(memory.passive_unique),
                "active_pool": len(memory.active_common),
                "passive_pool": len(memory.passive_common),
            }
        )
    return found


def preprocessing(role: str, arrays: Arrays) -> dict[str, Json]:
    """How a party's columns become its encoders' features, in order; holds levels of its categories."""
    rules = part_of(role, arrays).rules
    return {"features": list(rules.features), "rules": json.loads(rules.to_text())}


def tensor_names(role: str, arrays: Arrays) -> tuple[str, ...]:
    """Names of the arrays of numbers that make up a party's part: all but its texts."""
    return tuple(name for name, array in part_of(role, arrays).pack().items() if array.dtype != np.uint8)


def part_of(role: str, arrays: Arrays) -> ActivePart | PassivePart:
    """A role's part. Raises ModelError naming what is missing or damaged."""
    return ActivePart.unpack(arrays) if role == "active" else PassivePart.unpack(arrays)
