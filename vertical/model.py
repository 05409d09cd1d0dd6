"""What each party keeps of a trained FedCVT model: enough to predict after a restart, as arrays by dotted name.

Nothing is pickled: texts (settings, rules, class names) are UTF-8 arrays. The passive party's part is its rules and its
encoders; the active party's its rules, encoders, heads, class names and the *memory*, which holds the other party's
representations: predicting with a view missing needs it. It can be deleted by itself (`without_memory`); predictions
for people with both views go on.

Shapes: m people, w width of what the passive party shows, k classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.errors import FedaccordError, ModelError
from protocols.program import Json
from vertical.active_side import ActiveModel
from vertical.components import Components
from vertical.config import FedCVTConfig
from vertical.encoders import Representation, ViewEncoder, view_encoder
from vertical.ensemble import Ensemble, Known
from vertical.experts import LinearExperts
from vertical.heads import HEADS
from vertical.messages import FEDCVT
from vertical.mixture import Mixture
from vertical.predict import SITUATIONS, Predictor, Situation, situation_of
from vertical.preprocess import Preprocessor
from vertical.table import Table
from vertical.training import Run, as_text, load_parameters, parameters, received, silent, to_array
from vertical.use_messages import EXPERTS
from vertical.views import Memory

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
T = TypeVar("T")

MEMORY = f"{FEDCVT.name}.memory."
"""Names of the memory's arrays begin with this."""
_ENCODER = f"{FEDCVT.name}.encoder"
_TEMPERATURES = f"{FEDCVT.name}.temperatures"
_LINEAR, _COMPONENTS = f"{FEDCVT.name}.linear", f"{FEDCVT.name}.components"
_MIXTURE = f"{FEDCVT.name}.mixture."
_CONFIG, _RULES, _CLASSES, _TAG = "config", "preprocessing", "classes", "alignment_tag"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """Probabilities float32 (m, k) of people in one situation, and the weight of each expert in them."""

    situation: Situation
    probabilities: NDArray[np.float32]
    weights: Mapping[str, float]

    def expert_weights(self) -> NDArray[np.float32]:
        """The weights of all EXPERTS, (e,): 0 for one that takes no part in this situation."""
        return np.array([self.weights.get(name, 0.0) for name in EXPERTS], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassivePart:
    """The passive party's part; `tag` names the alignment of its training, the same at both parties."""

    config: FedCVTConfig
    rules: Preprocessor
    encoder: ViewEncoder
    components: Components
    tag: str

    @torch.no_grad()
    def show(self, table: Table) -> NDArray[np.float32]:
        """What the active party gets of these people to fill or to vote, (m, w): their views, in evaluation form."""
        return to_array(self.encoder(torch.tensor(self.rules.transform(table))).joined())

    def show_all(self, table: Table) -> NDArray[np.float32]:
        """What it gets of them to predict, (m, w + linear_views): also the components for its linear experts."""
        components = self.components.padded(self.rules.transform(table), self.config.linear_views)
        return np.concatenate([self.show(table), components], axis=1)

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """The part as arrays by dotted name."""
        return {
            **_pack_texts(self),
            **parameters(_ENCODER, self.encoder),
            **self.components.pack(_COMPONENTS),
        }

    @classmethod
    def unpack(cls, arrays: Arrays) -> PassivePart:
        """The part in a run's arrays. Raises ModelError naming what is missing or damaged."""
        config, rules = _unpack_config(arrays), _unpack_rules(arrays)
        encoder = view_encoder(config, config.passive_view, len(rules.features), torch.Generator())
        load_parameters(_ENCODER, encoder, arrays)
        components = _read(_COMPONENTS, Components.unpack, arrays)
        return cls(
            config=config, rules=rules, encoder=encoder, components=components, tag=_text(arrays, _TAG)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActivePart:
    """The active party's part; `memory` None once it was deleted.

    temperatures (3, 3): what calibrates each head before a vote, by situation and head. `linear` are the linear
    experts, `mixtures` pool them with the heads in each situation.
    """

    config: FedCVTConfig
    rules: Preprocessor
    model: ActiveModel
    memory: Memory | None
    temperatures: Tensor
    linear: LinearExperts
    mixtures: Mapping[Situation, Mixture]
    classes: tuple[str, ...]
    tag: str

    @torch.no_grad()
    def views(self, table: Table) -> Representation:
        """This party's views of its own people (m rows), in evaluation form."""
        views: Representation = self.model.encoder(torch.tensor(self.rules.transform(table)))
        return views

    def shown(self, came: NDArray[np.float32], what: str) -> Representation:
        """The passive party's views in (m, w) of `PassivePart.show`; ProtocolError if it can't be that."""
        width = self.config.passive_view.width
        return Representation.split(received(came, (len(came), width), what), self.config.d)

    def known(self, table: Table) -> Known:
        """What this party knows of its own people (m rows): their views and, for linear experts, scaled features."""
        return Known(self.views(table), self.rules.transform(table).astype(np.float64))

    def told(self, came: NDArray[np.float32], what: str) -> Known:
        """What is in (m, w + linear_views) of `PassivePart.show_all`; ProtocolError if it can't be that."""
        width = self.config.passive_view.width
        whole = to_array(received(came, (len(came), width + self.config.linear_views), what))
        return Known(self.shown(whole[:, :width], what), whole[:, width:].astype(np.float64))

    def predict(self, active: Known | None, passive: Known | None) -> Prediction:
        """Probabilities for people of whom one or both parties know something (m rows each).

        Raises ModelError when a view is missing and the memory was deleted; ConfigError when both are missing.
        """
        situation = situation_of(active, passive)
        ensemble = self.ensemble(filling=situation != Situation.BOTH)
        return Prediction(
            situation=situation,
            probabilities=np.exp(ensemble.log_probabilities(active, passive)).astype(np.float32),
            weights=self.mixtures[situation].by_name(),
        )

    def ensemble(self, *, filling: bool) -> Ensemble:
        """All experts; ModelError when views shall be filled and the memory was deleted."""
        predictor = self.predictor(filling=filling)
        return Ensemble(predictor=predictor, linear=self.linear, mixtures=self.mixtures)

    def with_thresholds(self, thresholds: tuple[float, float, float]) -> ActivePart:
        """The same with other thresholds of the vote, for f^AB, f^A and f^B."""
        joint, active, passive = thresholds
        config = replace(
            self.config, threshold_joint=joint, threshold_active=active, threshold_passive=passive
        )
        return replace(self, config=config)

    def predictor(self, *, filling: bool) -> Predictor:
        """Heads and memory; ModelError when views shall be filled and the memory was deleted."""
        memory = self.memory
        if memory is None:
            if filling:
                raise ModelError(
                    "a missing view can't be filled: the model's memory of the other party was deleted",
                    remedy="predict for people with both views, or train again",
                )
            memory = Memory.blank(self.config, 0)
        return Predictor(
            config=self.config, heads=self.model.heads, memory=memory, temperatures=self.temperatures
        )

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """The part as arrays by dotted name."""
        packed = {**_pack_texts(self), **parameters(FEDCVT.name, self.model)}
        packed[_CLASSES] = as_text(json.dumps(self.classes))
        packed[_TEMPERATURES] = self.temperatures.numpy()
        packed |= self.linear.pack(_LINEAR)
        for situation, mixture in self.mixtures.items():
            packed |= mixture.pack(_MIXTURE + situation)
        if self.memory is not None:
            packed |= {
                MEMORY + field.name: getattr(self.memory, field.name).numpy() for field in fields(Memory)
            }
        return packed

    @classmethod
    def unpack(cls, arrays: Arrays) -> ActivePart:
        """The part in a run's arrays. Raises ModelError naming what is missing or damaged."""
        config, rules = _unpack_config(arrays), _unpack_rules(arrays)
        classes = _unpack_classes(arrays)
        model = ActiveModel(Run(config, 0, bytes(32), silent), FEDCVT.name, len(rules.features), len(classes))
        load_parameters(FEDCVT.name, model, arrays)
        return cls(
            config=config,
            rules=rules,
            model=model,
            memory=_unpack_memory(arrays),
            temperatures=_unpack_temperatures(arrays),
            linear=_read(_LINEAR, LinearExperts.unpack, arrays),
            mixtures={name: _read(_MIXTURE + name, Mixture.unpack, arrays) for name in Situation},
            classes=classes,
            tag=_text(arrays, _TAG),
        )


def without_memory(arrays: Arrays) -> dict[str, NDArray[np.generic]]:
    """A run's arrays without the memory of the other party's representations."""
    return {name: array for name, array in arrays.items() if not name.startswith(MEMORY)}


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


def _pack_texts(part: PassivePart | ActivePart) -> dict[str, NDArray[np.generic]]:
    return {
        _CONFIG: as_text(json.dumps(dict(part.config.to_parameters()), sort_keys=True)),
        _RULES: as_text(part.rules.to_text()),
        _TAG: as_text(part.tag),
    }


def _unpack_memory(arrays: Arrays) -> Memory | None:
    """The memory; None when all of it was deleted, ModelError when only a part is there."""
    names = [field.name for field in fields(Memory)]
    there = [name for name in names if MEMORY + name in arrays]
    if not there:
        return None
    if there != names:
        raise ModelError(f"model part: of the memory only {', '.join(there)} is there")
    return Memory(**{name: torch.tensor(arrays[MEMORY + name]) for name in names})


def _read(prefix: str, read: Callable[[str, Arrays], T], arrays: Arrays) -> T:
    """What `read` finds under `prefix`; ModelError when something of it is missing or damaged."""
    try:
        return read(prefix, arrays)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"model part: {prefix} is missing or can't be read") from error


def _unpack_temperatures(arrays: Arrays) -> Tensor:
    shape = (len(SITUATIONS), len(HEADS))
    if _TEMPERATURES not in arrays or arrays[_TEMPERATURES].shape != shape:
        raise ModelError(f"model part: {_TEMPERATURES} aren't {shape[0]} x {shape[1]} numbers")
    return torch.tensor(arrays[_TEMPERATURES], dtype=torch.float32)


def _unpack_config(arrays: Arrays) -> FedCVTConfig:
    given = _json(arrays, _CONFIG)
    try:
        return FedCVTConfig.from_parameters(given.items() if isinstance(given, dict) else ())
    except FedaccordError as error:
        raise ModelError(f"model part: its settings can't be read: {error}") from error


def _unpack_classes(arrays: Arrays) -> tuple[str, ...]:
    given = _json(arrays, _CLASSES)
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(name, str) for name in given):
        raise ModelError(f"model part: {_CLASSES} aren't the names of two classes or more")
    return tuple(given)


def _unpack_rules(arrays: Arrays) -> Preprocessor:
    text = _text(arrays, _RULES)
    try:
        return Preprocessor.from_text(text)
    except (TypeError, ValueError, KeyError, FedaccordError) as error:
        raise ModelError("model part: its preprocessing rules can't be read") from error


def _json(arrays: Arrays, name: str) -> object:
    try:
        return json.loads(_text(arrays, name))
    except ValueError as error:
        raise ModelError(f"model part: {name} can't be read") from error


def _text(arrays: Arrays, name: str) -> str:
    if name not in arrays:
        raise ModelError(f"model part: {name} is missing")
    return arrays[name].tobytes().decode()
