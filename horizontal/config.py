"""Settings of a horizontal run: scalars only, so that they fit in a request's parameters. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeAlias

from horizontal.choices import (
    STOP_NEEDS,
    Adjustment,
    Admission,
    Aggregation,
    Loss,
    Optimizer,
    Parts,
    Penalty,
    Selection,
    needs_each_update,
    problems,
)
from protocols.errors import ConfigError
from protocols.masking import LEAST_CLIENTS

Scalar: TypeAlias = str | int | float | bool


class Gate(StrEnum):
    """How FedBSS's share of admitted biased rows grows over E local epochs: (1 - cos(pi e/E))/2, or e/E (ablation)."""

    COSINE = "cosine"
    LINEAR = "linear"


class Retire(StrEnum):
    """When FLASH retires a client: never, when its rewards are below their predictions, or above them (as printed)."""

    NEVER = "never"
    BELOW = "below"
    ABOVE = "above"


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalConfig:
    """Settings of one run; validated, the bad value stands in the ConfigError, and so does why two don't combine.

    Rounds: `rounds`; `fraction` C of the clients per round, but never fewer than `minimum_clients`, without which a
    round fails (the mean of one client is that client's model); `maximum_examples`, above which a client's number of
    rows is not believed; `stop_after` rounds in a row in which the validation loss rises while the training loss falls
    (0: never); `checkpoint_every` rounds; `round_deadline_s` seconds after which the aggregator goes on without the
    clients that haven't answered (0: as long as its driver waits for one message), in each of a round's exchanges.
    Local training: `epochs` E, `batch` B rows (a large one: full batches), `optimizer`, `learning_rate`, `momentum`,
    `weight_decay`.
    The method's parts: `selection`, `objective`, `mu` of FedProx's penalty (0: none), `adjustment`, `admission`,
    `aggregation`.
    Robust loss: `robust_alpha` CE + `robust_beta` RCE.
    SCAFFOLD: `scaffold_option` 1 or 2 for the next control variate, `server_rate` lr_g.
    FedBSS: `warmup_share` of the rounds, `rewarm_rounds` after growth, `gate`, `shuffle` within the admitted rows.
    FedOUI: `oui_probe` rows, `oui_smoothing` share of the past in a moving average, `oui_all_layers`.
    Robust means: `trim_share` off each end, `clip_norm` (0: the round's median).
    FLASH: `flash_lambda`, `flash_delta`, `flash_price` of time, `flash_refresh` rounds between signals of all clients
    (0: only before the first), `flash_retire`.
    Secure aggregation: with `secure_aggregation` the aggregator sees sums of clients' updates only, exact to
    `fraction_bits` bits after the binary point, of values within +-`value_limit`.
    """

    rounds: int = 20
    fraction: float = 1.0
    minimum_clients: int = 2
    maximum_examples: int = 1_000_000
    stop_after: int = 0
    checkpoint_every: int = 1
    round_deadline_s: float = 600.0
    epochs: int = 1
    batch: int = 32
    optimizer: Optimizer = Optimizer.SGD
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    selection: Selection = Selection.UNIFORM
    objective: Loss = Loss.CROSS_ENTROPY
    mu: float = 0.0
    adjustment: Adjustment = Adjustment.NONE
    admission: Admission = Admission.ALL
    aggregation: Aggregation = Aggregation.SIZE
    robust_alpha: float = 1.0
    robust_beta: float = 1.0
    scaffold_option: int = 2
    server_rate: float = 1.0
    warmup_share: float = 0.25
    rewarm_rounds: int = 3
    gate: Gate = Gate.COSINE
    shuffle: bool = False
    oui_probe: int = 64
    oui_smoothing: float = 0.0
    oui_all_layers: bool = False
    trim_share: float = 0.2
    clip_norm: float = 0.0
    flash_lambda: float = 1.0
    flash_delta: float = 0.1
    flash_price: float = 0.01
    flash_refresh: int = 0
    flash_retire: Retire = Retire.BELOW
    secure_aggregation: bool = False
    fraction_bits: int = 24
    value_limit: float = 64.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, StrEnum):
                object.__setattr__(self, field.name, _choose(field.name, type(field.default), value))
            elif type(value) is not type(field.default):
                raise ConfigError(f"{field.name}: expected {type(field.default).__name__}, came {value!r}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigError(f"{name} must lie in [{low:g}, {high:g}], came {value!r}")
        if reasons := problems(self.parts()):
            raise ConfigError("; ".join(reasons))
        if self.secure_aggregation:
            self._check_sums()

    def _check_sums(self) -> None:
        """ConfigError unless an aggregator that only learns sums can do this."""
        reasons = list(needs_each_update(self.parts()))
        if self.stop_after:
            reasons.append(f"stop_after: {STOP_NEEDS}")
        if reasons:
            raise ConfigError(
                f"not with secure aggregation: {'; '.join(reasons)}",
                remedy="choose aggregation size or mean, selection uniform and stop_after 0",
            )
        if self.minimum_clients < LEAST_CLIENTS:
            raise ConfigError(
                f"secure aggregation needs minimum_clients of {LEAST_CLIENTS} or more, came {self.minimum_clients}: of "
                "the sum of two, each knows the other's update",
                remedy=f"set minimum_clients = {LEAST_CLIENTS}",
            )

    def parts(self) -> Parts:
        """The choice for each part of the method."""
        return {
            "selection": self.selection,
            "objective": self.objective,
            "penalty": Penalty.FEDPROX if self.mu > 0 else Penalty.NONE,
            "optimizer": self.optimizer,
            "adjustment": self.adjustment,
            "admission": self.admission,
            "aggregation": self.aggregation,
        }

    @property
    def warmup_rounds(self) -> int:
        """FedBSS's first rounds of ordinary training; halves up."""
        return math.floor(self.warmup_share * self.rounds + 0.5 + 1e-9)

    @property
    def uses_oui(self) -> bool:
        """Whether clients send FedOUI's indicator."""
        return self.aggregation in (Aggregation.FEDOUI, Aggregation.FEDOUI_FEDALIGN)

    def to_parameters(self) -> tuple[tuple[str, Scalar], ...]:
        """Every setting as (name, scalar), sorted by name: what a request carries."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return tuple(sorted((name, str(v) if isinstance(v, StrEnum) else v) for name, v in values))

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, Scalar]]) -> HorizontalConfig:
        """The settings of a request; each one must be there once, so that no default changes an approved run."""
        given = list(parameters)
        values = dict(given)
        known = {field.name for field in fields(cls)}
        if len(values) != len(given):
            raise ConfigError("a parameter is given twice")
        if unknown := sorted(values.keys() - known):
            raise ConfigError(f"unknown parameters: {', '.join(unknown)}")
        if missing := sorted(known - values.keys()):
            raise ConfigError(f"missing parameters: {', '.join(missing)}")
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks each type


def _choose(name: str, kind: type[StrEnum], value: object) -> StrEnum:
    try:
        return kind(str(value))
    except ValueError:
        raise ConfigError(f"{name} must be one of {', '.join(kind)}, came {value!r}") from None


_LARGE = 10_000_000
_RANGES: Mapping[str, tuple[float, float]] = {
    "rounds": (1, _LARGE),
    "fraction": (0.0, 1.0),
    "minimum_clients": (1, _LARGE),
    "maximum_examples": (1, 10**12),
    "stop_after": (0, _LARGE),
    "checkpoint_every": (1, _LARGE),
    "round_deadline_s": (0.0, 1800.0),
    "epochs": (1, _LARGE),
    "batch": (1, _LARGE),
    "learning_rate": (1e-9, 100.0),
    "momentum": (0.0, 0.9999),
    "weight_decay": (0.0, 100.0),
    "mu": (0.0, 1e6),
    "robust_alpha": (0.0, 1e6),
    "robust_beta": (0.0, 1e6),
    "scaffold_option": (1, 2),
    "server_rate": (1e-9, 100.0),
    "warmup_share": (0.0, 1.0),
    "rewarm_rounds": (0, _LARGE),
    "oui_probe": (2, _LARGE),
    "oui_smoothing": (0.0, 1.0),
    "trim_share": (0.0, 0.49),
    "clip_norm": (0.0, 1e9),
    "flash_lambda": (1e-9, 1e9),
    "flash_delta": (1e-9, 1.0),
    "flash_price": (0.0, 1e6),
    "flash_refresh": (0, _LARGE),
    "fraction_bits": (1, 40),
    "value_limit": (1e-6, 1e9),
}
