"""The closed choices among a run's settings, and what the settings say of the shape of a view. No torch here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from protocols.errors import ConfigError

_IMAGE_SIZE = re.compile("([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


class EncoderKind(StrEnum):
    """Shape of the four encoders; CNN is an MLP at a party whose columns aren't an image."""

    LINEAR = "linear"
    MLP = "mlp"
    CNN = "cnn"


class Normalisation(StrEnum):
    """What follows each hidden layer of the encoders: nothing, batch or layer normalisation."""

    NONE = "none"
    BATCH = "batch"
    LAYER = "layer"


class Scaling(StrEnum):
    """How numbers are scaled before an encoder reads them; `vertical.numeric_rule` says what each does."""

    AUTO = "auto"
    STANDARD = "standard"
    ROBUST = "robust"
    QUANTILE = "quantile"


class PseudoWeighting(StrEnum):
    """How accepted pseudo labels enter the loss of the joint head.

    SHARE: their mean loss times the accepted share of the candidates (ours).
    UNION: they join the truly labelled rows in one mean, as in the paper.
    """

    SHARE = "share"
    UNION = "union"


class Schedule(StrEnum):
    """Learning rate over the steps."""

    CONSTANT = "constant"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True)
class ViewShape:
    """Widths of one party's view: of its unique representation and of its common one.

    image: height and width of the image that its columns are, row by row; None if they are none.
    """

    unique: int
    common: int
    image: tuple[int, int] | None = None

    @property
    def width(self) -> int:
        """Width of `[unique ; common]`."""
        return self.unique + self.common


def image_size(name: str, size: str) -> tuple[int, int] | None:
    """Height and width from "HxW", None from ""."""
    if size == "":
        return None
    found = _IMAGE_SIZE.fullmatch(size)
    if found is None:
        raise ConfigError(f'{name} must be "HxW" with height and width from 1 to 9999, or "", came {size!r}')
    return int(found[1]), int(found[2])
