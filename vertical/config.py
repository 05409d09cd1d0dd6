"""Settings of a FedCVT run: scalars only, so that they fit in a request's parameters. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from protocols.errors import ConfigError
from protocols.settings import Parameters, Scalar, check_settings, from_parameters, to_parameters
from vertical.candidates import CANDIDATES, GIVEN, candidate_names, fits
from vertical.choices import (
    EncoderKind,
    Normalisation,
    PseudoWeighting,
    Scaling,
    Schedule,
    ViewShape,
    image_size,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedCVTConfig:
    """Settings of one FedCVT run; validated, the bad value stands in the ConfigError.

    Views: `encoder` kind, `d` width of the common representation, which both parties share, `unique_active` and
    `unique_passive` width of each party's unique one (0: `d` too), `hidden` width of an MLP, `channels` of a CNN,
    `image_active` and `image_passive` "HxW" where a party's columns are the pixels of an image, row by row ("": no
    image), `normalisation` after hidden layers, `head_hidden` width of a hidden layer in the heads (0: linear heads).
    Input: `scaling` of numeric columns, `cuts` 0/1 features beside each (see `vertical.numeric_rule`).
    Optimiser (AdamW at both parties): `steps`, `learning_rate`, `schedule`, `weight_decay`.
    Regularisation: `dropout` in the encoders, `input_noise` (standard deviation on scaled features),
    `label_smoothing` (share given to the uniform distribution), `class_balance` (loss weights by class).
    Fill: `temperature`; `fill` off leaves rows with one view out of the joint head and of the vote;
    `live_keys` puts the step's own aligned rows, with gradient, in the place of their remembered copies.
    Vote: three thresholds; `pseudo` off stops all pseudo labels; `pseudo_from` first step that uses them,
    `pseudo_ramp` steps from weight 0 to 1, `pseudo_weighting`, `pseudo_passive` trains f^B on them too.
    Weights: `l1` common views agree, `l2`/`l3` filled against true view of active/passive,
    `l4`/`l5` unique against common view of active/passive.
    Rows and messages: batch sizes per step, `memory_pool` rows of each common pool, `memory_every` steps
    between refreshes, `evaluation_batch` rows per evaluation message, `minimum_overlap` aligned training rows.
    Upper bounds, from which the release manifest follows: `max_common` people named as common in the alignment,
    `max_aligned_train`, `max_aligned_test` and `max_passive_only` people used of each group.
    `size_bucket` fills both sets of the alignment up with dummies to a multiple of it (0: not), to hide their sizes;
    `final_vote` tells how many passive-only people there are all the same.
    Search: `candidates` names of configurations to compare, each with its own encoder, dropout, noise, smoothing and
    learning rate: linear, small, wide, image, or "given", the settings as they stand; `folds` of the aligned training
    rows (0: no search; the settings are used as they stand and nothing is calibrated), `early_stopping` also compares
    fewer steps.
    `linear_views` principal components that the passive party sends for the linear experts (0: none).
    Extras: `final_vote` on all passive-only people, whose views the active party gets for it;
    `baselines` trains the aligned-only network (`baseline_steps` steps), and reports the active party's own one;
    `checkpoint_every` steps between checkpoints.
    """

    encoder: EncoderKind = EncoderKind.LINEAR
    d: int = 32
    unique_active: int = 0
    unique_passive: int = 0
    hidden: int = 64
    channels: int = 16
    image_active: str = ""
    image_passive: str = ""
    normalisation: Normalisation = Normalisation.NONE
    head_hidden: int = 0
    scaling: Scaling = Scaling.AUTO
    cuts: int = 8
    steps: int = 400
    learning_rate: float = 0.01
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 0.001
    dropout: float = 0.0
    input_noise: float = 0.3
    label_smoothing: float = 0.0
    class_balance: bool = False
    temperature: float = 1.0
    fill: bool = True
    live_keys: bool = True
    threshold_joint: float = 0.8
    threshold_active: float = 0.8
    threshold_passive: float = 0.8
    pseudo: bool = True
    pseudo_from: int = 150
    pseudo_ramp: int = 100
    pseudo_weighting: PseudoWeighting = PseudoWeighting.SHARE
    pseudo_passive: bool = False
    l1: float = 0.1
    l2: float = 0.1
    l3: float = 0.1
    l4: float = 0.1
    l5: float = 0.1
    aligned_batch: int = 256
    alone_batch: int = 128
    memory_pool: int = 256
    memory_every: int = 20
    max_aligned_train: int = 256
    max_aligned_test: int = 16384
    max_common: int = 16640
    max_passive_only: int = 16384
    size_bucket: int = 0
    evaluation_batch: int = 1024
    minimum_overlap: int = 10
    candidates: str = "linear,wide,image"
    folds: int = 3
    early_stopping: bool = True
    linear_views: int = 64
    final_vote: bool = True
    baselines: bool = True
    baseline_steps: int = 100
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        check_settings(self, _RANGES, _CHOICES)
        if self.folds == 1:
            raise ConfigError("folds must be 0 (no search) or at least 2, came 1")
        images = [image_size(name, getattr(self, name)) for name in ("image_active", "image_passive")]
        needs_image = self.encoder == EncoderKind.CNN or not self.candidate_names
        if needs_image and images == [None, None]:
            raise ConfigError('encoder cnn needs image_active or image_passive, "HxW"; both are ""')
        if self.minimum_overlap > self.max_aligned_train:
            raise ConfigError(
                f"minimum_overlap {self.minimum_overlap} exceeds max_aligned_train {self.max_aligned_train}"
            )

    def check_effect(self) -> None:
        """ConfigError for a setting that isn't the default, while each candidate replaces it by another value.

        For where a person gives settings; a request that was approved with such a one stays readable.
        """
        overrides = [CANDIDATES[name] for name in self.candidate_names]
        for setting in fields(self):
            value = getattr(self, setting.name)
            others = [override.get(setting.name, value) for override in overrides]
            if value != setting.default and value not in others:
                raise ConfigError(
                    f"{setting.name}={value} has no effect: each of the candidates"
                    f" {', '.join(self.candidate_names)} has its own",
                    remedy=f"candidates={GIVEN!r} takes the settings as they stand, '{GIVEN},linear' compares them with"
                    " another candidate; without a search, folds=0, they stand too",
                )

    @property
    def active_view(self) -> ViewShape:
        """Shape of the active party's view."""
        image = image_size("image_active", self.image_active)
        return ViewShape(self.unique_active or self.d, self.d, image)

    @property
    def passive_view(self) -> ViewShape:
        """Shape of the passive party's view."""
        image = image_size("image_passive", self.image_passive)
        return ViewShape(self.unique_passive or self.d, self.d, image)

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """The vote's thresholds for f^AB, f^A, f^B, in this order."""
        return self.threshold_joint, self.threshold_active, self.threshold_passive

    @property
    def candidate_names(self) -> tuple[str, ...]:
        """Names of the configurations to compare; without folds nothing is, and the settings stand as they are.

        One for images is left out where neither party's columns are an image.
        """
        image = bool(self.image_active or self.image_passive)
        named = tuple(name for name in candidate_names(self.candidates) if fits(name, image))
        return named if self.folds or not named else (GIVEN,)

    def candidate(self, name: str) -> FedCVTConfig:
        """These settings with a candidate's own, as the only candidate that is left."""
        return replace(self, candidates=GIVEN, **CANDIDATES[name])  # type: ignore[arg-type]  # checked as any setting

    @property
    def term_weights(self) -> dict[str, float]:
        """Weight of each representation term of the objective, by its name there; other terms weigh 1."""
        return {
            "diff_common": self.l1,
            "diff_active": self.l2,
            "diff_passive": self.l3,
            "sim_active": self.l4,
            "sim_passive": self.l5,
        }

    def to_parameters(self) -> Parameters:
        """Every setting as (name, scalar), sorted by name: what a request carries."""
        return to_parameters(self)

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, Scalar]]) -> FedCVTConfig:
        """The settings of a request; each one must be there, so that no default changes an approved run."""
        return from_parameters(cls, parameters)


