"""A run aligned in clear gives the bits of the two programs from the first message on."""

from dataclasses import replace

import numpy as np
import pytest

from protocols.program import simulate
from protocols.psi import align_in_clear, psi_client, psi_server
from protocols.seeds import injected
from tests.vertical.runs import PUBLIC_SEED, SMALL, run, two_parties
from vertical import one_process


def test_the_alignment_in_clear_is_the_programs():
    ours, theirs = [b"c3", b"a1", b"b2", b"d4"], [b"b2", b"z9", b"a1", b"d4"]
    seed = injected(3, "active")
    private = simulate({"c": psi_client(ours, "s", seed), "s": psi_server(theirs, "c", seed)})
    for clear, programs in zip(align_in_clear(ours, theirs, seed), private.values(), strict=True):
        assert clear.tag == programs.tag
        np.testing.assert_array_equal(clear.rows, programs.rows)
    assert len(align_in_clear(ours, theirs, seed)[0].rows) == 3


SEARCH = {"candidates": "given,linear", "folds": 2, "linear_views": 4}


@pytest.mark.parametrize("changes", [{}, SEARCH], ids=["no search", "search"])
def test_the_run_in_clear_has_the_programs_bits(changes):
    active, passive = two_parties()
    config = replace(SMALL, baselines=True, **changes)
    seeds = {role: injected(5, role) for role in ("active", "passive")}
    clear = one_process.train({"active": active, "passive": passive}, config, PUBLIC_SEED, seeds)
    for outcome, whole in zip(clear.values(), run(active, passive, config, seed=5), strict=True):
        assert outcome.artifacts.keys() == whole.artifacts.keys()
        for name, array in outcome.artifacts.items():
            np.testing.assert_array_equal(array, whole.artifacts[name])
        assert outcome.report == whole.report
