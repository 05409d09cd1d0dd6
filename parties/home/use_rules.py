"""Rules of a policy about use: who may ask, for what, which columns and settings, and who may receive messages.

An empty list of purposes, analysts or recipients binds nobody: then each request is for people to judge, and the review
says so. Columns and settings are held against the request's own entries, from which the worker opens its block and
makes its program: so it is the use that is judged, not a claim about it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from parties.home.private_files import TomlValue, toml_key
from protocols.errors import ConfigError
from protocols.records import Scalar, check_text
from protocols.request import ComputationRequest, party

LISTS = ("purposes", "analysts", "may_receive")
TABLES = ("never_used", "allowed", "require")
Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns of one block; for the purpose named, or for any if it is ""."""

    block: str
    columns: tuple[str, ...]
    purpose: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a setting of one computation must be: exactly a value, or a number within one bound or two."""

    computation: str
    setting: str
    exact: Scalar | None = None
    least: Number | None = None
    most: Number | None = None

    def __str__(self) -> str:
        """The rule in words, without the computation's name."""
        if self.exact is not None:
            return f"{self.setting} must be {self.exact}"
        bounds = [
            f"{word} {bound}"
            for word, bound in (("at least", self.least), ("at most", self.most))
            if bound is not None
        ]
        return f"{self.setting} must be {' and '.join(bounds)}"

    def met(self, parameters: Mapping[str, Scalar]) -> bool:
        """Whether the setting is there and as required."""
        value = parameters.get(self.setting)
        if self.exact is not None:
            same_kind = isinstance(value, bool) is isinstance(self.exact, bool)
            return same_kind and value == self.exact
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRules:
    """Agreed purposes, analysts who may ask, parties that may get messages of ours, columns and required settings.

    `never_used` are columns that no request may use; `allowed` are the only columns of a block that a purpose may use.
    """

    purposes: tuple[str, ...] = ()
    analysts: tuple[str, ...] = ()
    may_receive: tuple[str, ...] = ()
    never_used: tuple[Columns, ...] = ()
    allowed: tuple[Columns, ...] = ()
    require: tuple[Requirement, ...] = ()


def forbidden(rules: UseRules, request: ComputationRequest, own_role: str) -> tuple[str, ...]:
    """What in the request the rules of the party in this role forbid, one text each; empty when nothing is."""
    found = []
    if rules.purposes and request.purpose not in rules.purposes:
        found.append(
            f"purpose {request.purpose!r} is not one that we agreed to ({', '.join(rules.purposes)})"
        )
    if rules.analysts and request.analyst.name not in rules.analysts:
        found.append(f"analyst {request.analyst.name} is not one who may ask us")
    for line in request.manifest:
        receiver = party(request, line.receiver).name
        if line.sender == own_role and rules.may_receive and receiver not in rules.may_receive:
            found.append(f"{receiver} would get messages of ours and is not one who may")
    found += _columns(rules, request, own_role)
    parameters = dict(request.parameters)
    found += [
        str(rule)
        for rule in rules.require
        if rule.computation == request.computation and not rule.met(parameters)
    ]
    return tuple(dict.fromkeys(found))


def _columns(rules: UseRules, request: ComputationRequest, own_role: str) -> list[str]:
    found = []
    for entry in request.blocks:
        if entry.role != own_role:
            continue
        features = [*entry.columns, *([entry.label] if entry.label else [])]
        used = {*features, entry.subject_key, *entry.subject_key.split(",")}
        for rule in rules.never_used:
            if rule.block == entry.block:
                found += [
                    f"column {name} of {entry.block} is never used" for name in rule.columns if name in used
                ]
        for rule in rules.allowed:
            if (rule.block, rule.purpose) == (entry.block, request.purpose):
                found += [
                    f"column {name} of {entry.block} is not one for the purpose {rule.purpose}"
                    for name in features
                    if name not in rule.columns
                ]
    return found


