"""Training in two programs is, bit for bit, training one joint model in one autograd graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from protocols.seeds import derive, injected, public_order
from tests.vertical.runs import PUBLIC_SEED, SMALL, party, run, two_parties
from vertical.choices import EncoderKind, Normalisation, Scaling, ViewShape
from vertical.config import FedCVTConfig
from vertical.encoders import view_encoder
from vertical.fedcvt import StepLabels, StepViews, objective
from vertical.heads import Heads
from vertical.optimiser import learning_rate
from vertical.preprocess import fit
from vertical.table import Split
from vertical.views import Memory


def generator(role: str, purpose: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive(injected(0, role), purpose))


def rows_of(group: str, size: int, batch: int, step: int) -> torch.Tensor:
    order = public_order(PUBLIC_SEED, group, size, batch, step) if batch else np.zeros(0, np.int64)
    return torch.tensor(order)


def scaled(party, config: FedCVTConfig, shape: ViewShape, rows, alone):
    """Features of all rows of a party by rules fitted on its training rows."""
    training = np.concatenate([rows, alone])
    rules = fit(party.table, training, config.scaling, shape.image, cuts=config.cuts)
    return rules.transform(party.table)


class JointModel(torch.nn.Module):
    """Both parties' encoders and the heads in one module, with the parties' initial weights."""

    def __init__(self, config: FedCVTConfig, widths: tuple[int, int], classes: int) -> None:
        super().__init__()
        own = generator("active", "fedcvt weights")
        self.active = view_encoder(config, config.active_view, widths[0], own)
        self.heads = Heads(config, classes, own)
        other = generator("passive", "fedcvt weights")
        self.passive = view_encoder(config, config.passive_view, widths[1], other)


class Joint:
    """The whole joined training set and one optimiser over everything: what no party could hold."""

    def __init__(self, active, passive, config: FedCVTConfig, orders) -> None:
        """`orders`: the row numbers (aligned, alone) of each party."""
        self.config = config
        (a_rows, a_alone), (p_rows, p_alone) = orders
        first = scaled(active, config, config.active_view, a_rows, a_alone)
        second = scaled(passive, config, config.passive_view, p_rows, p_alone)
        self.a, self.a_alone = torch.tensor(first[a_rows]), torch.tensor(first[a_alone])
        self.p, self.p_alone = torch.tensor(second[p_rows]), torch.tensor(second[p_alone])
        self.y, self.y_alone = torch.tensor(active.labels[a_rows]), torch.tensor(active.labels[a_alone])
        self.model = JointModel(config, (first.shape[1], second.shape[1]), len(active.classes))
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )

    def train(self) -> list[float]:
        return [self.step(step) for step in range(self.config.steps)]

    def step(self, step: int) -> float:
        c, model = self.config, self.model
        if step % c.memory_every == 0:
            self.memory = self.remember(step // c.memory_every)
        rows = rows_of("aligned", len(self.a), c.aligned_batch, step)
        n = len(rows)
        a_alone = rows_of("active only", len(self.a_alone), c.alone_batch, step)
        p_alone = rows_of("passive only", len(self.p_alone), c.alone_batch, step)
        a = model.active(
            torch.cat([self.a[rows], self.a_alone[a_alone]]), generator("active", f"fedcvt step {step}")
        )
        p = model.passive(
            torch.cat([self.p[rows], self.p_alone[p_alone]]), generator("passive", f"fedcvt step {step}")
        )
        views = StepViews(
            active_aligned=a.take(slice(0, n)),
            active_alone=a.take(slice(n, None)),
            passive_aligned=p.take(slice(0, n)),
            passive_alone=p.take(slice(n, None)),
            rows=rows,
        )
        labels = StepLabels(aligned=self.y[rows], alone=self.y_alone[a_alone])
        loss = objective(c, model.heads, views, self.memory, labels, step=step).total
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.param_groups[0]["lr"] = learning_rate(c, step)
        self.optimiser.step()
        return float(loss.detach())

    @torch.no_grad()
    def remember(self, refresh: int) -> Memory:
        c, model = self.config, self.model
        a, p = model.active(self.a), model.passive(self.p)
        a_pool = rows_of("active pool", len(self.a_alone), c.memory_pool, refresh)
        p_pool = rows_of("passive pool", len(self.p_alone), c.memory_pool, refresh)
        place = torch.arange(len(self.a))
        return Memory(
            active_unique=a.unique,
            passive_unique=p.unique,
            active_common=torch.cat([a.common, model.active.common(self.a_alone[a_pool])]),
            passive_common=torch.cat([p.common, model.passive.common(self.p_alone[p_pool])]),
            active_position=place,
            passive_position=place,
        )


def orders(left, right):
    return (
        (left.artifacts["rows.aligned_train"], left.artifacts["rows.active_only"]),
        (right.artifacts["rows.aligned_train"], right.artifacts["rows.passive_only"]),
    )


def assert_equal_parameters(joint: Joint, left, right, *, tolerance: float | None = None) -> None:
    """The parties' parameters and running statistics against the joint model's, exactly unless a tolerance is given."""
    pairs = {
        **{f"fedcvt.encoder.{k}": (v, left) for k, v in joint.model.active.state_dict().items()},
        **{f"fedcvt.heads.{k}": (v, left) for k, v in joint.model.heads.state_dict().items()},
    }
    pairs |= {f"passive {k}": (v, right) for k, v in joint.model.passive.state_dict().items()}
    for name, (expected, outcome) in pairs.items():
        came = torch.tensor(outcome.artifacts[name.replace("passive ", "fedcvt.encoder.")])
        if tolerance is None:
            assert torch.equal(came, expected.detach()), name
        else:
            assert torch.allclose(came, expected.detach(), rtol=0, atol=tolerance), name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder": EncoderKind.MLP, "dropout": 0.3, "input_noise": 0.2, "head_hidden": 4},
        {"live_keys": False, "pseudo_passive": True, "label_smoothing": 0.1},
        {"fill": False},
        {"encoder": EncoderKind.MLP, "normalisation": Normalisation.BATCH, "dropout": 0.3},
        {"encoder": EncoderKind.MLP, "normalisation": Normalisation.LAYER, "scaling": Scaling.QUANTILE},
        {"encoder": EncoderKind.CNN, "image_active": "3x1", "image_passive": "1x2", "channels": 2},
        {"encoder": EncoderKind.CNN, "image_active": "1x3", "normalisation": Normalisation.BATCH},
        {"unique_active": 5, "unique_passive": 2},
        {"unique_active": 1, "unique_passive": 4, "fill": False},
        {"alone_batch": 0, "memory_pool": 0},
        {"aligned_batch": 100, "alone_batch": 100, "memory_pool": 100},
    ],
    ids=[
        "linear",
        "mlp",
        "plain keys",
        "no fill",
        "batch normalisation",
        "layer normalisation",
        "images",
        "an image and a table",
        "other widths",
        "other widths, no fill",
        "no alone rows",
        "everybody each step",
    ],
)
def test_two_programs_give_the_joint_models_bits(changes):
    config = replace(SMALL, **changes)
    active, passive = two_parties(missing_labels=3)
    left, right = run(active, passive, config)
    joint = Joint(active, passive, config, orders(left, right))
    joint.train()
    assert_equal_parameters(joint, left, right)


def test_three_classes_and_class_weights_do_not_matter_to_it():
    active, passive = two_parties(classes=("low", "middle", "high"))
    left, right = run(active, passive, SMALL)
    joint = Joint(active, passive, SMALL, orders(left, right))
    joint.train()
    assert left.artifacts["fedcvt.heads.joint.layers.0.weight"].shape == (3, 4 * SMALL.d)
    assert_equal_parameters(joint, left, right)


AC_16 = FedCVTConfig(
    d=4,
    steps=5,
    aligned_batch=64,
    pseudo=False,
    folds=0,
    linear_views=0,
    baselines=False,
    minimum_overlap=1,
    memory_every=1,
    learning_rate=0.05,
)


def full_overlap():
    return two_parties(aligned=64, test=0, active_only=0, passive_only=0)


def test_ac_16_full_overlap_gives_the_joint_models_loss_and_weights():
    active, passive = full_overlap()
    left, right = run(active, passive, AC_16)
    joint = Joint(active, passive, AC_16, orders(left, right))
    losses = joint.train()
    released = left.report["loss"]["fedcvt"]["values"]
    assert released == pytest.approx(losses, abs=1e-5)
    assert_equal_parameters(joint, left, right, tolerance=1e-5)


def test_ac_16_weight_decay_shrinks_the_encoders():
    active, passive = full_overlap()
    norms = []
    for decay in (0.0, 0.1, 1.0):
        outcomes = run(active, passive, replace(AC_16, weight_decay=decay))
        weights = [
            v for o in outcomes for k, v in o.artifacts.items() if "encoder" in k and k.endswith("weight")
        ]
        assert len(weights) == 4
        norms.append([float(np.linalg.norm(w)) for w in weights])
    assert all(a > b > c for a, b, c in zip(*norms, strict=True))


@pytest.mark.parametrize("parties", [full_overlap, two_parties], ids=["full overlap", "partial"])
def test_ac_16_the_order_of_the_files_changes_nothing(parties):
    active, passive = parties()
    config = replace(SMALL, baselines=True, steps=5)
    first = run(active, passive, config)
    draw = np.random.default_rng(5)
    again = run(
        active.take(draw.permutation(active.table.rows)),
        passive.take(draw.permutation(passive.table.rows)),
        config,
    )
    for before, after in zip(first, again, strict=True):
        for name, value in before.artifacts.items():
            if not name.startswith("rows."):
                np.testing.assert_allclose(after.artifacts[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_same_seeds_same_bits_and_other_seeds_other_bits():
    active, passive = two_parties()
    config = replace(SMALL, baselines=True, input_noise=0.1)
    first, again, other = (run(active, passive, config, seed=seed) for seed in (0, 0, 1))
    for before, after in zip(first, again, strict=True):
        assert before.report == after.report
        assert before.artifacts.keys() == after.artifacts.keys()
        assert all(np.array_equal(v, after.artifacts[k]) for k, v in before.artifacts.items())
    for before, after in zip(first, other, strict=True):
        name = "fedcvt.encoder.common.layers.0.weight"
        assert not np.array_equal(before.artifacts[name], after.artifacts[name])


def test_a_party_draws_nothing_from_torchs_global_generator():
    active, passive = two_parties()
    state = torch.random.get_rng_state()
    run(active, passive, replace(SMALL, baselines=True, dropout=0.2, encoder=EncoderKind.MLP))
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_aligned_only_baseline_is_the_same_programs_with_empty_pools():
    """Its messages are the ordinary ones without alone rows, and it needs no memory."""
    active, passive = two_parties()
    alone_rows = []

    def observe(sender, to, message):
        if type(message).__name__.startswith("Baseline") and hasattr(message, "alone"):
            alone_rows.append(message.alone.shape[0])

    run(active, passive, replace(SMALL, baselines=True), observe=observe)
    assert alone_rows == [0] * (2 * SMALL.baseline_steps)


def test_training_people_in_splits_that_differ_are_left_out():
    people = np.arange(30)
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(30, 5)), draw.integers(0, 2, 30)
    first, second = np.zeros(30), np.zeros(30)
    first[20:] = Split.TEST  # 10 test people at the active party,
    second[15:] = Split.TEST  # of 15 at the passive one: 15..19 differ
    first[0] = Split.VALIDATION
    second[0] = Split.VALIDATION
    active = party(people, features[:, :3], first, labels, ("no", "yes"))
    passive = party(people, features[:, 3:], second)
    left, right = run(active, passive, SMALL)
    assert left.artifacts["rows.aligned_train"].tolist() != list(range(1, 15))  # the common order is by tag
    assert sorted(left.artifacts["rows.aligned_train"]) == list(range(1, 15))
    assert sorted(right.artifacts["rows.aligned_test"]) == list(range(20, 30))
    assert len(right.artifacts["rows.passive_only"]) == len(left.artifacts["rows.active_only"]) == 0
    for outcome in (left, right):
        counts = {name: int(outcome.artifacts[f"people.{name}"]) for name in ("train", "validation", "test")}
        assert counts == {"train": 14, "validation": 1, "test": 10}
        assert outcome.artifacts["people.split_differs"] == 5
