import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocols import wire
from protocols.errors import GateError
from protocols.gate import Gate, ReleaseUse, Trace, excess
from protocols.request import Release
from tests.protocols.samples import People, release, sample_request


@dataclass(frozen=True, slots=True, eq=False)
class Values(wire.Message):
    step: int
    values: NDArray[np.float32] = wire.array(np.float32, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Two(wire.Message):
    first: NDArray[np.float32] = wire.array(np.float32, 2)
    second: NDArray[np.float32] = wire.array(np.float32, 1)
    tag: bytes
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answer(wire.Message):
    step: int


VALUES = release("Values", "passive", "active")
MANIFEST = (VALUES, release("Answer", "active", "passive", shapes=()))
TWO = release("Two", "a", "b", shapes=(("first", (3, 2)), ("second", (4,)), ("tag", (5,)), ("names", (2,))))


def values(rows: int = 4, width: int = 2) -> Values:
    return Values(step=1, values=np.zeros((rows, width), np.float32))


def passes(gate: Gate, message: wire.Message, nbytes: int, *, outbound: bool, peer: str) -> None:
    if outbound:
        gate.outbound(peer, message, nbytes)
    else:
        gate.inbound(peer, message, nbytes)


DIRECTIONS = pytest.mark.parametrize(
    ("outbound", "role", "peer"), [(True, "passive", "active"), (False, "active", "passive")]
)


@DIRECTIONS
def test_what_is_listed_passes_up_to_the_bound_and_is_counted(outbound: bool, role: str, peer: str) -> None:
    gate = Gate(sample_request(People()), role)
    for _ in range(3):
        passes(gate, values(), 500, outbound=outbound, peer=peer)
    assert gate.summary()[0] == ReleaseUse(
        kind="Values", sender="passive", receiver="active", messages=3, bytes=1500, rows=12
    )
    assert gate.used["Values", "passive", "active"] == 3


@DIRECTIONS
@pytest.mark.parametrize(
    ("message", "nbytes", "reason"),
    [
        (Answer(step=1), 10, "unlisted"),
        (
            Two(first=np.zeros((0, 0), np.float32), second=np.zeros(0, np.float32), tag=b"", names=()),
            10,
            "unlisted",
        ),
        (values(rows=5), 500, r"shape: field 'values' is \(5, 2\), at most \(4, 2\)"),
        (values(width=3), 500, r"shape: field 'values' is \(4, 3\)"),
        (values(), 501, "bytes: 501, at most 500"),
        (values(), -1, "bytes"),
    ],
)
def test_what_exceeds_the_manifest_is_stopped_both_ways(
    outbound: bool, role: str, peer: str, message: wire.Message, nbytes: int, reason: str
) -> None:
    gate = Gate(MANIFEST, role)
    direction = "outbound" if outbound else "inbound"
    kind = type(message).__name__
    with pytest.raises(GateError, match=f"^{direction} {kind} passive -> active: {reason}"):
        passes(gate, message, nbytes, outbound=outbound, peer=peer)
    assert set(gate.used.values()) == {0}


@DIRECTIONS
def test_one_repetition_too_many_is_stopped(outbound: bool, role: str, peer: str) -> None:
    gate = Gate(MANIFEST, role)
    for _ in range(3):
        passes(gate, values(), 10, outbound=outbound, peer=peer)
    for _ in range(2):
        with pytest.raises(GateError, match="repetitions: 3 allowed, this is number 4"):
            passes(gate, values(), 10, outbound=outbound, peer=peer)
    assert gate.used["Values", "passive", "active"] == 3


def test_the_direction_is_part_of_the_release() -> None:
    with pytest.raises(GateError, match="outbound Values active -> passive: unlisted"):
        Gate(MANIFEST, "active").outbound("passive", values(), 10)
    with pytest.raises(GateError, match="inbound Values active -> passive: unlisted"):
        Gate(MANIFEST, "passive").inbound("active", values(), 10)
    with pytest.raises(GateError, match="outbound Values passive -> other: unlisted"):
        Gate(MANIFEST, "passive").outbound("other", values(), 10)


@pytest.mark.parametrize("field", ["first", "second", "tag", "names"])
def test_every_field_with_a_length_must_be_listed_and_fit(field: str) -> None:
    bounds = dict(TWO.shapes)
    assert excess(TWO, bounds, 1, 0) == ""
    wider = bounds | {field: (bounds[field][0] + 1, *bounds[field][1:])}
    assert f"field '{field}' is" in excess(TWO, wider, 1, 0)
    flat = bounds | {field: (*bounds[field], 1)}
    assert "dimensions" in excess(TWO, flat, 1, 0)
    assert "field 'more' is not listed" in excess(TWO, bounds | {"more": (0,)}, 1, 0)


def test_the_gate_sees_every_field_of_a_message() -> None:
    gate = Gate((TWO,), "a")
    zero = {"first": np.zeros((3, 2), np.float32), "second": np.zeros(4, np.float32)}
    gate.outbound("b", Two(**zero, tag=b"12345", names=("x", "y")), 10)
    assert gate.summary()[0].rows == 7
    with pytest.raises(GateError, match="'tag'"):
        gate.outbound("b", Two(**zero, tag=b"123456", names=()), 10)
    with pytest.raises(GateError, match="'names'"):
        gate.outbound("b", Two(**zero, tag=b"", names=("x", "y", "z")), 10)


def test_an_interrupted_run_goes_on_with_what_it_has_used() -> None:
    key = ("Values", "passive", "active")
    gate = Gate(MANIFEST, "passive", used={key: 2})
    gate.outbound("active", values(), 10)
    with pytest.raises(GateError, match="repetitions"):
        gate.outbound("active", values(), 10)
    assert gate.summary()[0].messages == 3


def test_a_manifest_that_lists_a_kind_twice_is_refused() -> None:
    with pytest.raises(GateError, match="twice"):
        Gate((VALUES, VALUES), "active")


def test_check_and_count_are_one_step_for_threads() -> None:
    gate = Gate((release("Answer", "a", "b", shapes=(), repetitions=50),), "a")
    outcomes: list[bool] = []
    start = threading.Barrier(8)

    def send() -> None:
        start.wait()
        for _ in range(20):
            try:
                gate.outbound("b", Answer(step=1), 1)
                outcomes.append(True)
            except GateError:
                outcomes.append(False)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outcomes.count(True), outcomes.count(False)) == (50, 110)