_CHOICES: dict[str, type[StrEnum]] = {
    "encoder": EncoderKind,
    "normalisation": Normalisation,
    "scaling": Scaling,
    "schedule": Schedule,
    "pseudo_weighting": PseudoWeighting,
}
_LARGE = 10_000_000
_RANGES: dict[str, tuple[float, float]] = {
    "d": (1, 4096),
    "unique_active": (0, 4096),
    "unique_passive": (0, 4096),
    "hidden": (1, 65536),
    "channels": (1, 1024),
    "cuts": (0, 64),
    "head_hidden": (0, 65536),
    "steps": (1, _LARGE),
    "learning_rate": (1e-9, 10.0),
    "weight_decay": (0.0, 100.0),
    "dropout": (0.0, 0.95),
    "input_noise": (0.0, 10.0),
    "label_smoothing": (0.0, 0.5),
    "temperature": (0.001, 1e6),
    "threshold_joint": (0.0, 1.0),
    "threshold_active": (0.0, 1.0),
    "threshold_passive": (0.0, 1.0),
    "pseudo_from": (0, _LARGE),
    "pseudo_ramp": (0, _LARGE),
    "l1": (0.0, 1e6),
    "l2": (0.0, 1e6),
    "l3": (0.0, 1e6),
    "l4": (0.0, 1e6),
    "l5": (0.0, 1e6),
    "aligned_batch": (1, _LARGE),
    "alone_batch": (0, _LARGE),
    "memory_pool": (0, _LARGE),
    "memory_every": (1, _LARGE),
    "max_aligned_train": (1, _LARGE),
    "max_aligned_test": (0, _LARGE),
    "max_common": (1, _LARGE),
    "max_passive_only": (0, _LARGE),
    "size_bucket": (0, _LARGE),
    "evaluation_batch": (1, _LARGE),
    "minimum_overlap": (1, _LARGE),
    "folds": (0, 20),
    "linear_views": (0, 4096),
    "baseline_steps": (1, _LARGE),
    "checkpoint_every": (1, _LARGE),
}
