"""What is kept of the notebooks; `make test` runs every cell of them with nbmake."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ROLES = ("01_data_owner", "02_analyst", "03_privacy_reviewer")


def _cells(path: Path, kind: str) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept_in_the_repository(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)
    assert len(_cells(path, "code")) > 3


def test_every_notebook_runs_in_make_test_and_is_linked_from_a_page() -> None:
    assert "--nbmake tests notebooks" in (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/horizontal.md"))
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name})" not in pages] == []


@pytest.mark.parametrize("name", ROLES)
def test_a_roles_notebook_tells_what_left_and_then_stops_its_servers(name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    assert any(text.startswith("## What left my site") for text in _cells(path, "markdown")[-4:])
    code = _cells(path, "code")
    assert "audit sent" in "".join(code[-4:])
    assert code[-1] == "sites.close()"