SHAPE = st.lists(st.integers(0, 4), max_size=3).map(tuple)
SHAPES = st.dictionaries(st.sampled_from(["x", "y", "z"]), SHAPE, max_size=3)


@given(SHAPES, st.integers(1, 3), st.integers(1, 20), SHAPES, st.integers(0, 25), st.integers(0, 4))
@settings(max_examples=400, deadline=None)
def test_exactly_what_fits_in_every_way_passes(
    bounds: Mapping[str, tuple[int, ...]],
    repetitions: int,
    max_bytes: int,
    came: Mapping[str, tuple[int, ...]],
    nbytes: int,
    used: int,
) -> None:
    line = release(
        "A", "a", "b", shapes=tuple(sorted(bounds.items())), repetitions=repetitions, max_bytes=max_bytes
    )
    fits = used < repetitions and nbytes <= max_bytes
    for field, shape in came.items():
        most = bounds.get(field)
        fits = fits and most is not None and len(most) == len(shape)
        fits = fits and all(s <= m for s, m in zip(shape, most or (), strict=False))
    assert (excess(line, came, nbytes, used) == "") == fits


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 6), st.integers(1, 4), st.integers(400, 600)), max_size=8
    )
)
@settings(max_examples=150, deadline=None)
def test_sender_and_receiver_decide_alike_and_never_count_past_the_manifest(
    messages: list[tuple[bool, int, int, int]],
) -> None:
    sender, receiver, trace = Gate(MANIFEST, "passive"), Gate(MANIFEST, "active"), Trace()
    for listed, rows, width, nbytes in messages:
        message = values(rows, width) if listed else Answer(step=1)
        stopped = []
        for gate, outbound, peer in ((sender, True, "active"), (receiver, False, "passive")):
            try:
                passes(gate, message, nbytes, outbound=outbound, peer=peer)
            except GateError as failure:
                stopped.append(str(failure).split(": ", 1)[1])
        assert len(stopped) in (0, 2)
        assert len(set(stopped)) <= 1
        if not stopped:
            trace.record("passive", "active", "Values", wire.shapes(message), nbytes)
    assert sender.used == receiver.used
    assert sender.used["Values", "passive", "active"] <= 3
    trace.fits(MANIFEST)


def test_a_trace_fits_what_the_gates_let_through_and_shows_how_tight_it_is() -> None:
    trace = Trace()
    size = len(wire.encode(values()))
    manifest = (release("Values", "passive", "active", max_bytes=size), MANIFEST[1])
    for _ in range(3):
        trace.observe("passive", "active", values())
    trace.fits(manifest)
    assert trace.lines[0].nbytes == size
    assert trace.lines[0].shapes == (("values", (4, 2)),)
    assert trace.fill(manifest) == {
        ("Values", "passive", "active"): 1.0,
        ("Answer", "active", "passive"): 0.0,
    }
    half = (release("Values", "passive", "active", max_bytes=size, repetitions=6),)
    assert trace.fill(half) == {("Values", "passive", "active"): 0.5}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repetitions": 2}, "message 3, Values passive -> active: repetitions"),
        ({"max_bytes": 1}, "message 1, Values passive -> active: bytes"),
        ({"shapes": (("values", (4, 1)),)}, "message 1, Values passive -> active: shape"),
        ({"kind": "Other"}, "message 1, Values passive -> active: unlisted"),
    ],
)
def test_a_trace_that_does_not_fit_names_the_message(change: dict[str, object], reason: str) -> None:
    trace = Trace()
    for _ in range(3):
        trace.observe("passive", "active", values())
    kind = str(change.pop("kind", "Values"))
    manifest: tuple[Release, ...] = (release(kind, "passive", "active", **change),)
    with pytest.raises(GateError, match=reason):
        trace.fits(manifest)
