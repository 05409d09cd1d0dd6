"""One program over links: equal to `simulate`, reserved before used, and nothing past the manifest either way."""

import contextlib
import hashlib
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from parties.links.link import Link
from parties.links.memory_link import MemoryLink
from parties.running.checkpoints import KEPT, Checkpoints
from parties.running.drive import RESERVED_AT_ONCE, Driver, drive, largest_message, reading_s
from parties.running.traffic import Traffic
from protocols.errors import (
    CancelledRun,
    FedaccordError,
    GateError,
    PeerLost,
    PeerStopped,
    PeerTimeout,
    ProtocolError,
    StateError,
    WireError,
    to_wire,
)
from protocols.gate import Gate
from protocols.program import Checkpoint, Compute, Deadline, Outcome, Program, Send, receive, simulate
from protocols.wire import encode
from tests.parties.running import toy

SEED = bytes(range(32))
STEPS = 12


@dataclass
class Side:
    role: str
    link: Link
    gate: Gate
    traffic: Traffic
    reserved: list[tuple[int, int]] = field(default_factory=list)
    saved: list[Checkpoint] = field(default_factory=list)

    def driver(self, **other: object) -> Driver:
        peer = "passive" if self.role == "active" else "active"
        given: dict[str, object] = {
            "links": {peer: self.link},
            "gate": self.gate,
            "kinds": toy.KINDS,
            "inbound_limits": {peer: largest_message(toy.manifest(STEPS), peer, self.role)},
            "reserve": lambda first, last: self.reserved.append((first, last)),
            "traffic": self.traffic,
            "save": self.saved.append,
            "message_s": 5.0,
        }
        return Driver(**given | other)  # type: ignore[arg-type]


def sides(steps: int = STEPS) -> tuple[Side, Side]:
    a, p = MemoryLink.pair("bank", "retailer")
    manifest = toy.manifest(steps)
    return (
        Side("active", a, Gate(manifest, "active"), Traffic(["passive"])),
        Side("passive", p, Gate(manifest, "passive"), Traffic(["active"])),
    )


def programs(steps: int = STEPS, tampered: str = "") -> tuple[Program[Outcome], Program[Outcome]]:
    return (
        toy.active(steps, 0.0, None, lambda progress: None),
        toy.passive(steps, SEED, None, lambda progress: None, tampered),
    )


def run_both(
    both: tuple[Side, Side], of: tuple[Program[Outcome], Program[Outcome]], **other: object
) -> tuple[object, object]:
    """Results, or the errors; a side that fails tells the other its code, as a worker does."""

    def one(side: Side, program: Program[Outcome]) -> object:
        try:
            return drive(program, side.driver(**other))
        except Exception as problem:
            side.link.close(to_wire(problem))
            return problem

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(one, both, of)
    return first, second


def test_the_result_is_that_of_simulate() -> None:
    both = sides()
    driven = run_both(both, programs())
    active, passive = programs()
    simulated = simulate({"active": active, "passive": passive})
    for role, outcome in zip(("active", "passive"), driven, strict=True):
        assert isinstance(outcome, Outcome)
        expected = simulated[role]
        assert isinstance(expected, Outcome)
        assert outcome.report == expected.report
        for name, values in expected.artifacts.items():
            assert np.array_equal(outcome.artifacts[name], values)


def test_traffic_and_transcripts_of_both_sides_agree() -> None:
    a, p = both = sides()
    run_both(both, programs())
    sent, received = p.traffic.sent["active"], a.traffic.received["passive"]
    assert (sent.messages, sent.size) == (received.messages, received.size) == (STEPS, received.size)
    assert sent.transcript.digest() == received.transcript.digest()
    # The transcript by hand: each message after its length.
    scale = np.float32(hashlib.sha256(SEED).digest()[0])
    total = hashlib.sha256()
    for step in range(STEPS):
        data = encode(toy.Rows(step, scale * np.full((toy.WIDTH, 2), step, np.float32)))
        total.update(struct.pack("!Q", len(data)) + data)
    assert sent.transcript.digest() == total.hexdigest()
    assert a.traffic.bytes_received == p.traffic.bytes_sent == sent.size


