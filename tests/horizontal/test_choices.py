"""What combines and what doesn't: by hand, for all combinations, and as the printed table."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from horizontal.choices import PARTS, Adjustment, Aggregation, Optimizer, needs_each_update, problems
from horizontal.compatibility import table
from horizontal.config import HorizontalConfig
from protocols.errors import ConfigError

PLAIN = {part: next(iter(kind)).value for part, kind in PARTS.items()}


def test_the_plainest_choices_are_fedavg_and_the_defaults() -> None:
    assert HorizontalConfig().parts() == PLAIN
    assert problems(PLAIN) == ()
    assert needs_each_update(PLAIN) == ()


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"adjustment": "scaffold"}, ["adjustment scaffold with aggregation size: SCAFFOLD's server"]),
        ({"adjustment": "scaffold", "aggregation": "mean"}, []),
        (
            {"adjustment": "scaffold", "aggregation": "mean", "optimizer": "momentum"},
            ["adjustment scaffold with optimizer momentum: SCAFFOLD corrects"],
        ),
        (
            {"aggregation": "fednova", "optimizer": "adam"},
            ["aggregation fednova with optimizer adam: FedNova divides"],
        ),
        (
            {"adjustment": "scaffold", "aggregation": "fednova", "optimizer": "adam"},
            [
                "adjustment scaffold with optimizer",
                "adjustment scaffold with aggregation",
                "aggregation fednova with",
            ],
        ),
        ({"selection": "flash", "admission": "fedbss", "penalty": "fedprox", "aggregation": "fedoui"}, []),
    ],
)
def test_refused_pairs(changes: dict[str, str], texts: list[str]) -> None:
    found = problems(PLAIN | changes)
    assert len(found) == len(texts)
    for came, text in zip(found, texts, strict=True):
        assert came.startswith(text)


def test_of_all_combinations_exactly_those_are_refused_that_should_be() -> None:
    for values in product(*PARTS.values()):
        parts = dict(zip(PARTS, values, strict=True))
        scaffold = parts["adjustment"] is Adjustment.SCAFFOLD
        plain = parts["optimizer"] is Optimizer.SGD
        fine = not (scaffold and (not plain or parts["aggregation"] is not Aggregation.MEAN))
        fine = fine and (plain or parts["aggregation"] is not Aggregation.FEDNOVA)
        assert (problems(parts) == ()) == fine, parts
        settings = {name: value for name, value in parts.items() if name != "penalty"}
        settings["mu"] = 0.1 if parts["penalty"] == "fedprox" else 0.0
        if fine:
            assert HorizontalConfig(**settings).parts() == parts
        else:
            with pytest.raises(ConfigError):
                HorizontalConfig(**settings)


def test_what_sums_are_not_enough_for() -> None:
    found = needs_each_update(PLAIN | {"selection": "flash", "aggregation": "median"})
    assert [reason.split(":")[0] for reason in found] == ["flash", "median"]


def test_the_table_names_every_choice_and_both_sides_of_a_refused_pair() -> None:
    lines = table().splitlines()
    for part, kind in PARTS.items():
        for choice in kind:
            assert sum(line.startswith(f"| {part} | {choice} |") for line in lines) == 1
    assert "| aggregation | size | adjustment scaffold (2) | yes |" in lines
    assert any(
        line.startswith("| optimizer | adam | adjustment scaffold (1); aggregation fednova (3) |")
        for line in lines
    )


def test_the_table_in_the_docs_is_this_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "horizontal.md"
    words, there = (" ".join(text.split()) for text in (table(), page.read_text(encoding="utf-8")))
    assert words in there, "but for where lines are broken"
