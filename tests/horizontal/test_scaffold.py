"""SCAFFOLD's formulas: AC-11's value, three rounds of two clients by hand, options, means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from horizontal.average import Contribution, NoExamplesError
from horizontal.local import Examples, plan, train
from horizontal.scaffold import Variates, check_plain, gradient_at, server_step, zero_control
from protocols.errors import ConfigError


def number(value: float) -> dict[str, np.ndarray]:
    return {"w": np.array([value])}


def squared(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return 0.5 * (outputs[:, 0] - labels).square()


def test_option_two_uses_the_clients_own_number_of_steps() -> None:
    # AC-11: 3 batches an epoch, 2 epochs, so K = 6: .2 - .5 + (1 - .4)/(6 * .1) = .7; with K = 3 it were 1.7
    own, server = number(0.2), number(0.5)
    both = Variates(own=own, server=server)
    new = both.next(number(1.0), number(0.4), steps=6, learning_rate=0.1)
    assert new["w"].item() == pytest.approx(0.7)
    wrong = both.next(number(1.0), number(0.4), steps=3, learning_rate=0.1)
    assert wrong["w"].item() == pytest.approx(1.7)


def test_a_client_that_made_no_step_keeps_its_control_variate() -> None:
    for gradient in (None, number(9.0)):
        both = Variates(own=number(0.2), server=number(0.5), gradient=gradient)
        same = both.next(number(1.0), number(1.0), steps=0, learning_rate=0.1)
        assert same["w"].item() == 0.2


def test_option_one_takes_the_gradient_at_the_received_model() -> None:
    both = Variates(own=number(0.2), server=number(0.5), gradient=number(0.9))
    assert both.next(number(1.0), number(0.4), steps=6, learning_rate=0.1)["w"].item() == 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p),
        lambda p: torch.optim.AdamW(p),
        lambda p: torch.optim.RMSprop(p),
    ],
)
def test_other_optimizers_than_plain_gradient_descent_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="SCAFFOLD corrects plain gradient steps; the optimizer is"):
        check_plain(make(nn.Linear(1, 1).parameters()))
    check_plain(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))


def test_the_correction_adds_server_minus_own() -> None:
    gradient = torch.tensor([1.0], dtype=torch.float64)
    Variates(own=number(0.2), server=number(0.5)).correction()({"w": gradient})
    assert gradient.item() == pytest.approx(1.3)


def contribution(client: str, model: float, change: float, examples: int = 1) -> Contribution:
    return Contribution(
        client=client, examples=examples, arrays=number(model), extras={"control.w": np.array([change])}
    )


def test_server_step_by_hand() -> None:
    # x = 1 + .5 ((.4 + .8)/2 - 1) = .8; c = .5 + 2/4 * (.3 + .1)/2 = .6; sizes don't count
    sent = [contribution("a", 0.4, 0.3, examples=90), contribution("b", 0.8, 0.1, examples=10)]
    model, control = server_step(number(1.0), number(0.5), sent, clients=4, server_rate=0.5)
    assert model["w"].item() == pytest.approx(0.8)
    assert control["w"].item() == pytest.approx(0.6)


def test_clients_without_rows_are_not_sampled() -> None:
    sent = [contribution("a", 0.4, 0.3), contribution("b", 9.0, 9.0, examples=0)]
    model, control = server_step(number(1.0), number(0.5), sent, clients=2, server_rate=1.0)
    assert model["w"].item() == pytest.approx(0.4)
    assert control["w"].item() == pytest.approx(0.65)  # .5 + 1/2 * .3
    with pytest.raises(NoExamplesError):
        server_step(number(1.0), number(0.5), sent[1:], clients=2, server_rate=1.0)


def test_buffers_are_averaged_and_have_no_control_variate() -> None:
    model = number(1.0) | {"count": np.array(4)}
    sent = [
        Contribution(
            client=name,
            examples=1,
            arrays=number(w) | {"count": np.array(n)},
            extras={"control.w": np.zeros(1)},
        )
        for name, w, n in (("a", 0.5, 5), ("b", 1.5, 9))
    ]
    control = zero_control(model, ["w"])
    assert list(control) == ["w"]
    new, _ = server_step(model, control, sent, clients=2, server_rate=0.5)
    assert (new["count"].dtype, int(new["count"]), new["w"].item()) == (np.int64, 7, 1.0)


def test_option_one_is_the_gradient_of_all_rows_whatever_the_batches() -> None:
    # loss (w x - y)^2 / 2, w = 1: gradients (w x - y) x = 1, 2, -6; mean -1
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    data = Examples(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0.0, 1.0, 5.0]))
    for at_once in (1, 2, 3):
        assert gradient_at(model, data, squared, at_once=at_once)["weight"].item() == pytest.approx(-1.0)


def test_three_rounds_of_two_clients_by_hand() -> None:
    """One weight, client losses (w - 0)^2/2 with 1 step a round and (w - 4)^2/2 with 2 steps, lr .5, from w = 1.

    round 1, c = c_a = c_b = 0:
        a: y = 1 - .5 * 1 = .5;                           c_a = (1 - .5)/(1 * .5) = 1
        b: y = 1 + .5 * 3 = 2.5, then 2.5 + .5 * 1.5 = 3.25; c_b = (1 - 3.25)/(2 * .5) = -2.25
        x = (.5 + 3.25)/2 = 1.875;                        c = (1 - 2.25)/2 = -.625
    round 2:
        a: y = 1.875 - .5 (1.875 - 1 - .625) = 1.75;       c_a = 1 + .625 + .125/.5 = 1.875
        b: correction 2.25 - .625 = 1.625; y = 1.875 - .5 (-2.125 + 1.625) = 2.125, 2.125 - .5 (-1.875 + 1.625) = 2.25
           c_b = -2.25 + .625 + (1.875 - 2.25)/1 = -2
        x = 2;                                            c = -.625 + (.875 + .25)/2 = -.0625
    round 3:
        a: y = 2 - .5 (2 - 1.875 - .0625) = 1.96875;        c_a = 1.875 + .0625 + .03125/.5 = 2
        b: correction 1.9375; y = 2 - .5 (-2 + 1.9375) = 2.03125, 2.03125 - .5 (-1.96875 + 1.9375) = 2.046875
           c_b = -2 + .0625 + (2 - 2.046875)/1 = -1.984375
        x = 2.0078125;                                    c = -.0625 + (.125 + .015625)/2 = .0078125
    All numbers are exact in binary. The joint optimum is 2; FedAvg with these steps would stay off it.
    """
    sites = {
        "a": (Examples(torch.ones(1, 1), torch.zeros(1)), 1),
        "b": (Examples(torch.ones(1, 1), torch.full((1,), 4.0)), 2),
    }
    model = nn.Linear(1, 1, bias=False)
    x, c = {"weight": np.ones((1, 1), np.float32)}, {"weight": np.zeros((1, 1), np.float32)}
    own = dict.fromkeys(sites, c)
    seen = []
    for _ in range(3):
        sent = []
        for name, (data, epochs) in sites.items():
            model.load_state_dict({"weight": torch.tensor(x["weight"])})
            steps = plan(1, epochs=epochs, batch=1, generator=torch.Generator())
            sgd = torch.optim.SGD(model.parameters(), lr=0.5)
            both = Variates(own=own[name], server=c)
            done = train(model, sgd, data, steps, seed=0, objective=squared, adjustment=both.correction())
            trained = {"weight": model.weight.detach().numpy().copy()}
            new = both.next(x, trained, steps=done.steps, learning_rate=0.5)
            change = {"control.weight": new["weight"] - own[name]["weight"]}
            sent.append(Contribution(client=name, examples=1, arrays=trained, extras=change))
            own[name] = new
        x, c = server_step(x, c, sent, clients=2, server_rate=1.0)
        seen.append([float(v["weight"]) for v in (x, c, own["a"], own["b"])])
    assert seen == [
        [1.875, -0.625, 1.0, -2.25],
        [2.0, -0.0625, 1.875, -2.0],
        [2.0078125, 0.0078125, 2.0, -1.984375],
    ]