def test_messages_are_reserved_before_they_are_used() -> None:
    steps = RESERVED_AT_ONCE  # 2 messages a step: two reserves
    a, p = both = sides(steps)
    run_both(both, programs(steps))
    expected = [(1, RESERVED_AT_ONCE), (RESERVED_AT_ONCE + 1, 2 * RESERVED_AT_ONCE)]
    assert a.reserved == p.reserved == expected


def test_nothing_is_sent_when_the_reserve_fails() -> None:
    _, p = sides()

    def fails(first: int, last: int) -> None:
        raise StateError("no disk")

    with pytest.raises(StateError):
        drive(programs()[1], p.driver(reserve=fails))
    assert p.traffic.messages == 0


@pytest.mark.parametrize(("tampered", "text"), [("unlisted", "Secret"), ("large", "bytes")])
def test_the_own_gate_stops_what_the_manifest_does_not_list(tampered: str, text: str) -> None:
    a, p = both = sides()
    active, passive = run_both(both, programs(tampered=tampered))
    assert isinstance(passive, GateError)
    assert text in str(passive)
    assert isinstance(active, PeerStopped)
    assert active.reason == "gate"
    assert p.traffic.sent["active"].messages == a.traffic.received["passive"].messages == 3


class Open(Gate):
    """A gate that a tampered worker has switched off."""

    def outbound(self, to: str, message: object, nbytes: int) -> None:
        """Lets all pass."""


@pytest.mark.parametrize("tampered", ["unlisted", "large"])
def test_the_peers_gate_stops_it_too(tampered: str) -> None:
    a, p = both = sides()
    p.gate = Open(toy.manifest(STEPS), "passive")
    active, passive = run_both(both, programs(tampered=tampered))
    assert isinstance(active, GateError)
    assert isinstance(passive, PeerStopped)
    assert a.traffic.received["passive"].messages == 3


