"""Settings of the computations that use a trained model: fill, vote and predict. No torch here.

Each repeats what of the model decides the size of a message, so that the manifest follows from the request alone; a
party refuses a request that doesn't fit its part of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from protocols.errors import ConfigError
from protocols.settings import check_settings
from vertical.config import FedCVTConfig


class People(StrEnum):
    """Which rows of the blocks take part: those of one split, or all."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"


class Receiver(StrEnum):
    """Who gets the predictions."""

    ACTIVE = "active"
    PASSIVE = "passive"


@dataclass(frozen=True, slots=True, kw_only=True)
class UseConfig:
    """What every use of a trained model says; validated, the bad value stands in the ConfigError.

    `model`: digest of the request that the model was trained for. `split`: which rows of both blocks take part.
    The model's own: `d` width of the common representation, `unique_passive` of the passive party's unique one
    (0: `d`), `classes` number of classes.
    Upper bounds: `max_common` people named as common in the alignment, `max_passive_only` others of the passive party;
    `evaluation_batch` rows per message; `size_bucket` as in the training.
    """

    model: str = ""
    split: People = People.ALL
    d: int = 16
    unique_passive: int = 0
    classes: int = 2
    max_common: int = 16640
    max_passive_only: int = 16384
    size_bucket: int = 0
    evaluation_batch: int = 1024

    def __post_init__(self) -> None:
        names = {field.name for field in fields(self)}
        check_settings(
            self,
            {name: bounds for name, bounds in _RANGES.items() if name in names},
            {name: kind for name, kind in _CHOICES.items() if name in names},
        )
        if not re.fullmatch("[0-9a-f]{64}", self.model):
            raise ConfigError(
                "model: expected the digest of a training request, 64 hex digits",
                remedy="fedaccord model list shows the models of a party, request status the requests of an analyst",
            )

    @property
    def view_width(self) -> int:
        """Width of a row of the passive party's view."""
        return self.d + (self.unique_passive or self.d)

    @property
    def width(self) -> int:
        """Width of what the passive party shows of a person."""
        return self.view_width


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteConfig(UseConfig):
    """Settings of a vote: further the thresholds of f^AB, f^A and f^B, and whether the active party's own people
    without a label are voted on too (`unlabelled`; the passive party then shows all common people)."""

    unlabelled: bool = False
    threshold_joint: float = 0.8
    threshold_active: float = 0.7
    threshold_passive: float = 0.7

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """The thresholds for f^AB, f^A, f^B, in this order."""
        return self.threshold_joint, self.threshold_active, self.threshold_passive


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictConfig(UseConfig):
    """Settings of a prediction.

    Further `receiver`, the party that gets the probabilities of its own people; `only_common` leaves out those of whom
    the other party knows nothing; `class_names`, a JSON list in the order of the model's classes, or "". The model's
    own: `linear_views` principal components that the passive party shows besides its view.
    """

    receiver: Receiver = Receiver.ACTIVE
    only_common: bool = False
    class_names: str = ""
    linear_views: int = 64

    def __post_init__(self) -> None:
        super(PredictConfig, self).__post_init__()
        if self.class_names and len(_names(self.class_names)) != self.classes:
            raise ConfigError(f"class_names: expected {self.classes} names")

    @property
    def width(self) -> int:
        """Width of what the passive party shows of a person."""
        return self.view_width + self.linear_views

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes; "class 0" and so on where the request doesn't say."""
        if self.class_names:
            return _names(self.class_names)
        return tuple(f"class {code}" for code in range(self.classes))

    @property
    def most_shown(self) -> int:
        """How many people the passive party shows at most."""
        return self.max_common + (0 if self.only_common else self.max_passive_only)


def _names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError("class_names: expected a JSON list of texts")
    return tuple(names)


def inherited(trained: FedCVTConfig, classes: Sequence[str]) -> Mapping[str, int | float | str]:
    """What follows from the model: its widths and thresholds, its classes (nothing for (): not known), and the bounds
    that its training had."""
    names = json.dumps(classes, ensure_ascii=False)
    known: dict[str, int | str] = {
        "classes": len(classes),
        "class_names": names if len(names) <= _LONGEST_NAMES else "",
    }
    return {
        **(known if classes else {}),
        "d": trained.d,
        "unique_passive": trained.unique_passive,
        "linear_views": trained.linear_views,
        "max_common": trained.max_common,
        "max_passive_only": trained.max_passive_only,
        "size_bucket": trained.size_bucket,
        "evaluation_batch": trained.evaluation_batch,
        **dict(zip(_THRESHOLDS, trained.thresholds, strict=True)),
    }


_CHOICES: dict[str, type[StrEnum]] = {"split": People, "receiver": Receiver}
_THRESHOLDS = ("threshold_joint", "threshold_active", "threshold_passive")
_LONGEST_NAMES = 2000  # a request's text isn't longer
_LARGE = 10_000_000
_RANGES: dict[str, tuple[float, float]] = {
    "d": (1, 4096),
    "unique_passive": (0, 4096),
    "linear_views": (0, 4096),
    "classes": (2, 65536),
    "max_common": (1, _LARGE),
    "max_passive_only": (0, _LARGE),
    "size_bucket": (0, _LARGE),
    "evaluation_batch": (1, _LARGE),
    **dict.fromkeys(_THRESHOLDS, (0.0, 1.0)),
}
