"""The notebooks run from their first cell to their last."""

import json
from pathlib import Path

import matplotlib
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("agg")
    space: dict[str, object] = {"__name__": "__main__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(sources) > 3
    for number, source in enumerate(sources):
        exec(compile(source, f"{path.name} cell {number}", "exec"), space)  # noqa: S102  # our own cells
    assert "accuracy" in capsys.readouterr().out
    assert all(not cell.get("outputs") for cell in cells), "outputs are not kept in the repository"
