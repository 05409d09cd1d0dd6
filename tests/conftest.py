"""How the tests are dealt out and searched: servers are shared, long ones begin first, and no chance decides.

With several workers (-n), tests of one file stay together, since they share servers; so do those of full_path.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
LONGEST = (
    "tests/full_path",
    "tests/parties/commands/test_by_hand.py",
    "tests/parties/syft_side/test_datasite.py",
    "tests/parties/demo/test_hospitals.py",
    "notebooks/02_analyst.ipynb",
    "notebooks/01_data_owner.ipynb",
    "notebooks/03_privacy_reviewer.ipynb",
    "tests/test_docs.py",
    "tests/parties/running/test_worker.py",
    "tests/parties/control/test_supervisor.py",
)
"""The groups that take longest, in the order in which they begin: none is left for the end, when one worker idles."""

# The same examples each time, and no limit of time on them: a run of the tests fails for what was changed, or not at
# all. `pytest --hypothesis-profile=search` looks at other examples.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_place)


def _group(item: pytest.Item) -> str:
    path = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else str(item.path)
    return "tests/full_path" if path.startswith("tests/full_path/") else path


def _place(item: pytest.Item) -> int:
    group = _group(item)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)
