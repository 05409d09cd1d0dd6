"""FedNova by hand."""

from __future__ import annotations

import numpy as np
import pytest

from horizontal.average import Contribution, NoExamplesError, UpdateError
from horizontal.fedavg import size_weighted_mean
from horizontal.fednova import check_steps, effective_steps, normalised_mean


def trained(client: str, weight: float, examples: int, steps: int) -> Contribution:
    arrays = {"w": np.array([weight]), "mean": np.array([weight])}
    return Contribution(client=client, examples=examples, arrays=arrays, extras={"steps": np.array(steps)})


RECEIVED = {"w": np.array([1.0]), "mean": np.array([1.0])}


def test_by_hand() -> None:
    sent = [trained("a", 2.0, 10, 2), trained("b", 6.0, 10, 10)]
    # p = (.5, .5): tau_eff = 6; w = 1 + 6 (.5 * 1/2 + .5 * 5/10) = 4; the buffer is the mean by size
    new = normalised_mean(RECEIVED, sent, ("w",), shrink=0.0)
    assert (new["w"].item(), new["mean"].item()) == (pytest.approx(4.0), 4.0)
    sent = [trained("a", 3.0, 10, 1), trained("b", 6.0, 10, 5)]
    # tau_eff = 3; w = 1 + 3 (.5 * 2 + .5 * 5/5) = 5.5; the mean by size were 4.5
    assert normalised_mean(RECEIVED, sent, ("w",), shrink=0.0)["w"].item() == pytest.approx(5.5)


def test_equal_numbers_of_steps_are_the_mean_by_size() -> None:
    sent = [trained("a", 2.5, 30, 4), trained("b", 6.1, 10, 4)]
    new = normalised_mean(RECEIVED, sent, ("w",), shrink=0.1)
    assert new["w"].item() == pytest.approx(size_weighted_mean(sent)["w"].item())


def test_a_proximal_term_shortens_what_counts_as_steps() -> None:
    assert effective_steps(3, 0.0) == 3.0
    assert effective_steps(3, 0.1) == pytest.approx(1 + 0.9 + 0.81)
    assert effective_steps(5, 1.0) == 1.0


def test_a_client_with_rows_but_no_step_is_named() -> None:
    with pytest.raises(UpdateError, match="client-2: expected at least 1 local step, came 0"):
        check_steps(trained("client-2", 2.0, 1, 0))
    check_steps(trained("client-2", 2.0, 0, 0))
    check_steps(trained("client-2", 2.0, 1, 1))


def test_a_client_without_rows_is_left_out() -> None:
    alone = normalised_mean(RECEIVED, [trained("a", 2.0, 5, 3), trained("b", 9.0, 0, 0)], ("w",), shrink=0.0)
    assert alone["w"].item() == pytest.approx(2.0)
    with pytest.raises(NoExamplesError):
        normalised_mean(RECEIVED, [trained("b", 9.0, 0, 0)], ("w",), shrink=0.0)
