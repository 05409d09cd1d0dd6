"""The bank's desk for the attempts: made once and copied for each test."""

from pathlib import Path

import pytest

from tests.attempts.desk import Desk
from tests.parties.control.offices import Offices, copied, make_offices


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def desk(template: Offices, tmp_path: Path) -> Desk:
    return Desk(copied(template, tmp_path))
