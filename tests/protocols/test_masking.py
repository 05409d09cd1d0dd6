"""Masks: they cancel in the sum of a whole group and in nothing smaller; keys and attempts that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import ApprovalError, ProtocolError
from protocols.masking import (
    Attempt,
    MaskKey,
    Masks,
    Words,
    _signed,
    check_key,
    identities,
    own_mask,
    unmasked_sum,
)

ROLES = ("client-1", "client-2", "client-3", "client-10")
KNOWN = identities(ROLES, "run")


def counter(start: int) -> Callable[[int], bytes]:
    """Bytes that can be had again, other ones at each call."""
    calls = iter(range(start, start + 1000))
    return lambda n: next(calls).to_bytes(4, "big") * (n // 4)


def sides(number: int = 1, least: int = 3) -> dict[str, Masks]:
    return {
        role: Masks(KNOWN[role], number, least=least, draw=counter(1000 * at))
        for at, role in enumerate(ROLES, 1)
    }


def keys_of(made: dict[str, Masks], roles: tuple[str, ...] = ROLES) -> tuple[MaskKey, ...]:
    return tuple(made[role].key for role in roles)


def attempt_of(keys: tuple[MaskKey, ...], attempt: int = 1) -> Attempt:
    return Attempt(context="run", number=1, attempt=attempt, keys=keys)


def words(seed: int, count: int = 5) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3), min_size=4, max_size=4))
def test_the_sum_is_exact_modulo_2_to_the_64(values: list[list[int]]) -> None:
    made = sides()
    keys = keys_of(made)
    terms = dict(zip(ROLES, (np.array(row, np.uint64) for row in values), strict=True))
    hidden = {role: made[role].hide(terms[role], 1, keys) for role in ROLES}
    seeds = {role: made[role].tell_seed(1) for role in ROLES}
    found = unmasked_sum(attempt_of(keys), hidden, seeds)
    assert found.tolist() == [sum(column) % 2**64 for column in zip(*values, strict=True)]


def test_no_sum_of_fewer_clients_unmasks_anything() -> None:
    """Every strict subset, with all seeds: what is left is never the sum of its terms, in any word."""
    made = sides()
    keys = keys_of(made)
    terms = {role: words(at) for at, role in enumerate(ROLES)}
    hidden = {role: made[role].hide(terms[role], 1, keys) for role in ROLES}
    seeds = {role: made[role].tell_seed(1) for role in ROLES}
    subsets = chain.from_iterable(combinations(ROLES, size) for size in range(1, len(ROLES)))
    for subset in subsets:
        left = np.zeros(5, np.uint64)
        for role in subset:
            mine = own_mask(seeds[role], attempt_of(keys), role, 5)
            left = left + hidden[role] - mine - terms[role]
        assert (left != 0).all(), subset


def test_what_one_client_sends_is_uniform_and_independent_of_what_it_hides() -> None:
    """With equal masks two updates differ by the updates alone, so that all is said by the masks, which are uniform:
    of every bit of 20,000 words of zeros about half are 1, and the top bytes fit the uniform distribution.
    """
    count = 20_000
    sent = []
    for hides in (np.zeros(count, np.uint64), np.full(count, 3 << 40, np.uint64)):
        made = sides()
        sent.append(made["client-1"].hide(hides, 1, keys_of(made)))
    assert (sent[1] - sent[0] == np.uint64(3 << 40)).all()
    for hidden in sent:
        bits = np.unpackbits(hidden.view(np.uint8)).reshape(count, 64).mean(axis=0)
        assert (abs(bits - 0.5) < 6 * 0.5 / np.sqrt(count)).all()
        observed = np.bincount(hidden.view(np.uint8)[7::8], minlength=256)
        chi = float(((observed - count / 256) ** 2 / (count / 256)).sum())
        assert chi < 255 + 6 * np.sqrt(2 * 255)
    constant = np.corrcoef(sent[0].astype(np.float64), np.arange(count))[0, 1]
    assert abs(constant) < 6 / np.sqrt(count)


def test_the_masks_of_rounds_attempts_and_groups_have_nothing_in_common() -> None:
    zeros = np.zeros(50, np.uint64)
    seen: list[int] = []
    for number in (1, 2):
        made = sides(number)
        mine = made["client-2"]
        seen += mine.hide(zeros, 1, keys_of(made)).tolist()
        seen += mine.hide(zeros, 2, keys_of(made, ROLES[:3])).tolist()
    assert len(set(seen)) == len(seen)


def test_a_lost_clients_words_stay_hidden_when_they_come_late() -> None:
    """The round is tried again without client-10, and then both of its attempts are all that the aggregator has."""
    made = sides()
    keys, fewer = keys_of(made), keys_of(made, ROLES[:3])
    terms = {role: words(at) for at, role in enumerate(ROLES)}
    first = {role: made[role].hide(terms[role], 1, keys) for role in ROLES}
    again = {role: made[role].hide(terms[role], 2, fewer) for role in ROLES[:3]}
    seeds = {role: made[role].tell_seed(2) for role in ROLES[:3]}
    known = unmasked_sum(attempt_of(fewer, 2), again, seeds)
    everybody = sum(first.values(), np.zeros(5, np.uint64))  # pair masks cancel, the untold own ones don't
    everybody = everybody - own_mask(made["client-10"].tell_seed(1), attempt_of(keys), "client-10", 5)
    assert (everybody - known != terms["client-10"]).all()
    for role in ROLES[:3]:
        with pytest.raises(ProtocolError, match="may not be told"):
            made[role].tell_seed(1)


def swapped(keys: tuple[MaskKey, ...], role: str, **changes: str) -> tuple[MaskKey, ...]:
    return tuple(replace(key, **changes) if key.role == role else key for key in keys)


STRANGER = identities(("client-2", "client-9"), "run")
LAST_ROUND = Masks(KNOWN["client-2"], 7, least=3).key
OTHER_RUN = Masks(replace(KNOWN["client-2"], context="another run"), 1, least=3).key
REFUSED: dict[str, Callable[[tuple[MaskKey, ...]], tuple[MaskKey, ...]]] = {
    "put in its place": lambda keys: swapped(
        keys, "client-2", public=Masks(STRANGER["client-2"], 1, least=3).key.public
    ),
    "signed by another": lambda keys: (keys[0], Masks(STRANGER["client-2"], 1, least=3).key, *keys[2:]),
    "of another round": lambda keys: (keys[0], LAST_ROUND, *keys[2:]),
    "of another run": lambda keys: (keys[0], OTHER_RUN, *keys[2:]),
    "under another's name": lambda keys: (keys[0], keys[1], replace(keys[1], role="client-3"), keys[3]),
    "of a stranger": lambda keys: (*keys, Masks(STRANGER["client-9"], 1, least=3).key),
    "no hex": lambda keys: swapped(keys, "client-3", public="x" * 64),
    "no signature": lambda keys: swapped(keys, "client-3", signature=""),
    "twice": lambda keys: (*keys, keys[1]),
    "without us": lambda keys: keys[1:],
    "ours replaced": lambda keys: (Masks(KNOWN["client-1"], 1, least=3).key, *keys[1:]),
    "two clients": lambda keys: keys[:2],
    "us alone": lambda keys: keys[:1],
    "nobody": lambda keys: (),
}


@pytest.mark.parametrize("case", REFUSED)
def test_keys_that_nothing_is_sent_for(case: str) -> None:
    made = sides()
    with pytest.raises((ApprovalError, ProtocolError)) as caught:
        made["client-1"].hide(words(1), 1, REFUSED[case](keys_of(made)))
    assert not any(key.public in str(caught.value) for key in keys_of(made))
    with pytest.raises(ProtocolError):
        made["client-1"].tell_seed(1)


def test_a_key_of_small_order_is_refused_even_if_its_owner_signs_it() -> None:
    made = sides()
    bad = replace(made["client-2"].key, public=bytes(32).hex())
    bad = replace(bad, signature=KNOWN["client-2"].sign(_signed("run", "client-2", 1, bad.public)))
    check_key(bad, 1, KNOWN["client-1"])
    keys = (made["client-1"].key, bad, made["client-3"].key)
    with pytest.raises(ProtocolError, match="client-2 is no key"):
        made["client-1"].hide(words(1), 1, keys)


@pytest.mark.parametrize(
    ("attempt", "roles", "text"),
    [
        (2, ROLES[:3], "came before"),
        (1, ROLES[:3], "came before"),
        (3, ROLES, "isn't a part of the last attempt's"),
        (3, ROLES[:2], "2 clients, a sum needs 3"),
    ],
)
def test_an_attempt_that_must_not_follow(attempt: int, roles: tuple[str, ...], text: str) -> None:
    made = sides()
    mine = made["client-1"]
    mine.hide(words(1), 2, keys_of(made))
    with pytest.raises(ProtocolError, match=text):
        mine.hide(words(1), attempt, keys_of(made, roles))


def test_a_new_key_of_a_known_client_is_no_part_of_the_last_group() -> None:
    made = sides()
    made["client-1"].hide(words(1), 1, keys_of(made))
    again = Masks(KNOWN["client-2"], 1, least=3).key
    with pytest.raises(ProtocolError, match="part of the last"):
        made["client-1"].hide(words(1), 2, (made["client-1"].key, again, made["client-3"].key))


def test_after_the_seed_nothing_is_hidden_or_told_again() -> None:
    made = sides()
    mine = made["client-1"]
    mine.hide(words(1), 1, keys_of(made))
    with pytest.raises(ProtocolError, match="may not be told"):
        mine.tell_seed(2)
    mine.tell_seed(1)
    with pytest.raises(ProtocolError, match="may not be told"):
        mine.tell_seed(1)
    with pytest.raises(ProtocolError, match="is told"):
        mine.hide(words(1), 2, keys_of(made, ROLES[:3]))


def test_least_can_be_more_than_three_but_not_fewer() -> None:
    made = sides(least=1)
    with pytest.raises(ProtocolError, match="needs 3"):
        made["client-1"].hide(words(1), 1, keys_of(made, ROLES[:2]))
    made = sides(least=4)
    with pytest.raises(ProtocolError, match="needs 4"):
        made["client-1"].hide(words(1), 1, keys_of(made, ROLES[:3]))


def test_a_sum_needs_words_and_seed_of_everybody() -> None:
    made = sides()
    keys = keys_of(made)
    hidden = {role: made[role].hide(words(at), 1, keys) for at, role in enumerate(ROLES)}
    seeds = {role: made[role].tell_seed(1) for role in ROLES}
    cases = [
        ({r: w for r, w in hidden.items() if r != "client-3"}, seeds),
        (hidden, {r: s for r, s in seeds.items() if r != "client-3"}),
        (hidden | {"client-3": hidden["client-3"][:-1]}, seeds),
    ]
    for those, told in cases:
        with pytest.raises(ProtocolError, match="every client"):
            unmasked_sum(attempt_of(keys), those, told)
