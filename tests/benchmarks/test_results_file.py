"""The benchmark's file: means and paired differences by hand, and that nothing finished is lost."""

import json

import pytest

from benchmarks.results_file import ResultsFile, summary

SCORES = {
    "digits": {
        "50": {
            "0": {
                "rivals": {"aligned_only": 0.7, "active_alone": 0.8, "passive_alone": 0.5, "stack": 0.75},
                "oracles": {"oracle_linear": 0.9, "oracle_flexible": 0.96},
                "fedcvt": {
                    "both": 0.88,
                    "active_only": 0.81,
                    "passive_only": 0.6,
                    "joint": 0.85,
                    "aligned_only_network": 0.72,
                    "active_alone_network": 0.70,
                },
            },
            "1": {
                "rivals": {"aligned_only": 0.7, "active_alone": 0.84, "passive_alone": 0.5, "stack": 0.75},
                "oracles": {"oracle_linear": 0.9, "oracle_flexible": 0.96},
                "fedcvt": {
                    "both": 0.90,
                    "active_only": 0.83,
                    "passive_only": 0.6,
                    "joint": 0.85,
                    "aligned_only_network": 0.74,
                    "active_alone_network": 0.72,
                },
            },
        }
    }
}


def test_means_the_better_of_two_models_and_paired_differences():
    found = summary(SCORES, {"digits": "accuracy"})
    cell = found["results"]["digits"]["50"]
    assert cell["fedcvt"]["mean"] == pytest.approx(0.89)
    assert cell["fedcvt"]["std"] == pytest.approx(0.02 / 2**0.5)
    assert (cell["fedcvt"]["n_seeds"], cell["fedcvt"]["metric"]) == (2, "accuracy")
    assert cell["aligned_only"]["mean"] == pytest.approx(0.73)  # the network
    assert cell["active_alone"]["mean"] == pytest.approx(0.82)  # the regression
    assert cell["oracle"]["mean"] == pytest.approx(0.96)
    against = found["differences"]["digits"]["50"]
    assert against["best_rival"] == "active_alone"
    assert against["to_best_rival"]["mean"] == pytest.approx(0.07)  # .08 and .06
    assert against["to_best_rival"]["standard_error"] == pytest.approx(0.01)
    assert against["to_stack"]["mean"] == pytest.approx(0.14)
    assert against["gap_to_oracle"]["mean"] == pytest.approx(0.14)  # .16 and .12: error .02
    assert found["only_active_view"]["digits"]["50"]["mean"] == pytest.approx(0.0)  # .01 and -.01
    assert found["gap_closed_total"] == pytest.approx(0.5)


def test_a_gap_within_two_standard_errors_does_not_count():
    cells = json.loads(json.dumps(SCORES))
    # The gaps to active_alone (.8 and .84) are .2 and 0.
    for seed, value in (("0", 1.0), ("1", 0.84)):
        cells["digits"]["50"][seed]["oracles"] = {"oracle_linear": 0.5, "oracle_flexible": value}
    found = summary(cells, {"digits": "accuracy"})
    gap = found["differences"]["digits"]["50"]["gap_to_oracle"]
    assert (gap["mean"], gap["standard_error"]) == pytest.approx((0.1, 0.1))
    assert found["gap_closed_total"] is None
    assert found["gap_cells"] == 0


def test_one_seed_has_no_standard_error_and_no_gap():
    found = summary({"digits": {"50": {"0": SCORES["digits"]["50"]["0"]}}}, {"digits": "accuracy"})
    assert found["differences"]["digits"]["50"]["to_best_rival"]["standard_error"] is None
    assert found["gap_closed_total"] is None


def test_finished_parts_are_there_after_a_restart(tmp_path):
    path = tmp_path / "new" / "results.json"
    first = ResultsFile(path)
    first.metrics["breast"] = "auc"
    first.put("breast", 30, 0, "fedcvt", SCORES["digits"]["50"]["0"]["fedcvt"], "wide")
    again = ResultsFile(path)
    assert again.has("breast", 30, 0, "fedcvt")
    assert not again.has("breast", 30, 0, "rivals")
    assert not again.has("breast", 100, 0, "fedcvt")
    assert again.note("breast", 30, 0, "fedcvt") == "wide"
    assert json.loads(path.read_text())["results"]["breast"]["30"]["fedcvt"]["mean"] == 0.88


def test_parts_that_ran_elsewhere_are_taken_over_and_replace_none(tmp_path):
    here, there = ResultsFile(tmp_path / "here.json"), ResultsFile(tmp_path / "there.json")
    for file, value in ((here, 0.9), (there, 0.7)):
        file.metrics["breast"] = "auc"
        file.put("breast", 30, 0, "fedcvt", {**SCORES["digits"]["50"]["0"]["fedcvt"], "both": value}, "wide")
    there.put("breast", 30, 1, "fedcvt", SCORES["digits"]["50"]["1"]["fedcvt"], "linear")
    here.adopt(there)
    again = ResultsFile(tmp_path / "here.json")
    assert again.scores["breast"]["30"]["0"]["fedcvt"]["both"] == 0.9
    assert again.scores["breast"]["30"]["1"]["fedcvt"]["both"] == 0.90
    assert again.note("breast", 30, 1, "fedcvt") == "linear"


def test_forgotten_parts_are_run_anew_and_others_stay(tmp_path):
    file = ResultsFile(tmp_path / "results.json")
    file.metrics["breast"] = "auc"
    for part, found in SCORES["digits"]["50"]["0"].items():
        file.put("breast", 30, 0, part, found, "wide" if part == "fedcvt" else "")
    file.forget(["fedcvt", "fedcvt_no_fill"])
    again = ResultsFile(tmp_path / "results.json")
    assert [part for part in ("rivals", "oracles", "fedcvt") if again.has("breast", 30, 0, part)] == [
        "rivals",
        "oracles",
    ]
    assert again.note("breast", 30, 0, "fedcvt") == ""
