"""FedCVT's defaults are chosen without the benchmark's test people."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from benchmarks import choose_defaults
from benchmarks.choose_defaults import COMPARED, VARIANTS, fold, main, summary
from benchmarks.two_views import NAMES, load, training_and_test
from docs import fedcvt_defaults
from vertical.config import FedCVTConfig


@pytest.mark.parametrize("seed", range(3))
def test_a_fold_holds_out_training_people_only(seed):
    views = load("breast")
    training, test = training_and_test(views)
    who = fold(views, 30, seed)
    everybody = np.concatenate([who.test, who.training])
    assert sorted(everybody) == sorted(training)
    assert not np.isin(everybody, test).any()
    assert len(who.test) == 100  # a quarter of 398
    assert len(who.aligned) == 30


def test_every_variant_is_valid_and_the_defaults_are_among_them():
    assert VARIANTS["defaults"] == {}
    for changed in VARIANTS.values():
        FedCVTConfig(**changed)


def test_what_is_compared_is_known_and_has_the_defaults_to_compare_with():
    assert set(COMPARED) == set(NAMES)
    for names in COMPARED.values():
        assert "defaults" in names
        assert set(names) <= set(VARIANTS)


def _scores(both):
    return {"both": both, "joint": both - 0.1, "active_only": 0.5}


def test_a_variant_is_compared_with_the_defaults_of_the_same_seeds():
    seeds = {
        "0": {"defaults": _scores(0.8), "wide": _scores(0.9)},
        "1": {"defaults": _scores(0.6), "wide": _scores(0.9)},
        "2": {"defaults": _scores(0.1)},
    }
    cell = summary({"breast": {"30": seeds}}, {"breast": "auc"})["variants"]["breast"]["30"]
    assert list(cell) == ["defaults", "wide"]
    assert cell["defaults"]["n_seeds"] == 3
    assert cell["wide"]["both"] == pytest.approx(0.9)
    assert cell["wide"]["joint"] == pytest.approx(0.8)
    assert cell["wide"]["to_defaults"] == {
        "mean": pytest.approx(0.2),
        "standard_error": pytest.approx(0.1),
        "n_seeds": 2,
    }


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two variants of the small cells of breast cancer, trained for a few steps."""
    path = tmp_path_factory.mktemp("defaults") / "compared.json"
    quick = {"steps": 20, "folds": 2, "early_stopping": False, "candidates": "linear"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_defaults, "VARIANTS", {"defaults": quick, "no fill": {**quick, "fill": False}})
        patch.setattr(choose_defaults, "ALIGNED", {"breast": (30,)})
        main(["--json", str(path), "--data", "breast", "--seeds", "2", "--variants", "defaults", "no fill"])
        first = path.stat().st_mtime_ns
        main(["--json", str(path), "--data", "breast", "--seeds", "2", "--variants", "defaults", "no fill"])
    return path, first


@pytest.mark.slow
def test_a_second_call_trains_nothing_again(compared):
    path, first = compared
    assert path.stat().st_mtime_ns == first
    found = json.loads(path.read_text())["variants"]["breast"]["30"]
    assert {name: entry["n_seeds"] for name, entry in found.items()} == {"defaults": 2, "no fill": 2}
    assert found["defaults"]["both"] > 0.9
    assert found["no fill"]["to_defaults"]["n_seeds"] == 2


@pytest.mark.slow
def test_the_table_follows_from_the_file(compared, tmp_path, monkeypatch):
    monkeypatch.setattr(fedcvt_defaults, "DOCS", tmp_path)
    page = tmp_path / "fedcvt-defaults.md"
    page.write_text(
        "before\n<!-- compared settings: begin -->\nold\n<!-- compared settings: end -->\nafter\n"
    )
    fedcvt_defaults.main([str(compared[0])])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| breast (auc) | 30 | no fill | 2 | 0.9" in text
    assert "| linear 2 |" in text
    assert "old" not in text
