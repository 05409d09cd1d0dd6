"""What a run on tables learns, as parameters of a request: features by public rules, classes, and a network for them.

All clients and the aggregator make the same network of it, so that nobody needs anybody's code or columns to know the
layout of what travels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from horizontal.config import HorizontalConfig, Scalar
from horizontal.methods import method
from horizontal.public_rules import Rule, parse_rules, rules_text
from protocols.errors import ConfigError
from protocols.seeds import PrivateSeed, derive

OWN = ("classes", "features", "hidden")
"""The parameters that aren't of HorizontalConfig."""
METHOD = "method"
"""In what is asked for, though not in a request, the name of a method whose settings are meant."""
_LONGEST = 2000  # characters of a parameter of a request


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTask:
    """Features by `rules`, labels among `classes` (all there are at any client), layers of `hidden` units (none: a
    linear model). ConfigError naming what is wrong."""

    rules: tuple[Rule, ...]
    classes: tuple[str, ...]
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            raise ConfigError("classes: expected two or more, each listed once")
        if len(self.hidden) > 4 or not all(1 <= units <= 4096 for units in self.hidden):
            raise ConfigError("hidden: expected at most 4 layers of 1 to 4096 units")

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(rule.width for rule in self.rules)

    def network(self, private_seed: PrivateSeed) -> nn.Sequential:
        """The network with initial weights by this seed: the aggregator's are what clients start from."""
        sizes = (self.width, *self.hidden, len(self.classes))
        layers: list[nn.Module] = []
        generator = torch.Generator().manual_seed(derive(private_seed, "initial weights"))
        for inputs, outputs in pairwise(sizes):
            layers += [_linear(inputs, outputs, generator), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def to_parameters(self) -> dict[str, Scalar]:
        """The parameters of a request; ConfigError for one that is too long for it."""
        found: dict[str, Scalar] = {
            "classes": json.dumps(self.classes, separators=(",", ":"), ensure_ascii=False),
            "features": rules_text(self.rules),
            "hidden": ",".join(map(str, self.hidden)),
        }
        for name, text in found.items():
            if len(str(text)) > _LONGEST:
                raise ConfigError(
                    f"{name}: {len(str(text))} characters, a request holds {_LONGEST}",
                    remedy="use fewer columns or levels",
                )
        return found


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """torch's own initial weights, but from this generator: others may draw from the shared one at the same time."""
    layer: nn.Linear = torch.nn.utils.skip_init(nn.Linear, inputs, outputs)  # type: ignore[no-untyped-call]
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    nn.init.uniform_(layer.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=generator)
    return layer


def setting_names() -> tuple[str, ...]:
    """The names of all parameters of a run."""
    return (*OWN, *(name for name, _ in HorizontalConfig().to_parameters()))


def complete(given: Mapping[str, object]) -> tuple[tuple[str, Scalar], ...]:
    """Every parameter of a run from what is asked for, sorted by name.

    `method` stands for that method's settings, which others go before. `features`, `classes` and `hidden` may be tables
    and lists as TOML has them. Raises ConfigError.
    """
    settings = {name: value for name, value in given.items() if name not in (*OWN, METHOD)}
    known = (METHOD, *setting_names())
    if unknown := sorted(settings.keys() - set(known)):
        raise ConfigError(
            f"unknown parameters: {', '.join(unknown)}", remedy=f"there are: {', '.join(known)}"
        )
    config = method(str(given.get(METHOD, "fedavg")), **settings)  # type: ignore[arg-type]  # each is checked there
    task = read_task(given)
    return tuple(sorted({**dict(config.to_parameters()), **task.to_parameters()}.items()))


def read_task(given: Mapping[str, object]) -> TableTask:
    """The task of `features`, `classes` and `hidden`, as a request has them or as TOML does. Raises ConfigError."""
    return TableTask(
        rules=parse_rules(_rules_asked(given.get("features"))),
        classes=tuple(_texts("classes", given.get("classes"))),
        hidden=tuple(_units(given.get("hidden", ""))),
    )


def from_parameters(parameters: Sequence[tuple[str, Scalar]]) -> tuple[TableTask, HorizontalConfig]:
    """What a request's parameters mean; each must be there once."""
    own = {name: value for name, value in parameters if name in OWN}
    if missing := sorted(set(OWN) - own.keys()):
        raise ConfigError(f"missing parameters: {', '.join(missing)}")
    return read_task(own), HorizontalConfig.from_parameters(p for p in parameters if p[0] not in OWN)


def _rules_asked(value: object) -> str:
    """The text of the rules, also from a table: `age = [20, 80]`, `sex = ["f", "m"]`."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else json.dumps(value)
    entries = []
    for name, rule in value.items():
        listed = rule if isinstance(rule, list) else [rule]
        entries.append([name, listed] if all(isinstance(each, str) for each in listed) else [name, *listed])
    return json.dumps(entries)


def _texts(name: str, value: object) -> list[str]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise ConfigError(f"{name}: expected a list of texts", remedy='such as ["no", "yes"]')
    return list(found)


def _units(value: object) -> list[int]:
    listed = value if isinstance(value, list) else [part for part in str(value).split(",") if part.strip()]
    if not all(str(part).strip().isdecimal() for part in listed):
        raise ConfigError(f"hidden: expected numbers of units such as 32 or 64,32, came {value!r:.80}")
    return [int(str(part)) for part in listed]
