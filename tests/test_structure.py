"""The structure that ARCHITECTURE.md describes, read from the code itself."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from parties.catalog import CATALOG, DIGESTED_FILES, DIGESTED_FOLDERS, MODEL
from parties.computation import Computation
from protocols.request import ComputationRequest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("protocols", "vertical", "horizontal", "parties")
STANDARD = frozenset(sys.stdlib_module_names)
ALLOWED = {
    "protocols": {"protocols", "numpy", "cryptography"},
    "vertical": {"vertical", "protocols", "torch", "numpy", "scipy"},
    "horizontal": {"horizontal", "protocols", "torch", "numpy", "scipy"},
}
# Libraries that have one place, and those that work on public data or released numbers only; a folder ends with "/".
ONLY_IN = {
    "syft": {"parties/datasite/"},
    "private_set_intersection": {"protocols/psi/curve.py"},
    "sklearn": {"parties/demo/baselines.py"},
    "matplotlib": {"parties/demo/page.py", "parties/demo/hospital_page.py", "parties/roles/score_plot.py"},
}
FORBIDDEN_CALLS = {"eval", "exec", "pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps", "torch.load"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "marshal", "shelve"}


def _sources(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


def _within(name: str, places: set[str]) -> bool:
    return any(name.startswith(place) if place.endswith("/") else name == place for place in places)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_in_one_direction(package: str) -> None:
    wrong = [
        f"{name} imports {module}"
        for name, tree in _sources(package)
        for module in _imports(tree)
        if module not in STANDARD
        and module not in ALLOWED[package]
        and not _within(name, ONLY_IN.get(module, set()))
    ]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_stays_where_it_belongs(library: str) -> None:
    users = {name for name, tree in _sources(*PACKAGES) if library in _imports(tree)}
    assert users
    assert {name for name in users if not _within(name, ONLY_IN[library])} == set()


def test_web_frameworks_stay_in_the_console_and_around_syft() -> None:
    """And the console is reached by its command alone, which imports it when it runs."""
    around_syft = {"parties/datasite/", "parties/syft_side/datasite_process.py"}
    web = {"fastapi", "starlette", "uvicorn"}
    for name, tree in _sources(*PACKAGES):
        if not _within(name, {"parties/console/"} | around_syft):
            assert not web & set(_imports(tree)), name
            rooms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
            if name != "parties/commands/console.py":
                assert not any(room.startswith("parties.console") for room in rooms), name


def test_only_the_catalog_names_the_algorithms() -> None:
    allowed = {"parties/demo/baselines.py", "parties/demo/twin.py", "parties/demo/hospital_twin.py"}
    allowed |= {"parties/roles/simulating_clients.py"}  # research in one process, nothing approved
    data = {"vertical.table"}  # the records in which a block reaches a program
    users = set()
    for name, tree in _sources("parties"):
        for node in ast.walk(tree):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if module.split(".")[0] in ("vertical", "horizontal") and module not in data:
                users.add(name)
    assert {name for name in users if not name.startswith("parties/catalog/")} <= allowed


def _least(computation: Computation) -> dict[str, object]:
    """The settings that have no default."""
    used = computation.model_used
    trained = computation if used is None else CATALOG[used.trained_by]
    tables = trained.from_schemas is not None
    least: dict[str, object] = {"features": {"x": [0, 1]}, "classes": ["no", "yes"]} if tables else {}
    return least if used is None else {**least, MODEL: "0" * 64}


def test_only_the_catalog_names_computations_and_their_settings() -> None:
    """Texts elsewhere hold no computation's name and no setting of one; "steps" and the like are words of all."""
    of_requests = {field.name for field in fields(ComputationRequest)}
    settings = {
        name
        for computation in CATALOG.values()
        for name in (
            *computation.row_bounds,
            *(n for n, _ in computation.parameters(_least(computation), 10)),
        )
        if "_" in name and name not in of_requests
    }
    assert {"max_common", "pseudo_from"} <= settings
    found = [
        f"{name}:{node.lineno}: {word}"
        for name, tree in _sources("parties")
        if not name.startswith(("parties/catalog/", "parties/demo/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in re.findall(r"[a-z_.]+", node.value)
        if word in settings or word.rstrip(".") in CATALOG
    ]
    assert found == []


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return f"{node.func.value.id}.{node.func.attr}"
    return ""


def test_nothing_is_unpickled_or_evaluated() -> None:
    found = []
    for name, tree in _sources(*PACKAGES, "benchmarks"):
        found += [f"{name}: imports {m}" for m in _imports(tree) if m in FORBIDDEN_MODULES]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) in FORBIDDEN_CALLS:
                found.append(f"{name}:{node.lineno}: {_called(node)}")
    assert found == []


def test_no_exception_is_swallowed() -> None:
    silent = [
        f"{name}:{node.lineno}"
        for name, tree in _sources(*PACKAGES, "benchmarks")
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and [type(b) for b in node.body] == [ast.Pass]
    ]
    assert silent == []


def test_the_code_digest_covers_all_that_a_worker_imports() -> None:
    program = (
        "import sys, parties.running.worker, parties.blocks.store, parties.catalog as catalog\n"
        "[c.kinds() for c in catalog.CATALOG.values()]\n"
        "print(*[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] in "
        f"{PACKAGES!r} and m.__file__], sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {Path(line).relative_to(ROOT).as_posix() for line in done.stdout.split()}
    assert {"parties/running/worker.py", "parties/blocks/store.py", "parties/control/socket.py"} <= loaded
    folders = tuple(f"{folder}/" for folder in DIGESTED_FOLDERS)
    assert {name for name in loaded if not name.startswith(folders)} <= set(DIGESTED_FILES)


@pytest.mark.parametrize("module", ["vertical", "horizontal", "protocols", "parties.cli"])
def test_the_light_imports_load_neither_syft_nor_torch(module: str) -> None:
    program = f"import sys, {module}; print([m for m in ('syft', 'torch', 'pandas') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
