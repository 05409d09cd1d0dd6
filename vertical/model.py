"""What each party keeps of a trained FedCVT model: enough to predict after a restart, as arrays by dotted name.

Nothing is pickled: texts (settings, rules, class names) are UTF-8 arrays. The passive party's part is its rules and its
encoders; the active party's its rules, encoders, heads, class names and the *memory*, which holds the other party's
representations: predicting with a view missing needs it. It can be deleted by itself (`without_memory`); predictions
for people with both views go on.

Shapes: m people, w width of what the passive party shows, k classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.errors import ModelError
from protocols.program import silent
from vertical.active_side import ActiveModel
from vertical.arrays import Arrays, as_text, load_parameters, parameters, to_array
from vertical.components import Components
from vertical.config import FedCVTConfig
from vertical.encoders import Representation, ViewEncoder, view_encoder
from vertical.ensemble import Ensemble, Known
from vertical.experts import LinearExperts
from vertical.messages import FEDCVT
from vertical.mixture import Mixture
from vertical.model_arrays import (
    CLASSES,
    COMPONENTS,
    ENCODER,
    LINEAR,
    MIXTURE,
    OWN_NETWORK,
    TAG,
    TEMPERATURES,
    check_finite,
    pack_memory,
    pack_texts,
    read_classes,
    read_config,
    read_linear,
    read_memory,
    read_network,
    read_rules,
    read_temperatures,
    read_text,
    read_under,
    tried,
)
from vertical.own_network import OwnNetwork
from vertical.predict import Predictor, Situation, situation_of
from vertical.preprocess import Preprocessor
from vertical.receiving import received
from vertical.table import Table
from vertical.training import Run
from vertical.use_messages import EXPERTS
from vertical.views import Memory


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
            **pack_texts(self.config, self.rules, self.tag),
            **parameters(ENCODER, self.encoder),
            **self.components.pack(COMPONENTS),
        }

    @classmethod
    def unpack(cls, arrays: Arrays) -> PassivePart:
        """The part in a run's arrays. Raises ModelError naming what is missing or damaged."""
        config, rules = read_config(arrays), read_rules(arrays)
        encoder = view_encoder(config, config.passive_view, len(rules.features), torch.Generator())
        load_parameters(ENCODER, encoder, arrays)
        components = read_under(COMPONENTS, Components.unpack, arrays)
        part = cls(
            config=config, rules=rules, encoder=encoder, components=components, tag=read_text(arrays, TAG)
        )
        tried(part._try)
        return part

    def _try(self) -> None:
        """ValueError, or one of numpy or torch, unless made-up people can be shown."""
        nobody = np.zeros((2, len(self.rules.features)), np.float32)
        shown = self.encoder(torch.tensor(nobody)).joined(), self.components.transform(nobody)
        self.components.padded(nobody, self.config.linear_views)
        check_finite(*(to_array(torch.as_tensor(each)) for each in shown))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActivePart:
    """The active party's part; `memory` None once it was deleted.

    temperatures (3, 3): what calibrates each head before a vote, by situation and head. `linear` are the linear
    experts, `network` the party's own, `mixtures` pool them with the heads in each situation.
    """

    config: FedCVTConfig
    rules: Preprocessor
    model: ActiveModel
    memory: Memory | None
    temperatures: Tensor
    linear: LinearExperts
    network: OwnNetwork | None
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
        return Ensemble(predictor=predictor, linear=self.linear, network=self.network, mixtures=self.mixtures)

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
        packed = {**pack_texts(self.config, self.rules, self.tag), **parameters(FEDCVT.name, self.model)}
        packed[CLASSES] = as_text(json.dumps(self.classes))
        packed[TEMPERATURES] = self.temperatures.numpy()
        packed |= self.linear.pack(LINEAR)
        if self.network is not None:
            packed |= parameters(OWN_NETWORK, self.network)
        for situation, mixture in self.mixtures.items():
            packed |= mixture.pack(MIXTURE + situation)
        if self.memory is not None:
            packed |= pack_memory(self.memory)
        return packed

    @classmethod
    def unpack(cls, arrays: Arrays) -> ActivePart:
        """The part in a run's arrays. Raises ModelError naming what is missing or damaged."""
        config, rules = read_config(arrays), read_rules(arrays)
        classes = read_classes(arrays)
        model = ActiveModel(Run(config, 0, bytes(32), silent), FEDCVT.name, len(rules.features), len(classes))
        load_parameters(FEDCVT.name, model, arrays)
        part = cls(
            config=config,
            rules=rules,
            model=model,
            memory=read_memory(config, arrays),
            temperatures=read_temperatures(arrays),
            linear=read_linear(config, arrays),
            network=read_network(config, len(rules.features), len(classes), arrays),
            mixtures={name: read_under(MIXTURE + name, Mixture.unpack, arrays) for name in Situation},
            classes=classes,
            tag=read_text(arrays, TAG),
        )
        tried(part._try)
        return part

    def _try(self) -> None:
        """ValueError, or one of numpy or torch, unless made-up people can be predicted for in each situation."""
        width, d = self.config.passive_view.width, self.config.d
        nobody = torch.zeros(2, len(self.rules.features))
        own = Known(self.model.encoder(nobody), nobody.numpy().astype(np.float64))
        other = Known(Representation.split(torch.zeros(2, width), d), np.zeros((2, self.config.linear_views)))
        filling = self.memory is not None
        ensemble = self.ensemble(filling=filling)
        for case in ((own, other), *(((own, None), (None, other)) if filling else ())):
            logits = ensemble.expert_logits(*case)
            check_finite(*logits.values())
            if ensemble.log_probabilities(*case).shape != (2, len(self.classes)):
                raise ValueError("predicts other classes")
