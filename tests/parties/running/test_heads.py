"""Heads of the parties' logs at checkpoints: who gets one, how many are noted, and one that can't be."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
import pytest

from parties.links.handshake import Peer
from parties.links.link import Link
from parties.links.memory_link import MemoryLink
from parties.running.drive import next_message
from parties.running.heads import HEAD_LIMIT, AuditHead, Giving, HeadExchange
from parties.running.pen import WorkerPen
from protocols import keys, wire
from protocols.audit import Head, SignedHead, sign_head, to_text
from protocols.errors import PeerLost, PeerTimeout, ProtocolError, StateError
from tests.parties.control.offices import Offices, make_offices
from tests.parties.running import toy

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
EVERY = 60.0


class Notes(WorkerPen):
    """A pen that only remembers the heads."""

    def __init__(self) -> None:
        self.heads: list[tuple[int, str]] = []

    def head(self, signed: SignedHead, when: str) -> None:
        self.heads.append((signed.head.index, when))


class Room:
    """The bank's side of a run with the shop, whose opening head was at entry 5; `now` is its clock in seconds."""

    def __init__(self, offices: Offices, links: Mapping[str, Link] | None = None) -> None:
        self.key, self.now, self.answers = offices.shop.signing_key(), 0.0, True
        self.pen = Notes()
        peer = Peer(role="passive", name="shop", head=self.signed(5), held=frozenset(), ahead=0.0)
        self.heads = HeadExchange(
            links or {"passive": MemoryLink.pair("bank", "shop")[0]},
            [peer],
            offices.request(),
            self.pen,
            Giving(sign=self.sign, seconds=EVERY, clock=lambda: self.now),
        )

    def sign(self) -> str:
        if not self.answers:
            raise StateError("no supervisor answers")
        return "ours"

    def signed(self, index: int, letter: str = "a", party: str = "shop") -> SignedHead:
        return sign_head(Head(party=party, index=index, hash=letter * 64), NOW, self.key)

    def take(self, signed: SignedHead) -> bool:
        return self.heads.take("passive", wire.encode(AuditHead(to_text(signed))))


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


def test_a_head_goes_to_every_peer_and_a_lost_one_ends_nothing(offices: Offices) -> None:
    ends = {role: MemoryLink.pair("bank", role) for role in ("client-1", "client-2", "client-3")}
    room = Room(offices, {role: ours for role, (ours, _) in ends.items()})
    ends["client-2"][1].close()
    room.now = EVERY
    room.heads.give()
    for role in ("client-1", "client-3"):
        assert wire.decode(ends[role][1].receive(0.1), (AuditHead,)) == AuditHead("ours")
    with pytest.raises(PeerLost):  # the program meets it in its turn
        ends["client-2"][0].receive(0.1)


def test_checkpoints_soon_after_each_other_give_one_head(offices: Offices) -> None:
    ours, theirs = MemoryLink.pair("bank", "shop")
    room = Room(offices, {"passive": ours})
    for room.now in (1.0, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY):
        room.heads.give()
    ours.close()
    for _ in range(2):
        theirs.receive(0.1)
    with pytest.raises(PeerLost):
        theirs.receive(0.1)


def test_without_a_supervisors_answer_the_run_goes_on_and_the_next_checkpoint_has_a_head(
    offices: Offices,
) -> None:
    ours, theirs = MemoryLink.pair("bank", "shop")
    room = Room(offices, {"passive": ours})
    room.now, room.answers = EVERY, False
    room.heads.give()
    room.now, room.answers = 2 * EVERY, True
    room.heads.give()
    assert wire.decode(theirs.receive(0.1), (AuditHead,)) == AuditHead("ours")


def test_a_peer_can_not_fill_our_log_with_heads(offices: Offices) -> None:
    room = Room(offices)
    assert all(room.take(room.signed(index)) for index in range(6, 1000))
    assert len(room.pen.heads) == 2
    room.now = 3 * EVERY
    assert all(room.take(room.signed(index)) for index in range(1000, 2000))
    assert len(room.pen.heads) == 8
    assert {when for _, when in room.pen.heads} == {"checkpoint"}


@pytest.mark.parametrize(("index", "letter"), [(4, "a"), (5, "b")])
@pytest.mark.parametrize("when", ["checkpoint", "closing"])
def test_P4_a_head_that_can_not_follow_is_noted_and_refused(
    offices: Offices, index: int, letter: str, when: str
) -> None:
    room = Room(offices)
    signed = room.signed(index, letter)
    with pytest.raises(ProtocolError, match="cut or rewritten"):
        room.take(signed) if when == "checkpoint" else room.heads.note("passive", signed, when)
    assert room.pen.heads == [(index, when)]


def test_a_flood_does_not_hide_a_head_that_can_not_follow(offices: Offices) -> None:
    room = Room(offices)
    for index in range(6, 20):
        room.take(room.signed(index))
    with pytest.raises(ProtocolError, match="cut or rewritten"):
        room.take(room.signed(5))
    assert room.pen.heads[-1] == (5, "checkpoint")


def test_a_head_of_another_party_or_under_another_key_is_refused(offices: Offices) -> None:
    room = Room(offices)
    with pytest.raises(ProtocolError, match="sent an audit head of bank"):
        room.take(room.signed(6, party="bank"))
    room.key = keys.generate_key()
    with pytest.raises(ProtocolError, match="signed with another key"):
        room.take(room.signed(6))
    assert room.pen.heads == []


def test_what_is_no_head_is_left_to_the_program(offices: Offices) -> None:
    room = Room(offices)
    head = wire.encode(AuditHead("x" * HEAD_LIMIT))  # too long for one
    for data in (b"", b"nonsense", wire.encode(toy.Sums(1, np.zeros(2, np.float32))), head):
        assert not room.heads.take("passive", data)


def test_heads_do_not_lengthen_the_wait_for_a_message() -> None:
    ours, theirs = MemoryLink.pair("bank", "shop")
    for _ in range(50):
        theirs.send(b"a head")

    def slow(role: str, data: bytes) -> bool:
        time.sleep(0.02)
        return True

    with pytest.raises(PeerTimeout):
        next_message(ours, "passive", 0.3, slow)
    assert ours.receive(0.1) == b"a head", "not all were taken"