def read_use_rules(table: dict[str, object], where: str) -> UseRules:
    """The rules about use, taken out of a policy's table; ConfigError naming file and rule for any that is wrong."""
    lists = {name: _texts(table.pop(name, []), f"{where}: {name}") for name in LISTS}
    never, allowed, require = (_tables(table.pop(name, {}), f"{where}: {name}") for name in TABLES)
    return UseRules(
        **lists,
        never_used=_blocks(never, f"{where}: never_used"),
        allowed=tuple(
            rule
            for purpose, blocks in allowed.items()
            for rule in _blocks(
                _tables(blocks, f"{where}: allowed.{purpose}"), f"{where}: allowed.{purpose}", purpose
            )
        ),
        require=tuple(
            _requirement(computation, setting, value, where)
            for computation, settings in require.items()
            for setting, value in _tables(settings, f"{where}: require.{computation}").items()
        ),
    )


def use_tables(rules: UseRules) -> dict[str, dict[str, TomlValue]]:
    """The rules as tables of TOML, by their headings; "" has the lists."""
    tables: dict[str, dict[str, TomlValue]] = {"": {name: list(getattr(rules, name)) for name in LISTS}}
    for rule in rules.never_used:
        tables.setdefault("never_used", {})[rule.block] = list(rule.columns)
    for rule in rules.allowed:
        tables.setdefault(f"allowed.{toml_key(rule.purpose)}", {})[rule.block] = list(rule.columns)
    for each in rules.require:
        bounds = {
            name: bound for name, bound in (("least", each.least), ("most", each.most)) if bound is not None
        }
        value = bounds if each.exact is None else each.exact
        tables.setdefault(f"require.{toml_key(each.computation)}", {})[each.setting] = value
    return tables


def check_required(rules: Iterable[Requirement], where: str) -> None:
    """ConfigError for a setting that its computation doesn't have, with the one that is meant most likely.

    Such a rule would refuse every request, since none has that setting. A computation that isn't in the catalog is
    another matter: its rules never apply, and `policy check` says so.
    """
    # here, since every command reads a policy and few policies have such a rule
    from parties.catalog import CATALOG

    for rule in rules:
        computation = CATALOG.get(rule.computation)
        known = computation.setting_names() if computation else ()
        if computation and rule.setting not in known:
            near = get_close_matches(rule.setting, known, n=1)
            raise ConfigError(
                f"{where}: require.{rule.computation} has no setting {rule.setting!r}"
                + (f"; is {near[0]} meant?" if near else ""),
                remedy=f"correct policy.toml; there are: {', '.join(sorted(known))}",
            )


def _requirement(computation: str, setting: str, value: object, where: str) -> Requirement:
    place = f"{where}: require.{computation}.{setting}"
    if isinstance(value, Mapping):
        bounds = {name: _number(bound, place) for name, bound in value.items() if name in ("least", "most")}
        if not bounds or len(bounds) < len(value):
            raise ConfigError(f"{place} takes least and most only", remedy="{ least = 0.1 } or a value")
        return Requirement(computation=computation, setting=setting, **bounds)
    if isinstance(value, bool | str):
        return Requirement(computation=computation, setting=setting, exact=value)
    return Requirement(computation=computation, setting=setting, exact=_number(value, place))


def _number(value: object, where: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{where} must be a number, a text or true or false", remedy="correct policy.toml")
    return value


def _blocks(table: Mapping[str, object], where: str, purpose: str = "") -> tuple[Columns, ...]:
    return tuple(
        Columns(block=block, columns=_texts(columns, f"{where}.{block}"), purpose=purpose)
        for block, columns in table.items()
    )


def _tables(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a table", remedy="correct policy.toml")
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"{where} must be a list of texts", remedy="correct policy.toml")
    for text in value:
        check_text(text, where, ConfigError)
    if len(set(value)) < len(value):
        raise ConfigError(f"{where} names something twice", remedy="correct policy.toml")
    return tuple(value)
