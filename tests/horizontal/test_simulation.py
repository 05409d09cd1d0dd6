"""Whole runs: equal to central oracles, learning, deterministic, the same as the programs apart, faults, resume."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from horizontal.average import Contribution
from horizontal.client_data import ClientData
from horizontal.config import HorizontalConfig
from horizontal.evaluation import metrics
from horizontal.fedavg import size_weighted_mean
from horizontal.job import Job
from horizontal.local import Examples, train
from horizontal.messages import AGGREGATOR, KINDS, Broadcast, Update
from horizontal.methods import METHODS, method
from horizontal.programs import aggregator_program, client_program
from horizontal.rounds import RoundError
from horizontal.simulation import Research, Simulation, simulate
from horizontal.weights import model_arrays
from horizontal.work import ClientWork
from protocols import program
from protocols.disclosure import releasable
from protocols.errors import ConfigError, WireError
from protocols.program import Outcome
from protocols.seeds import injected
from protocols.wire import decode, encode
from tests.horizontal.sites import CLIENTS, accuracy, central, deep, drawn, flat, hidden, linear

SMALL = {"rounds": 4, "epochs": 2, "batch": 9}


def same(one: Simulation, other: Simulation) -> None:
    """Equal in every bit of the models and every entry of the reports."""
    assert torch.equal(flat(one.model), flat(other.model))
    assert one.report == other.report
    assert one.clients == other.clients


# Oracles


def test_one_client_with_full_batches_is_plain_gradient_descent_bit_for_bit() -> None:
    config = HorizontalConfig(rounds=4, epochs=3, batch=1000, minimum_clients=1, learning_rate=0.3)
    data = drawn(30, 0)
    result = simulate(linear(), {"client-1": data}, config)
    assert torch.equal(flat(result.model), flat(central(linear(), data, 12, 0.3)))


def test_one_local_step_at_all_clients_is_a_step_on_the_joined_rows() -> None:
    # The size-weighted mean of the clients' gradients is the gradient on all rows.
    joined = Examples(
        torch.cat([c.features for c in CLIENTS.values()]), torch.cat([c.labels for c in CLIENTS.values()])
    )
    settings = {"rounds": 10, "batch": 1000, "learning_rate": 0.3}
    result = simulate(linear(), CLIENTS, HorizontalConfig(**settings))
    torch.testing.assert_close(
        flat(result.model), flat(central(linear(), joined, 10, 0.3)), rtol=1e-5, atol=1e-6
    )
    uniform = simulate(linear(), CLIENTS, HorizontalConfig(aggregation="mean", **settings))
    assert not torch.allclose(flat(uniform.model), flat(result.model))


def test_one_round_equals_the_mean_of_models_trained_apart() -> None:
    apart = [central(linear(), data, 2, 0.1).state_dict() for data in CLIENTS.values()]
    sizes = [len(data) for data in CLIENTS.values()]
    result = simulate(linear(), CLIENTS, HorizontalConfig(rounds=1, epochs=2, batch=1000))
    for name, value in result.model.state_dict().items():
        slow = sum(n * one[name].double() for n, one in zip(sizes, apart, strict=True)) / sum(sizes)
        torch.testing.assert_close(value.double(), slow, rtol=1e-6, atol=1e-7)


def one_class_each() -> tuple[dict[str, Examples], Examples]:
    """Clients that have one class only, so that alone each can only learn to answer it always; and test rows."""
    data, test = drawn(400, 7), drawn(400, 8)
    parts = [data.labels == label for label in (0, 1)]
    clients = {
        f"client-{i}": Examples(data.features[part], data.labels[part]) for i, part in enumerate(parts, 1)
    }
    return clients, test


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_what_no_client_shows_alone(name: str) -> None:
    clients, test = one_class_each()
    config = method(name, rounds=25, batch=50, learning_rate=0.1, flash_retire="never")
    result = simulate(hidden(), clients, config, validate=lambda model: metrics(model, test))
    assert accuracy(result.model, test) > 0.85 > accuracy(hidden(), test)
    losses = [value for _, value in result.curve("loss")]
    assert (len(losses), losses[-1] < losses[0]) == (25, True)
    assert result.report["rounds"]["25"]["loss"] == losses[-1]


def test_validation_sees_the_model_in_evaluation_mode() -> None:
    def validate(model: nn.Module) -> dict[str, float]:
        assert not model.training
        return {"loss": 1.0}

    result = simulate(deep(), CLIENTS, HorizontalConfig(rounds=2), validate=validate)
    assert result.curve("loss") == [(1, 1.0), (2, 1.0)]
    assert result.curve("accuracy") == []


# The bars: methods that are others in a special case


def test_fedprox_with_mu_0_is_fedavg_bit_for_bit() -> None:
    same(
        simulate(deep(), CLIENTS, method("fedprox", mu=0.0, **SMALL)),
        simulate(deep(), CLIENTS, method("fedavg", **SMALL)),
    )
    pulled = simulate(deep(), CLIENTS, method("fedprox", mu=1.0, **SMALL))
    free = simulate(deep(), CLIENTS, method("fedavg", **SMALL))
    drift = [sum(r.report["rounds"]["1"]["drift"].values()) for r in (pulled, free)]
    assert drift[0] < drift[1]


@pytest.mark.parametrize("epochs", [1, 3])
def test_fedbss_with_one_epoch_or_no_red_rows_is_fedavg_on_rows_sorted_by_loss(epochs: int) -> None:
    # With 3 epochs: clients whose most uncertain row is their hardest, so that nothing is red.
    clients = CLIENTS if epochs == 1 else {n: right_only(d) for n, d in CLIENTS.items()}
    ours = simulate(linear(), clients, method("fedbss", rounds=1, epochs=epochs, batch=9, warmup_share=0.0))
    if epochs == 3:
        assert [report["rounds"]["1"]["red"] for report in ours.clients.values()] == [0, 0, 0]
    sent = []
    for name, data in clients.items():
        model = linear()
        losses = nn.functional.cross_entropy(model(data.features), data.labels, reduction="none")
        in_order = torch.argsort(losses, stable=True).split(9)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), data, (in_order,) * epochs, seed=0)
        sent.append(Contribution(client=name, examples=len(data), arrays=model_arrays(model)))
    for name, value in size_weighted_mean(sent).items():
        np.testing.assert_array_equal(model_arrays(ours.model)[name], value)


def right_only(data: Examples) -> Examples:
    """Those rows that the starting model answers right: of two classes, the hardest is then the most uncertain."""
    right = linear()(data.features).argmax(dim=1) == data.labels
    return Examples(data.features[right], data.labels[right])


def test_fedbss_warms_up_as_fedavg() -> None:
    warm = simulate(linear(), CLIENTS, method("fedbss", warmup_share=1.0, **SMALL))
    assert torch.equal(flat(warm.model), flat(simulate(linear(), CLIENTS, method("fedavg", **SMALL)).model))


@pytest.mark.parametrize(("rounds", "weight"), [(1, 1.875), (2, 2.0), (3, 2.0078125)])
def test_scaffold_over_three_rounds_of_two_clients_by_hand(rounds: int, weight: float) -> None:
    # The numbers are worked out in test_scaffold: (w - 0)^2/2 with 1 row a round, (w - 4)^2/2 with 2, one row a step.
    def halved(outputs: Tensor, labels: Tensor) -> Tensor:
        return 0.5 * (outputs[:, 0] - labels).square()

    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    clients = {
        "a": Examples(torch.ones(1, 1), torch.zeros(1)),
        "b": Examples(torch.ones(2, 1), torch.full((2,), 4.0)),
    }
    config = method("scaffold", rounds=rounds, batch=1, learning_rate=0.5)
    for together in (False, True):
        result = simulate(model, clients, config, research=Research(objective=halved), together=together)
        assert result.model.weight.item() == weight


def test_scaffold_moves_as_fedavg_in_the_first_round_and_not_after() -> None:
    settings = {**SMALL, "aggregation": "mean"}
    first = simulate(linear(), CLIENTS, method("scaffold", **{**settings, "rounds": 1}))
    plain = simulate(linear(), CLIENTS, method("fedavg", **{**settings, "rounds": 1}))
    torch.testing.assert_close(flat(first.model), flat(plain.model), rtol=1e-6, atol=1e-7)
    more = [simulate(linear(), CLIENTS, method(name, **settings)) for name in ("scaffold", "fedavg")]
    assert not torch.allclose(flat(more[0].model), flat(more[1].model))


def test_scaffolds_first_option_keeps_the_gradient_at_the_received_model() -> None:
    # (w - 0)^2/2 and (w - 4)^2/2 from w = 1, one step each: gradients 1 and -3, so c = -1; models .5 and 2.5.
    # Round 2 from x = 1.5: steps with 1.5 - 1 - 1 = -.5 and -2.5 + 3 - 1 = -.5, so both go to 1.75.
    def halved(outputs: Tensor, labels: Tensor) -> Tensor:
        return 0.5 * (outputs[:, 0] - labels).square()

    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    clients = {name: Examples(torch.ones(1, 1), torch.full((1,), y)) for name, y in (("a", 0.0), ("b", 4.0))}
    config = method("scaffold", rounds=2, scaffold_option=1, learning_rate=0.5)
    assert simulate(model, clients, config, research=Research(objective=halved)).model.weight.item() == 1.75


def test_scaffold_sends_twice_the_bytes_of_fedavg() -> None:
    big = nn.Linear(4, 5000)
    settings = {"rounds": 3, "aggregation": "mean"}
    scaffold = simulate(big, CLIENTS, method("scaffold", **settings)).traffic
    fedavg = simulate(big, CLIENTS, method("fedavg", **settings)).traffic
    final = fedavg.to_clients / 4  # the final model goes without a control variate
    assert scaffold.to_clients == pytest.approx(2 * (fedavg.to_clients - final) + final, rel=0.01)
    assert scaffold.to_aggregator == pytest.approx(2 * fedavg.to_aggregator, rel=0.01)


def test_one_step_each_is_the_mean_for_fednova() -> None:
    settings = {"rounds": 3, "batch": 1000}
    nova, size = (simulate(linear(), CLIENTS, method(name, **settings)) for name in ("fednova", "fedavg"))
    torch.testing.assert_close(flat(nova.model), flat(size.model), rtol=1e-6, atol=1e-7)


# The same numbers whatever way it is run


@pytest.mark.parametrize("name", METHODS)
def test_a_simulation_equals_the_programs_with_models_of_their_own(name: str) -> None:
    # In `simulate` all clients share one scratch model: nothing of one may reach the next. Messages go over the wire.
    model = deep() if name not in ("scaffold",) else hidden()
    config = method(name, rounds=3, batch=8, epochs=2, fraction=0.7, warmup_share=0.3)

    def travel(sender: str, to: str, message) -> None:
        assert decode(encode(message), KINDS) == message

    programs = {AGGREGATOR: aggregator_program(model, tuple(CLIENTS), config, 4, injected(4, AGGREGATOR))}
    for client, data in CLIENTS.items():
        own = type(model)(*(type(m)(**_arguments(m)) for m in model))
        programs[client] = client_program(
            ClientWork(own, ClientData(training=data), config, injected(4, client))
        )
    outcomes = program.simulate(programs, observe=travel)
    result = simulate(model, CLIENTS, config, seed=4)
    for array, value in model_arrays(result.model).items():
        for outcome in outcomes.values():
            assert isinstance(outcome, Outcome)
            np.testing.assert_array_equal(outcome.artifacts[f"model.{array}"], value)
    assert outcomes[AGGREGATOR].report == result.report


def _arguments(module: nn.Module) -> dict[str, object]:
    """How to make a module like this one, with other weights."""
    match module:
        case nn.Linear():
            return {"in_features": module.in_features, "out_features": module.out_features}
        case nn.BatchNorm1d():
            return {"num_features": module.num_features}
        case nn.Dropout():
            return {"p": module.p}
    return {}


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    model, config = deep(), HorizontalConfig(rounds=3, batch=8, fraction=0.7)
    before = flat(model)
    runs = []
    for seed, outer in ((1, 10), (1, 11), (2, 10)):
        torch.manual_seed(outer)
        runs.append(flat(simulate(model, CLIENTS, config, seed=seed).model))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert torch.equal(flat(model), before)  # left as it was


@pytest.mark.parametrize("name", ["scaffold", "fedbss", "flash", "fedoui"])
def test_a_resumed_simulation_goes_on_to_the_same_end(name: str) -> None:
    config = method(
        name, rounds=5, batch=9, epochs=2, fraction=0.7, flash_refresh=2, stop_after=9, checkpoint_every=2
    )
    kept: dict[int, bytes] = {}
    clients = {n: ClientData(training=d, validation=drawn(8, 5)) for n, d in CLIENTS.items()}
    more = {"validate": lambda model: {"loss": accuracy(model, drawn(50, 9))}, "seed": 3}
    unbroken = simulate(hidden(), clients, config, save=kept.__setitem__, **more)
    assert list(kept) == [2, 4, 5]
    same(simulate(hidden(), clients, config, resume=kept[2], **more), unbroken)
    same(simulate(hidden(), clients, config, resume=kept[4], **more), unbroken)


def test_a_state_that_is_none_or_of_other_clients_is_refused() -> None:
    kept: dict[int, bytes] = {}
    simulate(linear(), CLIENTS, HorizontalConfig(rounds=1), save=kept.__setitem__)
    others = {f"site-{number}": data for number, data in enumerate(CLIENTS.values())}
    with pytest.raises(ConfigError, match="a run with other clients, such as client-1"):
        simulate(linear(), others, HorizontalConfig(rounds=2), resume=kept[1])
    with pytest.raises(WireError):
        simulate(linear(), CLIENTS, HorizontalConfig(rounds=2), resume=kept[1][:-1])


def test_integer_buffers_are_averaged_and_stay_integers() -> None:
    # 60, 33 and 5 rows in batches of 9: 7, 4 and 1 batches; (60*7 + 33*4 + 5*1)/98 = 5.68
    result = simulate(deep(), CLIENTS, HorizontalConfig(rounds=1, batch=9))
    count = result.model.state_dict()["1.num_batches_tracked"]
    assert (count.dtype, int(count)) == (torch.int64, 6)


# Faults


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
    config = HorizontalConfig(rounds=5, batch=1000)
    # The scratch model is shared: three batches a round, so that all fail from round 3 on.
    with pytest.raises(RoundError, match=r"round 3.*client-1 \(internal\)") as stopped:
        simulate(Failing(7), CLIENTS, config)
    assert "row 17" in str(stopped.value.__cause__)
    assert "row 17" not in str(stopped.value)
    outcome = stopped.value.outcome
    assert (outcome.report["end"], outcome.report["last_good"]) == ("stopped", "round 2")
    good = simulate(linear(), CLIENTS, HorizontalConfig(rounds=2, batch=1000)).model
    np.testing.assert_array_equal(outcome.artifacts["model.inner.weight"], good.weight.detach().numpy())


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedbss", "flash", "median"])
def test_a_diverged_client_is_a_failure_and_never_reaches_the_model(name: str) -> None:
    bad = Examples(torch.full((4, 4), float("nan")), torch.zeros(4, dtype=torch.int64))
    config = method(name, rounds=3, warmup_share=0.0)
    result = simulate(hidden(), {**CLIENTS, "client-4": bad}, config)
    assert torch.isfinite(flat(result.model)).all()
    for record in result.report["rounds"].values():
        assert "client-4" not in record["clients"]
    if name != "flash":  # which never chooses a client whose signals are no numbers
        assert result.report["rounds"]["1"]["failures"] == {"client-4": "update"}


def test_fedoui_refuses_a_model_without_a_hidden_layer_at_once() -> None:
    with pytest.raises(ConfigError, match="only one layer"):
        simulate(linear(), CLIENTS, method("fedoui"))


def test_clients_without_rows_take_part_and_change_nothing() -> None:
    empty = Examples(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    for name in METHODS:
        config = method(name, rounds=2, warmup_share=0.0, stop_after=5)
        with_it = simulate(hidden(), {**CLIENTS, "client-4": empty}, config)
        assert torch.isfinite(flat(with_it.model)).all(), name
        assert all(not record["failures"] for record in with_it.report["rounds"].values()), name


def test_rows_may_grow_and_fedbss_warms_up_again() -> None:
    data = drawn(40, 4)

    def rows(number: int) -> Examples:
        seen = 20 if number < 4 else 40
        return Examples(data.features[:seen], data.labels[:seen])

    config = method("fedbss", rounds=8, warmup_share=0.125, rewarm_rounds=2, minimum_clients=2)
    result = simulate(linear(), {"grows": ClientData(training=rows), "stays": drawn(30, 5)}, config)
    curriculum = {
        name: [int(number) for number, notes in report["rounds"].items() if "green" in notes]
        for name, report in result.clients.items()
    }
    assert curriculum == {"grows": [2, 3, 6, 7, 8], "stays": [2, 3, 4, 5, 6, 7, 8]}
    assert [notes["people"] for notes in result.clients["grows"]["rounds"].values()] == [20] * 3 + [40] * 5
    for notes in result.clients["stays"]["rounds"].values():
        if "green" in notes:
            assert notes["green"] + notes["red"] == 30
            assert notes["admitted"][-1] == notes["red"]


def test_a_plain_stop_when_validation_rises_and_training_falls() -> None:
    losses = iter([1.0, 0.9, 0.95, 0.96, 0.97, 0.5, 0.4])
    config = HorizontalConfig(rounds=7, batch=1000, stop_after=3)
    result = simulate(linear(), CLIENTS, config, validate=lambda model: {"loss": next(losses)})
    assert result.report["ended_early"].startswith("before round 6: the validation loss rose")
    assert result.report["end"] == "done"
    own = {
        n: ClientData(training=d, validation=Examples(d.features, 1 - d.labels)) for n, d in CLIENTS.items()
    }
    result = simulate(linear(), own, config)  # the clients' own validation rows, all labelled wrong
    assert result.report["ended_early"].startswith("before round 5")


def test_flash_ends_when_too_few_clients_are_left() -> None:
    flips = {n: Examples(d.features, (torch.arange(len(d)) % 2).long()) for n, d in CLIENTS.items()}
    config = method("flash", rounds=60, learning_rate=5.0)
    result = simulate(linear(), flips, config)
    assert "clients are not retired, a round needs 2" in result.report["ended_early"]
    assert result.report["end"] == "done"


@pytest.mark.parametrize("together", [False, True])
def test_clients_that_wait_hold_no_models(together: bool) -> None:
    clients = {f"client-{i}": drawn(3, i) for i in range(40)}
    alive: list[int] = []

    def count(model: nn.Module) -> dict[str, float]:
        alive.append(holding())
        return {}

    def holding() -> int:
        return sum(type(thing) in (Broadcast, Update, Job) for thing in gc.get_objects())

    gc.collect()
    before = holding()  # of other tests

    config = HorizontalConfig(rounds=4, fraction=0.25)
    result = simulate(hidden(), clients, config, validate=count, together=together)
    everybody = {client for record in result.report["rounds"].values() for client in record["clients"]}
    assert len(everybody) > 20
    assert max(alive) - before <= 12  # ten updates of the round, its broadcast, and one at hand


# Settings, reports, names


def test_another_objective() -> None:
    def squared(outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels).square()

    data = {name: Examples(c.features, c.features[:, 0] * 2) for name, c in CLIENTS.items()}
    result = simulate(linear(), data, HorizontalConfig(rounds=40), research=Research(objective=squared))
    torch.testing.assert_close(
        result.model.weight[0], torch.tensor([2.0, 0.0, 0.0, 0.0]), rtol=0.02, atol=0.02
    )


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_other_optimizers(optimizer: str) -> None:
    config = HorizontalConfig(rounds=20, optimizer=optimizer, learning_rate=0.05)
    result = simulate(linear(), CLIENTS, config)
    assert accuracy(result.model, drawn(200, 8)) > 0.8


def test_scaffold_refuses_another_optimizer_of_research_too() -> None:
    research = Research(optimizer=lambda parameters: torch.optim.Adam(parameters))
    with pytest.raises(RoundError, match=r"client-1 \(config\)") as stopped:
        simulate(linear(), CLIENTS, method("scaffold"), research=research)
    assert "plain gradient steps" in str(stopped.value.__cause__)


def test_each_client_reports_what_the_model_is_worth_on_its_own_test_rows() -> None:
    clients = {n: ClientData(training=d, test=drawn(50, 6)) for n, d in CLIENTS.items()}
    result = simulate(linear(), clients, HorizontalConfig(rounds=2))
    for report in result.clients.values():
        assert report["test"] == {"people": 50, **metrics(result.model, drawn(50, 6))}


def test_of_a_report_nothing_below_the_limit_is_released() -> None:
    result = simulate(linear(), CLIENTS, method("fedbss", rounds=2, warmup_share=0.0))
    released = releasable(result.clients["client-3"], 10)["rounds"]["1"]
    assert "suppressed" in released["green"]
    assert released["people"] == {"suppressed": "<10", "reason": released["people"]["reason"]}
    assert releasable(result.report, 10)["last_good"] == "round 2"


def test_names() -> None:
    with pytest.raises(ConfigError, match="can't be called aggregator"):
        simulate(linear(), {AGGREGATOR: drawn(3, 0)}, HorizontalConfig(minimum_clients=1))
    with pytest.raises(ConfigError, match="at least 2 clients, there are 1"):
        simulate(linear(), {"client-1": drawn(3, 0)}, HorizontalConfig())
