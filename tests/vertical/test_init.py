"""The package's public face."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vertical


def test_import_does_not_load_torch() -> None:
    program = "import sys, vertical, vertical.table, vertical.config, vertical.preprocess, vertical.metrics; "
    program += "print('torch' in sys.modules, 'scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("name", vertical.__all__)
def test_each_public_name_exists_and_says_what_it_is(name: str) -> None:
    assert getattr(vertical, name).__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        vertical.nothing_here  # noqa: B018
