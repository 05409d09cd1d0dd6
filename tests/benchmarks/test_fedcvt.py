"""The benchmark of FedCVT on one small cell with few steps."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from benchmarks.fedcvt import ALIGNED, PARTS, Unit, config_for, main
from benchmarks.rivals import Columns, _first_stage, _regression, oracles, rivals
from benchmarks.two_views import NAMES, deal, load, training_and_test
from docs import fedcvt_benchmark
from vertical.config import FedCVTConfig

QUICK = [
    "--set",
    "steps=20",
    "--set",
    "baseline_steps=10",
    "--set",
    "folds=2",
    "--set",
    "early_stopping=False",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark") / "results.json"
    main(["--data", "breast", "--aligned", "30", "--seeds", "2", "--json", str(path), *QUICK])
    return path


@pytest.mark.slow
def test_every_method_has_both_seeds(finished):
    found = json.loads(finished.read_text())
    cell = found["results"]["breast"]["30"]
    expected = {"fedcvt", "fedcvt_no_pseudo", "fedcvt_no_fill", "oracle"}
    assert cell.keys() >= expected | {"aligned_only", "active_alone", "passive_alone", "stack"}
    assert {entry["n_seeds"] for entry in cell.values()} == {2}
    assert {entry["metric"] for entry in cell.values()} == {"auc"}
    assert min(entry["mean"] for entry in cell.values()) > 0.8
    assert set(found["scores"]["breast"]["30"]["0"]) == set(PARTS)
    assert found["notes"]["breast"]["30"]["0"]["fedcvt"] in ("linear", "wide")


@pytest.mark.slow
def test_a_second_call_finds_nothing_left_to_do(finished, capsys):
    before = finished.stat().st_mtime_ns
    main(["--data", "breast", "--aligned", "30", "--seeds", "2", "--json", str(finished), *QUICK])
    assert capsys.readouterr().out == ""
    assert finished.stat().st_mtime_ns == before


@pytest.mark.slow
def test_the_table_and_the_plot_follow_from_the_file(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(fedcvt_benchmark, "DOCS", tmp_path)
    page = tmp_path / "fedcvt-benchmark.md"
    begin, end = (f"<!-- {fedcvt_benchmark.MARKS}: {side} -->" for side in ("begin", "end"))
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    fedcvt_benchmark.main([str(finished)])
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "| breast (auc) | 30 | 2 |" in text
    assert "old" not in text
    assert (tmp_path / "fedcvt-benchmark.svg").read_text().startswith("<?xml")


def test_settings_are_the_defaults_but_for_what_describes_the_data():
    views = load("digits")
    who = deal(*training_and_test(views), aligned=50, seed=0)
    config, default = config_for(views, who), FedCVTConfig()
    described = {"max_aligned_train", "max_aligned_test", "max_common", "max_passive_only"}
    described |= {"image_active", "image_passive"}
    assert all(
        getattr(config, name) == value for name, value in default.to_parameters() if name not in described
    )
    assert (config.image_active, config.image_passive) == ("8x4", "8x4")
    assert set(ALIGNED) == set(NAMES)


@pytest.mark.slow
def test_a_rival_is_fitted_on_its_own_people_only():
    views = load("breast")
    training, test = training_and_test(views)
    who = deal(training, test, aligned=30, seed=0)
    columns = Columns.of(views, who.active, who.passive)
    assert columns.both.shape == (569, 30)
    np.testing.assert_allclose(columns.active[who.active].mean(axis=0), 0.0, atol=1e-5)
    found = rivals(views, who)
    assert found.keys() == {"active_alone", "aligned_only", "passive_alone", "stack"}
    assert min(found.values()) > 0.9
    assert oracles(views, training, test)["oracle_linear"] > 0.98


@pytest.mark.slow
def test_scores_of_the_stacks_first_stage_know_no_label_of_their_own():
    """As many columns of noise as people: fits reproduce drawn labels, fits without a person don't."""
    views = load("breast")
    draw = np.random.default_rng(0)
    rows = np.arange(60)
    drawn = replace(views, labels=draw.integers(0, 2, len(views.labels)))
    columns = Columns(views=drawn, active=draw.normal(size=(len(drawn.labels), 60)), passive=np.zeros((0, 0)))
    fitted = _regression(columns, columns.active, rows)
    fitted.best_estimator_.set_params(C=100.0).fit(columns.active[rows], drawn.labels[rows])
    score = _first_stage(columns, fitted, rows)[:, 0]
    right = (score > 0) == (drawn.labels == 1)
    assert right[rows].mean() < 0.7
    plain = fitted.best_estimator_.decision_function(columns.active)
    assert ((plain > 0) == (drawn.labels == 1))[rows].mean() == 1.0


@pytest.mark.slow
def test_an_ablation_trains_the_configuration_that_the_run_chose():
    unit = Unit(
        data="breast",
        aligned=30,
        seed=0,
        part="fedcvt_no_fill",
        settings={"steps": 5, "folds": 2},
        chosen="wide",
    )
    found, note = unit.run()
    assert note == "wide"
    assert "both" in found
    assert "aligned_only_network" not in found
