"""The plain reference trains the product's model: the same loss in every step."""

from dataclasses import replace

import pytest

from benchmarks.plain_fedcvt import Joined, PlainFedCVT
from protocols.errors import ConfigError
from protocols.seeds import injected
from tests.vertical.runs import PUBLIC_SEED, SMALL, run, two_parties
from vertical.choices import EncoderKind
from vertical.config import FedCVTConfig

CONFIG = replace(SMALL, aligned_batch=40, max_aligned_train=40, d=4, steps=12, learning_rate=0.05)
SEEDS = injected(0, "active"), injected(0, "passive")


def product_and_plain(config: FedCVTConfig, **people: int) -> tuple[list[float], PlainFedCVT, int]:
    """The product's losses, the reference before its training, and the pseudo labels of the last steps."""
    active, passive = two_parties(**people)
    left, right = run(active, passive, config)
    data = {"active": active, "passive": passive}
    joined = Joined.of(data, {"active": left.artifacts, "passive": right.artifacts})
    plain = PlainFedCVT(joined, config, PUBLIC_SEED, SEEDS)
    return left.report["loss"]["fedcvt"]["values"], plain, left.report["pseudo_labels"]["accepted"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.7, "input_noise": 0.0, "weight_decay": 0.1, "l2": 1.0, "l5": 2.0},
        {"alone_batch": 100, "memory_pool": 100, "memory_every": 1},
    ],
    ids=["small", "other weights", "everybody"],
)
def test_the_reference_has_the_products_losses(changes):
    losses, plain, accepted = product_and_plain(replace(CONFIG, **changes))
    assert accepted > 0, "the vote must take part in what is compared"
    assert plain.train() == pytest.approx(losses, abs=1e-5, rel=0)


def test_its_tick_comes_after_each_step():
    _, plain, _ = product_and_plain(CONFIG)
    told: list[tuple[int, float]] = []
    losses = plain.train(lambda step, loss: told.append((step, loss)))
    assert told == list(enumerate(losses))


@pytest.mark.parametrize(
    ("changes", "people", "name"),
    [
        ({"encoder": EncoderKind.MLP}, {}, "linear encoders"),
        ({"head_hidden": 3}, {}, "linear heads"),
        ({"unique_active": 3}, {}, "equal widths"),
        ({"aligned_batch": 39}, {}, "all aligned rows"),
        ({"pseudo_weighting": "union"}, {}, "by share"),
        ({"class_balance": True}, {}, "no class weights"),
        ({}, {"missing_labels": 3}, "all labels"),
    ],
)
def test_settings_that_it_does_not_take_are_named(changes, people, name):
    with pytest.raises(ConfigError, match=name):
        product_and_plain(replace(CONFIG, **changes), **people)
