"""What a worker opens of a trained model: nothing, all of it, or an error that says so."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parties.computation import Computation, ModelUsed
from parties.running.worker_tools import open_model
from protocols.errors import ModelError
from protocols.wire import pack_arrays
from tests.parties.running import toy

PLAIN: Computation = toy.computation()["toy.sums"]
USING = replace(
    PLAIN, model_used=ModelUsed(trained_by="toy", inherited=lambda p, c: {}, mock=lambda p, d: {})
)


def spec(model: str) -> SimpleNamespace:
    return SimpleNamespace(model=model)


def test_a_computation_without_a_model_opens_none() -> None:
    assert open_model(spec("/nowhere"), PLAIN) is None


def test_the_arrays_of_the_run_are_given(tmp_path: Path) -> None:
    path = tmp_path / "artifacts.bin"
    path.write_bytes(pack_arrays({"a": np.arange(3)}))
    found = open_model(spec(str(path)), USING)
    assert found is not None
    assert found["a"].tolist() == [0, 1, 2]


def test_a_missing_or_damaged_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"toy.sums needs a trained model, and the supervisor named none"):
        open_model(spec(""), USING)
    with pytest.raises(ModelError, match="can't be read"):
        open_model(spec(str(tmp_path / "nowhere")), USING)
    path = tmp_path / "artifacts.bin"
    path.write_bytes(pack_arrays({"a": np.arange(3)})[:-1])
    with pytest.raises(ModelError, match="can't be read"):
        open_model(spec(str(path)), USING)
