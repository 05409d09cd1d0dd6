"""FedAvg as a whole: equal to a central oracle, learning, deterministic, faults of clients, settings."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from horizontal import fedavg
from horizontal.fedavg import FedAvgConfig, Weighting
from horizontal.local import Examples
from horizontal.messages import KINDS, Broadcast
from horizontal.rounds import AGGREGATOR, RoundError
from horizontal.weights import model_arrays
from protocols.disclosure import releasable
from protocols.errors import ConfigError
from protocols.program import simulate
from protocols.seeds import injected
from protocols.wire import decode, encode


def drawn(n: int, seed: int, shift: float = 0.0) -> Examples:
    """Rows whose class is the sign of a fixed direction, with a little noise; `shift` moves the features."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 4, generator=generator) + shift
    score = features @ torch.tensor([1.0, -2.0, 0.5, 0.0]) + 0.3 * torch.randn(n, generator=generator)
    return Examples(features, (score > 0).long())


def linear() -> nn.Module:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-0.5, 0.5, 8).reshape(2, 4))
        model.bias.zero_()
    return model


def deep() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def central(model: nn.Module, data: Examples, steps: int, lr: float) -> nn.Module:
    """Plain full-batch gradient descent."""
    model = copy.deepcopy(model)
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        sgd.zero_grad()
        nn.functional.cross_entropy(model(data.features), data.labels).backward()
        sgd.step()
    return model


def accuracy(model: nn.Module, data: Examples) -> float:
    with torch.no_grad():
        return float((model(data.features).argmax(dim=1) == data.labels).float().mean())


def flat(model: nn.Module) -> Tensor:
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


CLIENTS = {"client-1": drawn(60, 1), "client-2": drawn(33, 2, 0.5), "client-3": drawn(5, 3, -0.5)}


def test_one_client_with_full_batches_is_plain_gradient_descent_bit_for_bit() -> None:
    config = FedAvgConfig(rounds=4, epochs=3, batch=1000, minimum_clients=1, learning_rate=0.3)
    data = drawn(30, 0)
    result = fedavg.simulate(linear(), {"client-1": data}, config)
    assert torch.equal(flat(result.model), flat(central(linear(), data, 12, 0.3)))


def test_one_local_step_at_all_clients_is_a_step_on_the_joined_rows() -> None:
    # The size-weighted mean of the clients' gradients is the gradient on all rows.
    joined = Examples(
        torch.cat([c.features for c in CLIENTS.values()]), torch.cat([c.labels for c in CLIENTS.values()])
    )
    result = fedavg.simulate(linear(), CLIENTS, FedAvgConfig(rounds=10, batch=1000, learning_rate=0.3))
    torch.testing.assert_close(
        flat(result.model), flat(central(linear(), joined, 10, 0.3)), rtol=1e-5, atol=1e-6
    )
    uniform = FedAvgConfig(rounds=10, batch=1000, learning_rate=0.3, weighting=Weighting.UNIFORM)
    assert not torch.allclose(flat(fedavg.simulate(linear(), CLIENTS, uniform).model), flat(result.model))


def test_one_round_equals_the_mean_of_models_trained_apart() -> None:
    config = FedAvgConfig(rounds=1, epochs=2, batch=1000)
    apart = [central(linear(), data, 2, 0.1).state_dict() for data in CLIENTS.values()]
    sizes = [len(data) for data in CLIENTS.values()]
    result = fedavg.simulate(linear(), CLIENTS, config)
    for name, value in result.model.state_dict().items():
        slow = sum(n * one[name].double() for n, one in zip(sizes, apart, strict=True)) / sum(sizes)
        torch.testing.assert_close(value.double(), slow, rtol=1e-6, atol=1e-7)


