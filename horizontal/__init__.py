"""Horizontal federated learning: clients that hold the same features of different people.

Public names load on first use, so that `import horizontal` costs no torch.

local      the one local training loop, for any torch model and optimizer
weights    models as named arrays
average    means of the clients' weights, and the checks that each contribution has to pass
messages   what aggregator and clients send each other
rounds     the two programs of a run, whatever the algorithm
fedavg     federated averaging: settings and wiring
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "Contribution": "average",
    "NoExamplesError": "average",
    "UpdateError": "average",
    "size_weighted_mean": "average",
    "uniform_mean": "average",
    "Examples": "local",
    "Training": "local",
    "plan": "local",
    "train": "local",
    "Broadcast": "messages",
    "Update": "messages",
    "RoundError": "rounds",
    "FedAvgConfig": "fedavg",
    "Simulation": "fedavg",
    "Weighting": "fedavg",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """The public `name`, imported from its module at first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'horizontal' has no public name {name!r}")
    return getattr(import_module(f"horizontal.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
