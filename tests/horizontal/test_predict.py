"""A common model on one client's rows: probabilities by hand, what is left, and models that can't be used."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from horizontal.predict import CLASSES, PROBABILITIES, ROWS, columns_of, predict_program
from protocols.errors import ModelError
from protocols.program import Outcome, Progress, silent, simulate


def predicted(model: nn.Module, x: list[list[float]], rows: list[int], observe=silent) -> Outcome:
    features = torch.tensor(x, dtype=torch.float32).reshape(len(x), 2)
    program = predict_program(model, features, np.array(rows, np.int64), ("ill", "well"), observe)
    outcome = simulate({"client": program})["client"]
    assert isinstance(outcome, Outcome)
    return outcome


def test_probabilities_by_hand() -> None:
    # Outputs are the features themselves: softmax(ln 3, 0) = (3/4, 1/4).
    seen: list[Progress] = []
    outcome = predicted(nn.Identity(), [[math.log(3), 0.0], [1.0, 1.0]], [7, 2], seen.append)
    assert outcome.artifacts[PROBABILITIES] == pytest.approx(np.array([[0.75, 0.25], [0.5, 0.5]]))
    assert outcome.report == {"people": 2}
    assert outcome.people["people"].tolist() == [7, 2]
    assert [progress.step for progress in seen] == [0, 1]
    rows, columns = columns_of(outcome.artifacts) or ([], {})
    assert rows == [7, 2]
    assert list(columns) == ["prediction", "p(ill)", "p(well)"]
    assert columns["prediction"] == ["ill", "ill"]
    assert columns["p(well)"] == pytest.approx([0.25, 0.5])


def test_no_rows_and_nothing_left() -> None:
    outcome = predicted(nn.Identity(), [], [])
    assert columns_of(outcome.artifacts) == ([], {"prediction": [], "p(ill)": [], "p(well)": []})
    assert outcome.artifacts.keys() == {CLASSES, ROWS, PROBABILITIES}
    assert columns_of({}) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_outputs_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(ModelError, match="finite"):
        predicted(nn.Identity(), [[value, 0.0]], [0])


def test_a_model_that_drops_units_predicts_without_that() -> None:
    model = nn.Sequential(nn.Dropout(0.9), nn.Identity())
    again = [predicted(model, [[math.log(3), 0.0]], [0]).artifacts[PROBABILITIES] for _ in range(3)]
    assert all(np.array_equal(each, again[0]) for each in again)
    assert again[0][0, 0] == pytest.approx(0.75)
