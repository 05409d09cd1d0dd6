"""A client's rows: by round, held out, and its probe."""

from __future__ import annotations

import torch

from horizontal.client_data import ClientData
from horizontal.local import Examples
from protocols.seeds import injected


def rows(n: int) -> Examples:
    return Examples(torch.arange(float(n))[:, None], torch.zeros(n, dtype=torch.int64))


SEED = injected(0, "client-1")


def test_rows_are_the_same_or_those_of_a_round() -> None:
    assert len(ClientData(training=rows(4)).rows(7)) == 4
    assert len(ClientData(training=rows).rows(7)) == 7


def test_without_validation_rows_there_are_none_of_the_same_shape() -> None:
    data = ClientData(training=rows(4))
    none = data.held_out(data.rows(1))
    assert (tuple(none.features.shape), len(none)) == ((0, 1), 0)
    assert len(ClientData(training=rows(4), validation=rows(2)).held_out(rows(4))) == 2


def test_the_probe_is_the_same_each_time_and_another_for_another_client() -> None:
    data = ClientData(training=rows(100))
    probe = data.probe(rows(100), 10, SEED)
    assert torch.equal(probe, data.probe(rows(100), 10, SEED))
    assert not torch.equal(probe, data.probe(rows(100), 10, injected(0, "client-2")))
    assert len(set(probe.flatten().tolist())) == 10


def test_most_of_a_probe_stays_when_rows_are_added() -> None:
    data = ClientData(training=rows(100))
    before, after = (set(data.probe(rows(n), 20, SEED).flatten().tolist()) for n in (100, 110))
    assert len(before & after) >= 16
    assert len(data.probe(rows(3), 20, SEED)) == 3


def test_a_public_probe_is_everybodys() -> None:
    public = torch.ones(5, 1)
    assert torch.equal(ClientData(training=rows(9), public_probe=public).probe(rows(9), 2, SEED), public)