def test_it_learns_what_no_client_shows_alone() -> None:
    # Each client has one class only, so a client alone can only learn to answer it always.
    data, test = drawn(400, 7), drawn(400, 8)
    parts = [data.labels == label for label in (0, 1)]
    clients = {
        f"client-{i}": Examples(data.features[part], data.labels[part]) for i, part in enumerate(parts, 1)
    }
    losses = []

    def validate(model: nn.Module) -> float:
        assert not model.training
        with torch.no_grad():
            losses.append(float(nn.functional.cross_entropy(model(test.features), test.labels)))
        return losses[-1]

    config = FedAvgConfig(rounds=25, batch=50, learning_rate=0.1)
    result = fedavg.simulate(linear(), clients, config, validate=validate)
    assert accuracy(result.model, test) > 0.9 > accuracy(linear(), test)
    assert len(losses) == 25
    assert losses[-1] < losses[0]
    assert result.report["rounds"]["25"]["loss"] == losses[-1]


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    model, config = deep(), FedAvgConfig(rounds=3, batch=8, fraction=0.7)
    before = flat(model)
    runs = []
    for seed, outer in ((1, 10), (1, 11), (2, 10)):
        torch.manual_seed(outer)
        runs.append(flat(fedavg.simulate(model, CLIENTS, config, seed=seed).model))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert torch.equal(flat(model), before)  # left as it was


def test_each_round_has_its_own_order_and_nothing_of_the_round_before() -> None:
    work = fedavg.client_work(deep(), CLIENTS["client-1"], FedAvgConfig(batch=8), injected(0, "client-1"))
    first, second, again = (work(Broadcast.of(number, model_arrays(deep()))) for number in (1, 2, 1))
    assert again == first
    assert second.packed != first.packed


def test_simulation_equals_the_programs_with_models_of_their_own() -> None:
    # In `simulate` all clients share one scratch model: nothing of one may reach the next. Messages go over the wire.
    config = FedAvgConfig(rounds=3, batch=8)
    sizes: set[int] = set()

    def travel(sender: str, to: str, message) -> None:
        data = encode(message)
        sizes.add(len(data))
        assert decode(data, KINDS) == message

    programs = {AGGREGATOR: fedavg.aggregator_program(deep(), tuple(CLIENTS), config, 4)}
    for name, data in CLIENTS.items():
        programs[name] = fedavg.client_program(deep(), data, config, injected(4, name))
    outcomes = simulate(programs, observe=travel)
    result = fedavg.simulate(deep(), CLIENTS, config, seed=4)
    for name, value in model_arrays(result.model).items():
        for outcome in outcomes.values():
            np.testing.assert_array_equal(outcome.artifacts[f"model.{name}"], value)
    assert max(sizes) - min(sizes) < 64  # one model either way, whatever the number of rows


def test_integer_buffers_are_averaged_and_stay_integers() -> None:
    # 60, 33 and 5 rows in batches of 9: 7, 4 and 1 batches; (60*7 + 33*4 + 5*1)/98 = 5.68
    result = fedavg.simulate(deep(), CLIENTS, FedAvgConfig(rounds=1, batch=9))
    count = result.model.state_dict()["1.num_batches_tracked"]
    assert (count.dtype, int(count)) == (torch.int64, 6)


class Failing(nn.Module):
    """Fails in training when told to by the number of the training batch."""

    def __init__(self, from_batch: int) -> None:
        super().__init__()
        self.inner, self.from_batch, self.batches = linear(), from_batch, 0

    def forward(self, x: Tensor) -> Tensor:
        self.batches += 1
        if self.batches >= self.from_batch:
            raise ValueError("row 17 holds 42")
        return self.inner(x)


def test_a_failed_run_carries_the_last_good_model_and_its_cause() -> None:
    config = FedAvgConfig(rounds=5, batch=1000)
    # The scratch model is shared: three batches a round, so that all fail from round 3 on.
    with pytest.raises(RoundError, match=r"round 3.*client-1 \(internal\)") as stopped:
        fedavg.simulate(Failing(7), CLIENTS, config)
    assert "row 17" in str(stopped.value.__cause__)
    assert "row 17" not in str(stopped.value)
    outcome = stopped.value.outcome
    assert (outcome.report["end"], outcome.report["last_good"]) == ("stopped", "round 2")
    good = fedavg.simulate(linear(), CLIENTS, FedAvgConfig(rounds=2, batch=1000)).model
    np.testing.assert_array_equal(outcome.artifacts["model.inner.weight"], good.weight.detach().numpy())


