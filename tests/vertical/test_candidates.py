"""Candidates: a fixed table that never changes what is sent."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from protocols.errors import ConfigError
from vertical.candidates import AT_MOST, CANDIDATES, candidate_names
from vertical.choices import EncoderKind
from vertical.config import FedCVTConfig
from vertical.manifest import manifest


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "unknown ''"),
        ("linear,tall", "unknown 'tall'"),
        ("linear, linear", "named twice"),
        ("given,linear,small,wide,", "unknown ''"),
    ],
)
def test_a_list_that_cannot_be_is_named(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        FedCVTConfig(candidates=text)


def test_more_than_four_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vertical.candidates.CANDIDATES", {name: {} for name in "abcde"})
    assert len(candidate_names("a,b,c,d")) == AT_MOST
    with pytest.raises(ConfigError, match="at most 4 can be compared, came 5"):
        candidate_names("a,b,c,d,e")


def test_a_candidate_keeps_every_other_setting() -> None:
    config = FedCVTConfig(steps=70, candidates="wide,linear", l1=0.5)
    assert config.candidate_names == ("wide", "linear")
    chosen = config.candidate("wide")
    assert chosen.encoder is EncoderKind.MLP
    assert chosen.candidate_names == ("given",)
    changed = {name for name, value in asdict(config).items() if value != getattr(chosen, name)}
    assert changed <= {*CANDIDATES["wide"], "candidates"}
    assert FedCVTConfig(hidden=9, candidates="given").candidate("given").hidden == 9


def test_a_candidate_for_images_is_left_out_where_there_are_none() -> None:
    assert FedCVTConfig(candidates="image,linear").candidate_names == ("linear",)
    image = FedCVTConfig(candidates="image,linear", image_passive="4x2")
    assert image.candidate_names == ("image", "linear")
    assert image.candidate("image").encoder is EncoderKind.CNN
    with pytest.raises(ConfigError, match="needs image_active or image_passive"):
        FedCVTConfig(candidates="image")


@pytest.mark.parametrize("name", CANDIDATES)
def test_no_candidate_changes_what_is_sent(name: str) -> None:
    config = FedCVTConfig(image_passive="2x2")
    chosen = replace(config.candidate(name), candidates=config.candidates)
    assert manifest(chosen, 1000, 900) == manifest(config, 1000, 900)


SENT = {"d", "unique_active", "unique_passive", "image_active", "image_passive", "scaling", "cuts"}
SENT |= {"steps", "folds"}
SENT |= {"early_stopping", "linear_views", "candidates", "aligned_batch", "alone_batch", "memory_pool"}
SENT |= {"memory_every", "evaluation_batch", "minimum_overlap", "final_vote", "baselines", "baseline_steps"}
SENT |= {"checkpoint_every", "max_common", "max_aligned_train", "max_aligned_test", "max_passive_only"}


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_candidate_overrides_only_how_a_model_learns(name: str) -> None:
    assert not SENT & CANDIDATES[name].keys()
    assert set(asdict(FedCVTConfig())) >= SENT
