"""Parties for the rows' tests: real state folders and a real supervisor, made once and copied for each test."""

from pathlib import Path

import pytest

from tests.parties.control.offices import Offices, copied, make_offices


@pytest.fixture(scope="session")
def offices_template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(offices_template: Offices, tmp_path: Path) -> Offices:
    return copied(offices_template, tmp_path)
