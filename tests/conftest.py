"""With several workers (-n), tests of one file stay together, since they share servers; so do those of full_path."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        together = "full_path" if "full_path" in item.path.parts else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))
