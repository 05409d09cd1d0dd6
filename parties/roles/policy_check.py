"""Names in a policy that mean nothing here: a rule about a misspelt column never applies, and nobody would notice."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from parties import catalog
from parties.blocks.store import Store
from parties.home.policy import Policy, policy_text, read_policy
from parties.home.state import State


def check_policy(state: State) -> tuple[dict[str, object], str]:
    """The policy in force with its version, and what in it names nothing that there is, as a document and as text.

    ConfigError naming the rule when policy.toml can't be read as one.
    """
    policy = read_policy(state.folder)
    warnings = warnings_of(state, policy)
    document: dict[str, object] = {
        "party": state.name,
        "version": policy.version,
        "warnings": list(warnings),
        "policy": policy_text(policy),
    }
    lines = [f"WARNING: {text}" for text in warnings] or ["every name in it is known here"]
    return document, "\n".join(
        [f"policy of {state.name}, version {policy.version}", *lines, "", policy_text(policy)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that a policy can speak of: each block's columns, the cards' names by kind, the computations."""

    columns: Mapping[str, tuple[str, ...]]
    parties: tuple[str, ...]
    analysts: tuple[str, ...]
    computations: tuple[str, ...]


def warnings_of(state: State, policy: Policy) -> tuple[str, ...]:
    """One text for each name in the policy that none of our blocks, cards or computations has."""
    cards = state.address_book().cards()
    known = Known(
        columns={schema.block: schema.all_names for schema in Store(state.blocks).list()},
        parties=tuple(card.name for card in cards if card.kind == "party"),
        analysts=tuple(card.name for card in cards if card.kind == "analyst"),
        computations=tuple(catalog.CATALOG),
    )
    return unknown_names(policy, known)


def unknown_names(policy: Policy, known: Known) -> tuple[str, ...]:
    """One text for each name in the policy that isn't known."""
    uses = policy.uses
    return (
        *_columns(policy, known.columns),
        *_unknown("analysts", uses.analysts, known.analysts),
        *_unknown("may_receive", uses.may_receive, known.parties),
        *_unknown("agreements", [rule.peer for rule in policy.agreements], known.parties),
        *_unknown("require", [rule.computation for rule in uses.require], known.computations),
    )


def _columns(policy: Policy, columns: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The blocks and columns of `never_used` and `allowed`, and the purposes of the latter."""
    for title, rules in (("never_used", policy.uses.never_used), ("allowed", policy.uses.allowed)):
        yield from _unknown(title, [rule.block for rule in rules], columns)
        for rule in rules:
            if rule.block in columns:
                yield from _unknown(f"{title}: {rule.block}", rule.columns, columns[rule.block])
    if policy.uses.purposes:
        yield from _unknown("allowed", [rule.purpose for rule in policy.uses.allowed], policy.uses.purposes)


def _unknown(where: str, names: Collection[str], known: Collection[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if name not in known:
            yield f"{where} names {name!r}; there is {', '.join(sorted(known)) or 'nothing of that kind yet'}"
