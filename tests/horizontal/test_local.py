"""The one local loop: plain SGD by hand, batches, batch normalisation, randomness, and its four functions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from horizontal.local import Examples, Named, Training, outputs, plan, train
from horizontal.weights import model_arrays
from protocols.errors import BlockError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def examples(n: int, f: int = 3, seed: int = 0) -> Examples:
    drawn = generator(seed)
    return Examples(torch.randn(n, f, generator=drawn), torch.randint(2, (n,), generator=drawn))


def net(*layers: nn.Module) -> nn.Module:
    model = nn.Sequential(*layers)
    drawn = generator(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn))
    return model


def fit(
    model: nn.Module, data: Examples, *, epochs=1, batch=4, seed=0, lr=0.1, admission=None, **functions
) -> Training:
    sgd = torch.optim.SGD(model.parameters(), lr=lr)
    steps = plan(len(data), epochs=epochs, batch=batch, generator=generator(seed), admission=admission)
    return train(model, sgd, data, steps, seed=seed, **functions)


def squared(outputs: Tensor, labels: Tensor) -> Tensor:
    return (outputs[:, 0] - labels).square()


def test_one_step_by_hand() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    data = Examples(torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 1.0]))
    done = fit(model, data, batch=2, objective=squared)
    # loss (1 + 1)/2 = 1; gradient 2(1*1 + 1*2)/2 = 3; w = 1 - .1 * 3
    assert done == Training(examples=2, steps=1, losses=(1.0,))
    assert model.weight.item() == pytest.approx(0.7)


def test_full_batches_are_plain_gradient_descent_bit_for_bit() -> None:
    data, model, plain = examples(9), net(nn.Linear(3, 2)), net(nn.Linear(3, 2))
    fit(model, data, epochs=5, batch=100)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(5):
        sgd.zero_grad()
        nn.functional.cross_entropy(plain(data.features), data.labels).backward()
        sgd.step()
    for ours, oracle in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, oracle)


@pytest.mark.parametrize(("n", "steps"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_sizes_and_steps(n: int, steps: int) -> None:
    model = net(nn.Linear(3, 2))
    before = model_arrays(model)
    done = fit(model, examples(n), epochs=2)
    assert (done.examples, done.steps, len(done.losses)) == (n, 2 * steps, 2 if n else 0)
    changed = any((before[name] != value).any() for name, value in model_arrays(model).items())
    assert changed == (n > 0)


def test_each_epoch_takes_each_row_once_in_another_order() -> None:
    seen: list[float] = []

    def watch(outputs: Tensor, labels: Tensor) -> Tensor:
        seen.extend(labels.tolist())
        return outputs.sum(dim=1)

    data = Examples(torch.zeros(10, 3), torch.arange(10.0))
    fit(net(nn.Linear(3, 2)), data, epochs=2, objective=watch)
    assert sorted(seen[:10]) == sorted(seen[10:]) == data.labels.tolist()
    assert seen[:10] != seen[10:]


@pytest.mark.parametrize("n", [1, 5, 9])
@pytest.mark.parametrize("batch", [1, 4])
def test_batch_normalisation_survives_a_batch_of_one_row(n: int, batch: int) -> None:
    model = net(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    done = fit(model, examples(n), batch=batch)
    assert all(np.isfinite(value).all() for value in model_arrays(model).values())
    counted = int(model[1].num_batches_tracked)
    assert done.steps == -(-n // batch)
    assert counted == (0 if batch == 1 else n // batch)  # batches that have statistics
    assert model[1].training or n % batch == 1 or batch == 1


def test_a_layer_left_in_evaluation_mode_trains_again_in_the_next_batch() -> None:
    model = net(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    fit(model, examples(5), epochs=3)
    assert int(model[1].num_batches_tracked) == 3


def test_the_generator_decides_order_and_dropout_and_nothing_else_does() -> None:
    def weights(seed: int, outer: int) -> Tensor:
        torch.manual_seed(outer)
        model = net(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        fit(model, examples(10), epochs=2, seed=seed)
        assert torch.initial_seed() == outer
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(weights(1, outer=3), weights(1, outer=4))
    assert not torch.equal(weights(1, outer=3), weights(2, outer=3))


def test_the_global_generator_is_left_as_it_was() -> None:
    model = net(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    before = torch.get_rng_state()
    fit(model, examples(10))
    assert torch.equal(torch.get_rng_state(), before)


def test_any_optimizer_will_do() -> None:
    data = examples(40)
    data = Examples(data.features, (data.features[:, 0] > 0).long())
    model = net(nn.Linear(3, 2))
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    done = train(model, adam, data, plan(40, epochs=20, batch=16, generator=generator()), seed=0)
    assert done.losses[-1] < 0.5 * done.losses[0]


def test_a_penalty_pulls_and_is_not_part_of_the_loss() -> None:
    def norm(parameters: Named) -> Tensor:
        return 10.0 * sum(p.square().sum() for p in parameters.values())

    free, held = net(nn.Linear(3, 2)), net(nn.Linear(3, 2))
    loss = fit(free, examples(4), lr=0.01).losses
    assert fit(held, examples(4), lr=0.01, penalty=norm).losses == loss
    # One step differs by lr times the penalty's gradient: .01 * 20 w = .2 w
    start = net(nn.Linear(3, 2))[0].weight
    torch.testing.assert_close(held[0].weight, free[0].weight - 0.2 * start)


def test_an_adjustment_changes_each_step_after_backward() -> None:
    def add_one(gradients: Named) -> None:
        for gradient in gradients.values():
            gradient += 1.0

    free, moved = net(nn.Linear(3, 2)), net(nn.Linear(3, 2))
    fit(free, examples(4), epochs=1)
    fit(moved, examples(4), epochs=1, adjustment=add_one)
    torch.testing.assert_close(moved[0].weight, free[0].weight - 0.1)


def test_an_admission_decides_rows_and_order() -> None:
    seen: list[list[float]] = []

    def watch(outputs: Tensor, labels: Tensor) -> Tensor:
        seen.append(labels.tolist())
        return outputs.sum(dim=1)

    data = Examples(torch.zeros(5, 3), torch.arange(5.0))
    done = fit(
        net(nn.Linear(3, 2)),
        data,
        epochs=3,
        batch=2,
        objective=watch,
        admission=lambda epoch, _: torch.tensor([[], [4], [2, 0, 1]][epoch - 1], dtype=torch.int64),
    )
    assert seen == [[4.0], [2.0, 0.0], [1.0]]
    assert (done.examples, done.steps, len(done.losses)) == (5, 3, 2)


@pytest.mark.parametrize(("x", "y"), [((3, 2), (2,)), ((), (2,)), ((2, 2), ())])
def test_rows_must_fit(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    with pytest.raises(BlockError, match="differ in rows"):
        Examples(torch.zeros(x), torch.zeros(y))


def test_examples_may_be_empty() -> None:
    assert len(Examples(torch.zeros(0, 3), torch.zeros(0))) == 0


def test_frozen_parameters_stay_and_are_no_business_of_the_functions() -> None:
    model, seen = net(nn.Linear(3, 4), nn.Linear(4, 2)), []
    model[0].requires_grad_(False)
    before = model_arrays(model)
    fit(model, examples(4), adjustment=lambda gradients: seen.append(sorted(gradients)))
    assert seen == [["1.bias", "1.weight"]]
    after = model_arrays(model)
    np.testing.assert_array_equal(after["0.weight"], before["0.weight"])
    assert (after["1.weight"] != before["1.weight"]).any()


def test_outputs_are_those_of_evaluation_mode_whatever_the_batch() -> None:
    model, data = net(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)), examples(7)
    whole = outputs(model, data.features)
    assert (tuple(whole.shape), whole.requires_grad) == ((7, 2), False)
    torch.testing.assert_close(outputs(model, data.features, at_once=2), whole)
    assert tuple(outputs(model, data.features[:0]).shape) == (0, 2)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_images_of_any_number_of_classes(classes: int) -> None:
    drawn = generator(1)
    data = Examples(torch.randn(9, 1, 6, 6, generator=drawn), torch.arange(9) % classes)
    model = net(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, classes))
    done = fit(model, data, epochs=30, batch=4, lr=0.05)  # a last batch of one row
    assert done.losses[-1] < done.losses[0]
