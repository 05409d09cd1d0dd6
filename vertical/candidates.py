"""The configurations that a run may choose among, by name: a fixed table of overrides of its settings.

A candidate changes how the models learn, never what is sent: widths, batches, numbers of steps and everything else
that decides a message's size or number is the same for all, so the manifest doesn't depend on the choice.
"image" is left out where neither party's columns are an image.
No torch here: a request is made and reviewed without it. docs/fedcvt-defaults.md says where the values come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.errors import ConfigError

Override = str | int | float | bool

GIVEN = "given"
"""The name of the settings as they stand."""
AT_MOST = 4
"""Candidates of one run: each costs a training per fold."""

CANDIDATES: Mapping[str, Mapping[str, Override]] = {
    GIVEN: {},
    "linear": {
        "encoder": "linear",
        "dropout": 0.0,
        "input_noise": 0.3,
        "label_smoothing": 0.0,
        "learning_rate": 0.01,
    },
    "small": {
        "encoder": "mlp",
        "hidden": 32,
        "dropout": 0.3,
        "input_noise": 0.4,
        "label_smoothing": 0.0,
        "learning_rate": 0.01,
    },
    "wide": {
        "encoder": "mlp",
        "hidden": 128,
        "dropout": 0.2,
        "input_noise": 0.4,
        "label_smoothing": 0.05,
        "learning_rate": 0.004,
    },
    "image": {
        "encoder": "cnn",
        "channels": 8,
        "dropout": 0.2,
        "input_noise": 0.4,
        "label_smoothing": 0.05,
        "learning_rate": 0.004,
    },
}


def candidate_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list; ConfigError for none, an unknown one, one named twice or too many."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in CANDIDATES:
            raise ConfigError(
                f"candidates: unknown {name[:40]!r}", remedy=f"there are: {', '.join(CANDIDATES)}"
            )
    if len(set(names)) != len(names):
        raise ConfigError(f"candidates: one is named twice in {text[:80]!r}")
    if len(names) > AT_MOST:
        raise ConfigError(f"candidates: at most {AT_MOST} can be compared, came {len(names)}")
    return names


def fits(name: str, image: bool) -> bool:
    """Whether a candidate can be trained: one for images only where a party's columns are an `image`."""
    return image or CANDIDATES[name].get("encoder") != "cnn"