def test_a_client_that_fails_in_one_round_is_left_out_of_it() -> None:
    config = FedAvgConfig(rounds=2, batch=1000)
    programs = {AGGREGATOR: fedavg.aggregator_program(Failing(99), tuple(CLIENTS), config, 0)}
    for name, data in CLIENTS.items():
        model = Failing(2 if name == "client-2" else 99)
        programs[name] = fedavg.client_program(model, data, config, injected(0, name))
    outcome = simulate(programs)[AGGREGATOR]
    first = fedavg.simulate(linear(), CLIENTS, FedAvgConfig(rounds=1, batch=1000)).model
    others = {name: data for name, data in CLIENTS.items() if name != "client-2"}
    second = fedavg.simulate(first, others, FedAvgConfig(rounds=1, batch=1000)).model
    np.testing.assert_array_equal(outcome.artifacts["model.inner.weight"], second.weight.detach().numpy())
    assert outcome.report["rounds"]["2"] == {
        "clients": ["client-1", "client-3"],
        "failures": {"client-2": "internal"},
    }


def test_a_diverged_client_is_a_failure_and_never_reaches_the_model() -> None:
    bad = Examples(torch.full((4, 4), float("nan")), torch.zeros(4, dtype=torch.int64))
    result = fedavg.simulate(linear(), {**CLIENTS, "client-4": bad}, FedAvgConfig(rounds=2))
    assert torch.isfinite(flat(result.model)).all()
    assert result.report["rounds"]["1"]["failures"] == {"client-4": "update"}


def test_another_objective() -> None:
    def squared(outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels).square()

    data = {name: Examples(c.features, c.features[:, 0] * 2) for name, c in CLIENTS.items()}
    result = fedavg.simulate(linear(), data, FedAvgConfig(rounds=40), objective=squared)
    torch.testing.assert_close(
        result.model.weight[0], torch.tensor([2.0, 0.0, 0.0, 0.0]), rtol=0.02, atol=0.02
    )


def test_all_of_a_report_but_losses_may_be_released() -> None:
    result = fedavg.simulate(linear(), CLIENTS, FedAvgConfig(rounds=2))
    for report in (result.report, *result.clients.values()):
        assert releasable(report, 10) == report


def test_names() -> None:
    with pytest.raises(ConfigError, match="can't be called aggregator"):
        fedavg.simulate(linear(), {AGGREGATOR: drawn(3, 0)}, FedAvgConfig(minimum_clients=1))
    with pytest.raises(ConfigError, match="at least 2 clients, there are 1"):
        fedavg.simulate(linear(), {"client-1": drawn(3, 0)}, FedAvgConfig())


def test_settings_go_through_parameters() -> None:
    config = FedAvgConfig(rounds=7, fraction=0.5, weighting=Weighting.UNIFORM)
    parameters = config.to_parameters()
    assert list(parameters) == sorted(parameters)
    assert all(type(value) in (str, int, float) for _, value in parameters)
    assert FedAvgConfig.from_parameters(parameters) == config


@pytest.mark.parametrize(
    "wrong", [lambda p: p[1:], lambda p: (*p, p[0]), lambda p: (*p, ("mu", 0.1)), lambda p: ()]
)
def test_parameters_must_be_complete(wrong) -> None:
    with pytest.raises(ConfigError, match="expected each once"):
        FedAvgConfig.from_parameters(wrong(FedAvgConfig().to_parameters()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 0),
        ("rounds", 1.0),
        ("rounds", True),
        ("fraction", 1.1),
        ("fraction", -0.1),
        ("fraction", 1),
        ("minimum_clients", 0),
        ("epochs", 0),
        ("batch", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("weighting", "largest"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        FedAvgConfig(**{name: value})
