"""The fill both ways: slow loops, the own row hidden, live rows in the memory, nothing to attend to (AC-08)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.vertical.tensors import D, random
from vertical.config import FedCVTConfig
from vertical.encoders import Representation
from vertical.views import Memory, fill_active, fill_passive, with_live_rows

ALIGNED, WIDTH = 4, 3


def view(rows: int, seed: int) -> Representation:
    return Representation(random(rows, WIDTH, seed=seed), random(rows, WIDTH, seed=seed + 100))


def memory() -> Memory:
    """4 aligned people; the active pool holds person 2 at 0 and person 0 at 3, the passive pool person 1 at 1."""
    return Memory(
        active_unique=random(ALIGNED, WIDTH, seed=1),
        passive_unique=random(ALIGNED, WIDTH, seed=2),
        active_common=random(5, WIDTH, seed=3),
        passive_common=random(2, WIDTH, seed=4),
        active_position=torch.tensor([3, -1, 0, -1]),
        passive_position=torch.tensor([-1, 1, -1, -1]),
    )


def slow(query: Tensor, keys: Tensor, values: Tensor, hide: int, temperature: float = 0.8) -> Tensor:
    """One query (d,) by the formula; key `hide` is left out."""
    visible = [j for j in range(len(keys)) if j != hide]
    scores = [math.exp(float(query @ keys[j]) / (temperature * math.sqrt(len(query)))) for j in visible]
    parts = [s / sum(scores) * values[j] for s, j in zip(scores, visible, strict=True)]
    return torch.stack(parts).sum(dim=0) if parts else torch.zeros_like(values[0])


@pytest.mark.parametrize("rows", [None, [2, 0, 1]])
def test_passive_fill_matches_inside_active_and_across(rows: list[int] | None) -> None:
    m, active = memory(), view(3, seed=10)
    got = fill_passive(active, m, temperature=0.8, rows=None if rows is None else torch.tensor(rows))
    for i in range(3):
        own = -1 if rows is None else rows[i]
        place = -1 if rows is None else int(m.passive_position[rows[i]])
        unique = slow(active.unique[i], m.active_unique, m.passive_unique, own)
        common = slow(active.common[i], m.passive_common, m.passive_common, place)
        torch.testing.assert_close(got.unique[i], unique)
        torch.testing.assert_close(got.common[i], common)


@pytest.mark.parametrize("rows", [None, [2, 0, 1]])
def test_active_fill_is_the_mirror(rows: list[int] | None) -> None:
    m, passive = memory(), view(3, seed=10)
    got = fill_active(passive, m, temperature=0.8, rows=None if rows is None else torch.tensor(rows))
    for i in range(3):
        own = -1 if rows is None else rows[i]
        place = -1 if rows is None else int(m.active_position[rows[i]])
        unique = slow(passive.unique[i], m.passive_unique, m.active_unique, own)
        common = slow(passive.common[i], m.active_common, m.active_common, place)
        torch.testing.assert_close(got.unique[i], unique)
        torch.testing.assert_close(got.common[i], common)


def test_unique_widths_of_the_parties_may_differ() -> None:
    """A fill matches in the width of the party that asks and copies in that of the other."""
    m = replace(memory(), active_unique=random(ALIGNED, 5, seed=1), passive_unique=random(ALIGNED, 2, seed=2))
    active = Representation(random(3, 5, seed=10), random(3, WIDTH, seed=11))
    passive = Representation(random(3, 2, seed=12), random(3, WIDTH, seed=13))
    filled_passive = fill_passive(active, m, temperature=0.8)
    filled_active = fill_active(passive, m, temperature=0.8)
    for i in range(3):
        unique = slow(active.unique[i], m.active_unique, m.passive_unique, -1)
        torch.testing.assert_close(filled_passive.unique[i], unique)
        unique = slow(passive.unique[i], m.passive_unique, m.active_unique, -1)
        torch.testing.assert_close(filled_active.unique[i], unique)
    assert filled_passive.joined().shape == (3, 2 + WIDTH)
    assert filled_active.joined().shape == (3, 5 + WIDTH)


def test_own_row_has_no_say_in_its_fill() -> None:
    m, active = memory(), view(1, seed=10)
    rows = torch.tensor([1])
    changed = replace(
        m,
        passive_unique=m.passive_unique.index_fill(0, rows, 1e3),
        passive_common=m.passive_common.index_fill(0, torch.tensor([1]), 1e3),
    )
    before = fill_passive(active, m, temperature=1.0, rows=rows).joined()
    assert torch.equal(before, fill_passive(active, changed, temperature=1.0, rows=rows).joined())
    assert not torch.equal(before, fill_passive(active, changed, temperature=1.0).joined())


def test_empty_memory_fills_zero_both_ways_with_finite_gradients() -> None:
    nobody = Memory.blank(FedCVTConfig(d=WIDTH), 0)
    source = random(2, WIDTH, seed=0).float().requires_grad_()
    for fill in (fill_active, fill_passive):
        filled = fill(Representation(source, source * 2), nobody, temperature=1.0)
        assert torch.equal(filled.joined(), torch.zeros(2, 2 * WIDTH))
        filled.joined().sum().backward()
    assert source.grad is not None
    assert torch.equal(source.grad, torch.zeros(2, WIDTH))


def test_one_aligned_person_asking_for_itself_gets_zero() -> None:
    person = view(1, seed=0)
    nowhere = torch.tensor([0])
    m = Memory(
        active_unique=random(1, WIDTH, seed=1),
        passive_unique=random(1, WIDTH, seed=2),
        active_common=random(1, WIDTH, seed=3),
        passive_common=random(1, WIDTH, seed=4),
        active_position=nowhere,
        passive_position=nowhere,
    )
    masked = fill_passive(person, m, temperature=1.0, rows=nowhere)
    assert torch.equal(masked.joined(), torch.zeros(1, 2 * WIDTH, dtype=D))
    stranger = fill_passive(person, m, temperature=1.0)
    torch.testing.assert_close(stranger.unique, m.passive_unique)
    torch.testing.assert_close(stranger.common, m.passive_common)


def test_live_rows_take_the_place_of_their_copies_only() -> None:
    m = memory()
    active, passive = view(2, seed=20), view(2, seed=30)
    live = with_live_rows(m, active, passive, torch.tensor([2, 1]))
    torch.testing.assert_close(live.active_unique[[2, 1]], active.unique)
    torch.testing.assert_close(live.passive_unique[[2, 1]], passive.unique)
    torch.testing.assert_close(live.active_unique[[0, 3]], m.active_unique[[0, 3]])
    torch.testing.assert_close(
        live.active_common[0], active.common[0]
    )  # person 2 stands at 0, person 1 nowhere
    torch.testing.assert_close(live.active_common[1:], m.active_common[1:])
    torch.testing.assert_close(live.passive_common[1], passive.common[1])  # person 1 stands at 1
    torch.testing.assert_close(live.passive_common[0], m.passive_common[0])
    torch.testing.assert_close(m.active_unique, memory().active_unique)  # the old memory is untouched


def test_gradient_reaches_the_passive_party_through_live_values_only() -> None:
    m, active = memory(), view(2, seed=20)
    unique, common = (random(2, WIDTH, seed=s).requires_grad_() for s in (30, 31))
    passive = Representation(unique, common)
    query = view(3, seed=40)
    assert not fill_passive(query, m, temperature=1.0).joined().requires_grad
    live = with_live_rows(m, active, passive, torch.tensor([1, 0]))
    fill_passive(query, live, temperature=1.0).joined().sum().backward()
    assert unique.grad is not None
    assert bool(unique.grad.any())


def test_gradient_of_the_fill_is_right() -> None:
    rows = torch.tensor([1, 2])

    def filled(a_u: Tensor, a_c: Tensor, p_u: Tensor, p_c: Tensor) -> Tensor:
        active, passive = Representation(a_u, a_c), Representation(p_u, p_c)
        live = with_live_rows(memory(), active, passive, rows)
        both = (
            fill_passive(active, live, temperature=0.7, rows=rows),
            fill_active(passive, live, temperature=0.7, rows=rows),
        )
        return Representation.stack(both).joined()

    inputs = tuple(random(2, WIDTH, seed=s).requires_grad_() for s in range(50, 54))
    assert torch.autograd.gradcheck(filled, inputs)
