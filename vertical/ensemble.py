"""A trained model with all its experts: what a prediction is made with in each situation.

Experts: the three heads of FedCVT (`joint` is f^AB; `active_head` is f^A and `passive_head` f^B, each on its own
party's view), the active party's own network (`active_network`, see `vertical.own_network`), and the linear experts of
`vertical.experts`. Shapes: m people, k classes, f own scaled features, w components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vertical.encoders import Representation
from vertical.experts import LinearExperts
from vertical.linear import Floats
from vertical.mixture import Mixture
from vertical.own_network import OwnNetwork
from vertical.predict import Predictor, Situation, situation_of

HEAD_EXPERTS: Mapping[Situation, Mapping[str, str]] = {
    Situation.BOTH: {"joint": "joint"},
    Situation.ACTIVE_ONLY: {"joint": "joint", "active_head": "active"},
    Situation.PASSIVE_ONLY: {"joint": "joint", "passive_head": "passive"},
}
"""The heads that are experts of a situation: name of the expert, and of the head."""
LINEAR_EXPERTS: Mapping[Situation, tuple[str, ...]] = {
    Situation.BOTH: ("aligned_only", "stack", "active_alone", "passive_alone"),
    Situation.ACTIVE_ONLY: ("active_alone",),
    Situation.PASSIVE_ONLY: ("passive_alone",),
}
"""The linear experts of a situation."""
OWN_EXPERT = "active_alone"
"""The only linear expert that needs no components of the passive party, in any situation."""
NETWORK_EXPERT = "active_network"
NETWORK_SITUATIONS = (Situation.BOTH, Situation.ACTIVE_ONLY)
"""Where the active party's own network is an expert."""


def expert_names(situation: Situation, *, components: bool) -> tuple[str, ...]:
    """The experts of a situation, heads first; without `components` only those that need none."""
    linear = [name for name in LINEAR_EXPERTS[situation] if components or name == OWN_EXPERT]
    network = [NETWORK_EXPERT] if situation in NETWORK_SITUATIONS else []
    return *HEAD_EXPERTS[situation], *network, *linear


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of m people at one party: their view, and the columns that linear experts read.

    columns (m, f) are the active party's scaled features, or (m, w) the passive party's components.
    """

    view: Representation
    columns: Floats

    @property
    def rows(self) -> int:
        """Number m of people."""
        return self.view.rows

    def take(self, rows: slice) -> Known:
        """Only these people, in this order."""
        return Known(self.view.take(rows), self.columns[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ensemble:
    """The experts, and how they are pooled in each situation; `network` None in a run that has no pool."""

    predictor: Predictor
    linear: LinearExperts
    network: OwnNetwork | None
    mixtures: Mapping[Situation, Mixture]

    def expert_logits(self, active: Known | None, passive: Known | None) -> dict[str, Floats]:
        """Logits (m, k) of the situation's experts, by name; what isn't known is None. ConfigError if nothing is."""
        heads = self.predictor.head_logits(
            None if active is None else active.view, None if passive is None else passive.view
        )
        situation = situation_of(active, passive)
        experts = HEAD_EXPERTS[situation]
        logits = {name: getattr(heads, head).numpy().astype(np.float64) for name, head in experts.items()}
        if active is not None and self.network is not None and situation in NETWORK_SITUATIONS:
            logits[NETWORK_EXPERT] = self.network.logits(active.columns)
        return logits | self.linear.logits(
            None if active is None else active.columns, None if passive is None else passive.columns
        )

    def log_probabilities(self, active: Known | None, passive: Known | None) -> Floats:
        """Log-probabilities (m, k) of the mixture of the situation's experts."""
        mixture = self.mixtures[situation_of(active, passive)]
        return mixture.log_probabilities(self.expert_logits(active, passive))


def hidden(situation: Situation, active: Known, passive: Known) -> tuple[Known | None, Known | None]:
    """What would be known of people with both views if only the situation's were."""
    return (
        None if situation == Situation.PASSIVE_ONLY else active,
        None if situation == Situation.ACTIVE_ONLY else passive,
    )