def test_a_message_above_the_limit_is_not_even_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    a, p = sides()
    p.link.send(bytes(10_000))
    monkeypatch.setattr("parties.running.drive.wire.decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(GateError, match="10000 bytes"):
        drive(programs()[0], a.driver())


def test_hostile_bytes_are_a_wire_error() -> None:
    a, p = sides()
    p.link.send(b"no message at all")
    with pytest.raises(WireError):
        drive(programs()[0], a.driver())


def test_a_listed_message_out_of_turn_is_a_protocol_error() -> None:
    def twice() -> Program[Outcome]:
        yield Send("active", toy.Rows(0, np.zeros((toy.WIDTH, 2), np.float32)))
        yield from receive("active", toy.Rows)
        return Outcome(report={}, artifacts={})

    active, passive = run_both(sides(), (programs()[0], twice()))
    assert isinstance(passive, ProtocolError | GateError)
    assert isinstance(active, PeerStopped)


def test_a_stop_is_looked_at_before_each_effect_and_closes_the_program() -> None:
    closed = threading.Event()
    stop = threading.Event()

    def endless() -> Program[Outcome]:
        try:
            while True:
                yield Compute(stop.set)
        finally:
            closed.set()

    def check() -> None:
        if stop.is_set():
            raise CancelledRun("asked to")

    with pytest.raises(CancelledRun):
        drive(endless(), sides()[0].driver(check=check))
    assert closed.is_set()


def test_an_error_of_a_compute_is_raised_in_the_program() -> None:
    def careful() -> Program[str]:
        try:
            yield Compute(int, ("x",))
        except ValueError:
            return "caught"
        return "missed"

    assert drive(careful(), sides()[0].driver()) == "caught"


@pytest.mark.parametrize("effect", [Send("nobody", toy.Sums(0, np.zeros(2, np.float32))), "no effect"])
def test_a_wrong_effect_is_a_protocol_error(effect: object) -> None:
    def wrong() -> Program[None]:
        yield effect  # type: ignore[misc]

    with pytest.raises(ProtocolError):
        drive(wrong(), sides()[0].driver())


def test_a_lost_peer_ends_the_wait() -> None:
    a, p = sides()
    p.link.close()
    with pytest.raises(PeerLost, match="retailer"):
        drive(programs()[0], a.driver())


class Silent(Link):
    """A peer that sends nothing; each wait takes as long as it may, by this clock."""

    peer = "silent"

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.waited = clock, list[float]()

    def receive(self, timeout: float) -> bytes:
        self.waited.append(timeout)
        self.clock[0] += timeout
        raise PeerTimeout("silent")


def waits(deadlines: tuple[float, ...]) -> Program[None]:
    """Waits twice for each of the peers after each deadline."""
    for seconds in deadlines:
        yield Deadline(seconds)
        for peer in ("one", "two"):
            with contextlib.suppress(PeerTimeout):
                yield from receive(peer, toy.Rows)


def test_a_deadline_bounds_all_waits_together_and_leaves_time_to_read_what_has_come() -> None:
    clock, (a, _) = [100.0], sides()
    links = {"one": Silent(clock), "two": Silent(clock)}
    given = {"links": links, "inbound_limits": {"two": 3_000_000}, "clock": lambda: clock[0]}
    drive(waits((30.0, 0.0, 20.0)), a.driver(**given, message_s=25.0))
    # 30 s together: 25 for one, the other 5 for two. Without a deadline 25 s each. Then 20 s, of which one leaves two
    # nothing but the time for a message of 3 MB at 1 MB a second, and a second.
    assert links["one"].waited == [25.0, 25.0, 20.0]
    assert links["two"].waited == [5.0, 25.0, reading_s(3_000_000)]
    assert reading_s(3_000_000) == 4.0


def unlisted(link: Link) -> None:
    link.send(encode(toy.Secret(np.ones((toy.WIDTH, 2), np.float32))))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda link: link.close(), PeerLost),
        (lambda link: link.close("interrupted"), PeerStopped),
        (lambda link: link.send(b"no message at all"), WireError),
        (lambda link: link.send(bytes(10_000)), GateError),
        (unlisted, GateError),
        (lambda link: link.send(encode(toy.Sums(0, np.zeros(2, np.float32)))), GateError),
        (lambda link: None, PeerTimeout),
    ],
    ids=["lost", "stopped", "garbage", "large", "unlisted", "wrong way", "silent"],
)
def test_a_peers_fault_is_raised_where_the_program_waits_for_it(
    fault: Callable[[Link], None], kind: type[FedaccordError]
) -> None:
    def careful() -> Program[FedaccordError]:
        try:
            yield from receive("passive", toy.Rows)
        except FedaccordError as problem:
            return problem
        raise AssertionError("nothing was raised")

    a, p = sides()
    fault(p.link)
    driver = a.driver(message_s=0.1)
    caught = drive(careful(), driver)
    assert type(caught) is kind
    assert driver.faults == {"passive": caught}


def test_a_program_that_catches_a_fault_goes_on_with_its_other_peers() -> None:
    lost, lost_end = MemoryLink.pair("bank", "north")
    there, there_end = MemoryLink.pair("bank", "south")
    lost_end.close()
    there_end.send(encode(toy.Rows(7, np.ones((1, 2), np.float32))))

    def careful() -> Program[int]:
        with pytest.raises(PeerLost):
            yield Send("north", toy.Sums(0, np.zeros(2, np.float32)))
        return (yield from receive("south", toy.Rows)).step

    manifest = tuple(
        replace(line, **{way: name})
        for line in toy.manifest(STEPS)
        for way in ("sender", "receiver")
        if getattr(line, way) == "passive"
        for name in ("north", "south")
    )
    side = Side("active", there, Gate(manifest, "active"), Traffic(["north", "south"]))
    driver = side.driver(links={"north": lost, "south": there}, inbound_limits={"south": 1000})
    assert drive(careful(), driver) == 7
    assert list(driver.faults) == ["north"]


