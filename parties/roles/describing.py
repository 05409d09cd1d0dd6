"""Counts, means and quantiles of one party's columns for an analyst: asked for, waited for, run, and told."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parties.catalog import description
from parties.home.state import State
from parties.roles.aligning import ask_and_run, named_block
from parties.roles.plan import Plan
from parties.roles.reports import report_of
from parties.roles.requesting import Tell

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be described: a block as PARTY/BLOCK, its columns (none: all), whose rows, and the limits."""

    block: str
    columns: tuple[str, ...]
    people: str
    quantiles: int
    purpose: str
    purpose_text: str
    minimum_group: int
    days: int

    def plan(self) -> Plan:
        """The plan of the request; ConfigError for a block that isn't PARTY/BLOCK."""
        computation, parameters = description.asked_for(people=self.people, quantiles=self.quantiles)
        return Plan(
            purpose=self.purpose,
            purpose_text=self.purpose_text,
            computation=computation,
            parties=(replace(named_block(self.block, description.ROLE), columns=self.columns),),
            parameters=parameters,
            minimum_group=self.minimum_group,
            days=self.days,
        )


def describe(
    state: State, wish: Wish, *, key: "Ed25519PrivateKey", rehearsed: bool, wait: float, tell: Tell
) -> tuple[dict[str, object], str]:
    """Asks the party, waits up to `wait` seconds for its approval, runs the description and tells what it released.

    Raises NotApprovedError when it hasn't approved by then or denied, StateError when the run didn't end well.
    """
    digest, results = ask_and_run(
        state, wish.plan(), "description", key=key, rehearsed=rehearsed, wait=wait, tell=tell
    )
    document: dict[str, object] = {"digest": digest, "results": results}
    return document, "\n".join(line for each in results.values() for line in _lines(each))


def _lines(result: object) -> list[str]:
    """One line for each column; a number that isn't told says why."""
    report = report_of(result)
    if report is None:
        return ["no report"]
    lines = [f"people {_said(report.get('people'))}"]
    for name, group in report.items():
        if name != "people":
            lines.append(f"{str(name).removeprefix(description.COLUMN)}: {_said(group)}")
    return lines


def _said(value: object) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    if "suppressed" in value:
        return f"suppressed ({value.get('reason')})"
    return "; ".join(f"{name} {_said(each)}" for name, each in value.items())
