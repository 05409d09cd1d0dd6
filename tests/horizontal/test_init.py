"""The package's public face."""

from __future__ import annotations

import subprocess
import sys

import pytest

import horizontal


def test_nothing_but_the_local_loop_loads_torch() -> None:
    program = "import sys, horizontal, horizontal.average, horizontal.messages, horizontal.rounds, horizontal.fedavg;"
    program += "horizontal.fedavg.FedAvgConfig().to_parameters(); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False"]


@pytest.mark.parametrize("name", horizontal.__all__)
def test_each_public_name_exists_and_says_what_it_is(name: str) -> None:
    assert getattr(horizontal, name).__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        horizontal.nothing_here  # noqa: B018