def test_what_a_side_does_itself_is_not_raised_in_its_program() -> None:
    def careless(of: list[object]) -> Program[None]:
        try:
            yield Send("passive", toy.Secret(np.ones((1, 2), np.float32)))
        except FedaccordError as problem:
            of.append(problem)

    caught: list[object] = []
    with pytest.raises(GateError):  # its own gate
        drive(careless(caught), sides()[0].driver())
    assert caught == []


@pytest.mark.parametrize("closing", ["revoked", ""])
def test_a_revocation_and_an_own_stop_end_the_run_past_the_program(closing: str) -> None:
    def stubborn() -> Program[None]:
        for _ in range(3):
            try:
                yield from receive("passive", toy.Rows)
            except FedaccordError:
                continue

    a, p = sides()
    p.link.close(closing)
    looks: list[None] = []

    def check() -> None:
        looks.append(None)
        if len(looks) > 2 and not closing:  # this side stops while it waits: the closed link is its own doing
            raise CancelledRun("asked to")

    with pytest.raises(PeerStopped if closing else CancelledRun):
        drive(stubborn(), a.driver(check=check))


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_gives_back_state_and_use(tmp_path: Path) -> None:
    gate = Gate(toy.manifest(STEPS), "active", used={("Rows", "passive", "active"): 7})
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(Checkpoint(5, {"at": np.array(5), "w": np.arange(6.0).reshape(2, 3)}), gate)
    state, used = checkpoints.load(5)
    assert int(state["at"]) == 5
    assert np.array_equal(state["w"], np.arange(6.0).reshape(2, 3))
    assert used == {("Rows", "passive", "active"): 7, ("Sums", "active", "passive"): 0}
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "checkpoints").iterdir()} == {"0o600"}


def test_only_the_newest_checkpoints_stay(tmp_path: Path) -> None:
    gate = Gate(toy.manifest(STEPS), "active")
    checkpoints = Checkpoints(tmp_path)
    for step in range(5, 50, 5):
        checkpoints.save(Checkpoint(step, {"at": np.array(step)}), gate)
    assert checkpoints.steps() == (35, 40, 45)
    assert len(checkpoints.steps()) == KEPT
    checkpoints.clear_after(35)
    assert checkpoints.steps() == (35,)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"x" + data[1:]])
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint(5, {"at": np.array(5)}), Gate(toy.manifest(STEPS), "active"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StateError, match="step 5"):
        checkpoints.load(5)


def test_a_damaged_checkpoint_counts_as_not_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate, seed = Gate(toy.manifest(STEPS), "active"), b"s" * 32
    checkpoints = Checkpoints(tmp_path, seed)
    for step in (5, 10, 15, 20):
        checkpoints.save(Checkpoint(step, {"at": np.array(step)}), gate)
    flipped, copied = tmp_path / "00000020.ckpt", tmp_path / "00000015.ckpt"
    flipped.write_bytes(flipped.read_bytes()[:-1] + b"?")
    copied.write_bytes((tmp_path / "00000010.ckpt").read_bytes())
    again = Checkpoints(tmp_path, seed)
    assert again.steps() == (10,)
    assert int(again.load(10)[0]["at"]) == 10
    assert "the checkpoint of step 20 is damaged" in caplog.text
    assert Checkpoints(tmp_path, b"another seed").steps() == ()


def test_a_resumed_program_ends_with_the_same_bits(tmp_path: Path) -> None:
    both = sides()
    whole = run_both(both, programs())
    starts = [{c.step: c.state for c in side.saved}[10] for side in both]
    resumed = run_both(
        sides(),
        (
            toy.active(STEPS, 0.0, starts[0], lambda progress: None),
            toy.passive(STEPS, SEED, starts[1], lambda progress: None, ""),
        ),
    )
    assert isinstance(whole[0], Outcome)
    assert isinstance(resumed[0], Outcome)
    assert np.array_equal(whole[0].artifacts["total"], resumed[0].artifacts["total"])
