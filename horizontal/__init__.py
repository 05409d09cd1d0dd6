"""Horizontal federated learning: clients that hold the same features of different people.

Public names load on first use, so that `import horizontal` costs no torch.

Methods, each as its paper has it:
fedavg fedprox scaffold fedbss fedoui fedalign fednova flash robust_loss robust_means

What they share:
local           the one local training loop, for any torch model and optimizer
average         contributions of clients, the checks that each has to pass, weighted means
drift           how far and in which direction a client moved the model
rounds, client  the two programs of a run, whatever the method; peers: clients that fail
choices         the parts of a method and what doesn't combine; compatibility prints the table
config          the settings of a run; methods: the settings of each method by name
rules, work     a configured method at the aggregator and at a client; programs: both as programs
simulation      any combination on any number of clients in one thread; together: many trainings as one
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "ClientData": "client_data",
    "ClientWork": "work",
    "Contribution": "average",
    "NoExamplesError": "average",
    "UpdateError": "average",
    "Examples": "local",
    "Training": "local",
    "train": "local",
    "Broadcast": "messages",
    "Update": "messages",
    "HorizontalConfig": "config",
    "METHODS": "methods",
    "method": "methods",
    "metrics": "evaluation",
    "Research": "simulation",
    "RoundError": "rounds",
    "Simulation": "simulation",
    "aggregator_program": "programs",
    "client_program": "programs",
    "simulate": "simulation",
    "table": "compatibility",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """The public `name`, imported from its module at first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'horizontal' has no public name {name!r}")
    return getattr(import_module(f"horizontal.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
