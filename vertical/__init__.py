"""Vertical federated learning: FedCVT for two parties that share few people.

Public names load on first use, so that `import vertical` costs no torch.
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "CategoricalColumn": "table",
    "DateColumn": "table",
    "NumericColumn": "table",
    "PartyData": "table",
    "Split": "table",
    "Table": "table",
    "Preprocessor": "preprocess",
    "FedCVT": "estimator",
    "FedCVTConfig": "config",
    "EncoderKind": "choices",
    "Normalisation": "choices",
    "Scaling": "choices",
    "PseudoWeighting": "choices",
    "Schedule": "choices",
    "attend": "attention",
    "attention_weights": "attention",
    "Representation": "encoders",
    "ViewEncoder": "encoders",
    "view_encoder": "encoders",
    "Heads": "heads",
    "vote": "vote",
    "Memory": "views",
    "fill_active": "views",
    "fill_passive": "views",
    "Objective": "fedcvt",
    "StepLabels": "fedcvt",
    "StepViews": "fedcvt",
    "objective": "fedcvt",
    "Evaluation": "metrics",
    "evaluate": "metrics",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """The public `name`, imported from its module at first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'vertical' has no public name {name!r}")
    return getattr(import_module(f"vertical.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
