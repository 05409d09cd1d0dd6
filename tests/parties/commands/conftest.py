"""A town that is shared by the tests of one file (one at a time, since it stands for all datasites)."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.parties.commands.town import Town, running_town


@pytest.fixture(autouse=True, scope="module")
def no_temporary_folder() -> Iterator[None]:
    """The warning about state folders in the temporary folder would be right, and in every test's way."""
    with patch("parties.home.state._warnings", lambda folder: ()):
        yield


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A town whose runs end at once."""
    with running_town(tmp_path_factory.mktemp("town"), "quick") as made:
        yield made
