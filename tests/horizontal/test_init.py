"""The package's public face."""

from __future__ import annotations

import subprocess
import sys

import pytest

import horizontal

LIGHT = (
    "average",
    "messages",
    "peers",
    "rounds",
    "client",
    "config",
    "choices",
    "methods",
    "compatibility",
    "drift",
)


def test_what_a_request_needs_loads_no_torch() -> None:
    program = f"import sys, horizontal, {', '.join(f'horizontal.{name}' for name in LIGHT)};"
    program += (
        "horizontal.method('scaffold').to_parameters(); horizontal.table(); print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False"]


@pytest.mark.parametrize("name", horizontal.__all__)
def test_each_public_name_exists_and_says_what_it_is(name: str) -> None:
    assert getattr(horizontal, name).__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        horizontal.nothing_here  # noqa: B018
