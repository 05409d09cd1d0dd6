"""No key, nor a plain hash or an encoding of one, is in any message, report, artifact or error of a run."""

import json
from dataclasses import replace

import pytest

from protocols.errors import FedaccordError
from protocols.program import simulate
from protocols.psi import PsiTerms
from protocols.seeds import injected
from protocols.wire import encode, pack_arrays
from tests.protocols.psi.sets import people
from tests.protocols.psi.traces import traces
from tests.vertical.runs import SMALL, run, two_parties
from vertical.align import pairs_program, size_program


def strays(keys, *contents: bytes) -> list[bytes]:
    return [trace for key in sorted(keys)[:25] for trace in traces(key) if any(trace in c for c in contents)]


def kept(outcome) -> bytes:
    """What a run leaves at a party and may release, as bytes."""
    return pack_arrays(outcome.artifacts) + json.dumps(outcome.report).encode()


def test_of_a_training():
    parties = two_parties()
    sent: list[bytes] = []
    outcomes = run(
        *parties,
        replace(SMALL, baselines=True),
        observe=lambda sender, to, message: sent.append(encode(message)),
    )
    keys = {key for data in parties for key in data.keys}
    assert strays(keys, b"".join(sent), *map(kept, outcomes)) == []
    assert len(sent) > 20


@pytest.mark.parametrize("bucket", [0, 50])
@pytest.mark.parametrize("program", [size_program, pairs_program])
def test_of_an_alignment(program, bucket):
    sets = {"active": tuple(people(60)), "passive": tuple(people(80, start=23))}
    least = {"least": 20} if program is pairs_program else {}
    sent: list[bytes] = []
    outcomes = simulate(
        {
            role: program(role, keys, injected(1, role), PsiTerms(bucket=bucket), group=10, **least)
            for role, keys in sets.items()
        },
        observe=lambda sender, to, message: sent.append(encode(message)),
    )
    assert strays({*sets["active"], *sets["passive"]}, *sent, *map(kept, outcomes.values())) == []


@pytest.mark.parametrize(
    "sets",
    [
        (people(30), people(30, start=25)),
        (people(30) + people(1), people(30)),
        ([*people(30), b""], people(30)),
        (people(3), people(30)),
    ],
)
def test_of_an_alignment_that_fails(sets):
    programs = {
        role: pairs_program(role, tuple(keys), injected(1, role), PsiTerms(), group=10, least=20)
        for role, keys in zip(("active", "passive"), sets, strict=True)
    }
    with pytest.raises(FedaccordError) as caught:
        simulate(programs)
    told = f"{caught.value} {caught.value.remedy} {caught.value.__cause__!r}".encode()
    assert strays({key for keys in sets for key in keys if key}, told) == []
