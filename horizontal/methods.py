"""The methods by name, each as the settings that make it. To add one: its file, a line here, its test."""

from __future__ import annotations

from collections.abc import Mapping

from horizontal.config import HorizontalConfig, Scalar
from protocols.errors import ConfigError

METHODS: Mapping[str, Mapping[str, Scalar]] = {
    "fedavg": {},
    "fedprox": {"mu": 0.01},
    "scaffold": {"adjustment": "scaffold", "aggregation": "mean"},
    "fedbss": {"admission": "fedbss"},
    "fedoui": {"aggregation": "fedoui"},
    "fedalign": {"aggregation": "fedalign"},
    "fedoui_fedalign": {"aggregation": "fedoui_fedalign"},
    "fednova": {"aggregation": "fednova"},
    "flash": {"selection": "flash", "objective": "robust"},
    "median": {"aggregation": "median"},
    "trimmed": {"aggregation": "trimmed"},
    "clipped": {"aggregation": "clipped"},
    "fedbss_linear": {"admission": "fedbss", "gate": "linear"},
    "fedbss_cold": {"admission": "fedbss", "warmup_share": 0.0},
    "fedbss_late": {"admission": "fedbss", "warmup_share": 0.5},
}


def method(name: str, **settings: Scalar) -> HorizontalConfig:
    """The settings of a method by name, and these besides, which go before its own. ConfigError for another name."""
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}", remedy=f"one of: {', '.join(METHODS)}")
    return HorizontalConfig(**{**METHODS[name], **settings})  # type: ignore[arg-type]  # its __post_init__ checks
