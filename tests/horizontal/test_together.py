"""Trainings of many clients as one: the numbers of one by one, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from horizontal.computing import AT_ONCE
from horizontal.config import HorizontalConfig
from horizontal.job import Job, optimizer_of, run
from horizontal.local import Examples, cross_entropy, plan
from horizontal.methods import METHODS, method
from horizontal.rounds import RoundError
from horizontal.simulation import Research, simulate
from horizontal.together import train_together, why_apart
from horizontal.weights import model_arrays
from protocols.errors import ConfigError
from tests.horizontal.sites import CLIENTS, deep, drawn, flat, hidden

SIZES = (1, 2, 3, 8, 9, 17)
MANY = {f"client-{i}": drawn(n, i) for i, n in enumerate(SIZES)}


@pytest.mark.parametrize("name", METHODS)
def test_together_gives_the_numbers_of_one_by_one(name: str) -> None:
    config = method(
        name, rounds=3, epochs=3, batch=4, fraction=0.7, warmup_share=0.3, stop_after=9, flash_refresh=2
    )
    apart, joined = (
        simulate(hidden(), MANY, config, seed=2, together=together) for together in (False, True)
    )
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)
    assert joined.report.keys() == apart.report.keys()
    for one, other in zip(joined.report["rounds"].values(), apart.report["rounds"].values(), strict=True):
        assert (one["clients"], one["failures"]) == (other["clients"], other["failures"])
        assert one["drift"] == pytest.approx(other["drift"], abs=1e-5)
    for client, report in apart.clients.items():
        for number, notes in report["rounds"].items():
            assert joined.clients[client]["rounds"][number]["losses"] == pytest.approx(
                notes["losses"], abs=1e-5
            )


def test_weight_decay_and_penalty_and_frozen_parameters() -> None:
    model = hidden()
    model[0].bias.requires_grad_(False)
    config = HorizontalConfig(rounds=2, epochs=2, batch=4, weight_decay=0.1, mu=0.5)
    apart, joined = (simulate(model, MANY, config, together=together) for together in (False, True))
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)
    assert torch.equal(joined.model[0].bias, model[0].bias)


def test_images() -> None:
    torch.manual_seed(1)
    layers = (
        nn.Conv2d(1, 3, 3),
        nn.GroupNorm(1, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    model = nn.Sequential(*layers)
    clients = {
        f"client-{i}": Examples(torch.randn(n, 1, 6, 6), torch.arange(n) % 3) for i, n in enumerate((5, 7))
    }
    config = HorizontalConfig(rounds=2, batch=3)
    apart, joined = (simulate(model, clients, config, together=together) for together in (False, True))
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.Flatten(), nn.Unflatten(1, (2, 2))])
def test_models_that_reshape_their_rows(layer: nn.Module) -> None:
    flatten = nn.Flatten() if isinstance(layer, nn.Unflatten) else nn.Identity()
    torch.manual_seed(2)
    model = nn.Sequential(layer, flatten, nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    config = HorizontalConfig(rounds=1, batch=8)
    apart, joined = (simulate(model, CLIENTS, config, together=together) for together in (False, True))
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)


def test_more_clients_than_train_at_once() -> None:
    clients = {f"client-{i}": drawn(2 + i % 3, i) for i in range(AT_ONCE + 5)}
    config = HorizontalConfig(rounds=1, batch=2)
    apart, joined = (simulate(hidden(), clients, config, together=together) for together in (False, True))
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)


def job(n: int, epochs: int = 2) -> Job:
    steps = plan(n, epochs=epochs, batch=4, generator=torch.Generator().manual_seed(n))
    return Job(
        received=model_arrays(hidden()), examples=drawn(n, n), steps=steps, seed=0, objective=cross_entropy
    )


def test_results_come_in_the_order_of_the_jobs() -> None:
    config, jobs = HorizontalConfig(learning_rate=0.1), [job(3), job(0), job(11), job(7)]
    for done, one in zip(train_together(hidden(), jobs, config), jobs, strict=True):
        model = hidden()
        alone = run(model, one, optimizer_of(config)(model.parameters()))
        assert (done.training.examples, done.training.steps) == (
            alone.training.examples,
            alone.training.steps,
        )
        assert done.training.losses == pytest.approx(alone.training.losses, abs=1e-5)
        for name, value in alone.arrays.items():
            torch.testing.assert_close(
                torch.tensor(done.arrays[name]), torch.tensor(value), rtol=0, atol=1e-5
            )


def test_jobs_of_no_rows_change_nothing() -> None:
    done = train_together(hidden(), [job(0), job(0)], HorizontalConfig())
    assert [(one.training.steps, one.training.losses) for one in done] == [(0, ())] * 2


@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        (deep(), {}, "buffers"),
        (nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)), {}, "dropout draws"),
        (hidden(), {"optimizer": "adam"}, "plain SGD"),
        (hidden(), {"optimizer": "momentum"}, "plain SGD"),
    ],
)
def test_what_can_only_be_trained_one_by_one_says_why(model: nn.Module, settings: dict, reason: str) -> None:
    config = HorizontalConfig(**settings)
    assert reason in why_apart(model, config, None)
    with pytest.raises(ConfigError, match=f"can't be trained together: .*{reason}"):
        simulate(model, CLIENTS, config, together=True)
    simulate(model, CLIENTS, HorizontalConfig(**{**settings, "rounds": 1}))


def test_an_optimizer_of_research_trains_one_by_one() -> None:
    research = Research(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    with pytest.raises(ConfigError, match="plain SGD"):
        simulate(hidden(), CLIENTS, HorizontalConfig(), research=research, together=True)


class Random(nn.Module):
    """Draws random numbers where no module shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.inner(x), 0.5, self.training)


def test_a_model_that_draws_random_numbers_on_its_own_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="random"):
        simulate(Random(), CLIENTS, HorizontalConfig(rounds=1), together=True)


def test_a_client_whose_preparation_fails_costs_only_its_round() -> None:
    def fails(number: int) -> int:
        raise ValueError("late")

    config = HorizontalConfig(rounds=1)
    result = simulate(
        hidden(), CLIENTS, config, research=Research(efforts={"client-2": fails}), together=True
    )
    assert result.report["rounds"]["1"]["failures"] == {"client-2": "internal"}
    all_fail = Research(efforts=dict.fromkeys(CLIENTS, fails))
    with pytest.raises(RoundError) as stopped:
        simulate(hidden(), CLIENTS, config, research=all_fail, together=True)
    assert isinstance(stopped.value.__cause__, ValueError)


def test_a_client_whose_rows_cannot_be_trained_on_costs_only_its_round() -> None:
    bad = Examples(torch.randn(5, 4), torch.full((5,), 7))  # there are 3 classes
    clients, config = {**CLIENTS, "client-4": bad}, HorizontalConfig(rounds=2)
    apart, joined = (simulate(hidden(), clients, config, together=together) for together in (False, True))
    for result in (apart, joined):
        assert result.report["rounds"]["2"]["failures"] == {"client-4": "internal"}
    torch.testing.assert_close(flat(joined.model), flat(apart.model), rtol=0, atol=1e-5)
