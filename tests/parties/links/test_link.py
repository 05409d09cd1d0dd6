"""One body of tests for every link; then the framing, and what only TLS has to withstand."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.links.link import FRAME_LIMIT, HEADER, Frame, FrameReader, Link, frame, message_frames
from parties.links.memory_link import MemoryLink
from parties.links.rendezvous import Meeting, Met, _Reception, bind, dial, listen
from parties.links.tls_identity import Pin, secure, tls_context
from parties.links.tls_link import Terms, TlsLink
from protocols import keys
from protocols.errors import (
    CancelledRun,
    LinkError,
    PeerLost,
    PeerRefused,
    PeerStopped,
    PeerTimeout,
    PortInUse,
    ProtocolError,
)
from tests.ports import free_range
from tests.waiting import PATIENCE, until

Pair = tuple[Link, Link]
Connect = Callable[[Terms], Pair]


class Names:
    """Keys and certificates of some parties, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bank", "retailer", "stranger"):
            key, certificate = keys.link_certificate(name)
            (folder / f"{name}.key").write_bytes(key)
            (folder / f"{name}.crt").write_bytes(certificate)

    def pin(self, own: str, peer: str, certificate_of: str = "") -> Pin:
        return Pin(
            peer=peer,
            certificate=(self.folder / f"{certificate_of or peer}.crt").read_text(),
            own_key=self.folder / f"{own}.key",
            own_certificate=self.folder / f"{own}.crt",
        )


@pytest.fixture(scope="session")
def names(tmp_path_factory: pytest.TempPathFactory) -> Names:
    return Names(tmp_path_factory.mktemp("certificates"))


def close_all(*links: Link) -> None:
    """Closes at once, as two workers do: each waits a little for the other's end."""
    if links:
        with ThreadPoolExecutor(len(links)) as pool:
            list(pool.map(lambda link: link.close(), links))


def over_tls(names: Names, terms: Terms) -> Pair:
    left, right = _tcp_pair()
    ends = []
    with ThreadPoolExecutor(2) as pool:
        for raw, own, peer, server in ((left, "bank", "retailer", True), (right, "retailer", "bank", False)):
            ends.append(pool.submit(_end, raw, names.pin(own, peer), server, terms))
    return ends[0].result(), ends[1].result()


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        right = socket.create_connection(listener.getsockname())
        left, _ = listener.accept()
    return left, right


def _end(raw: socket.socket, pin: Pin, server: bool, terms: Terms) -> TlsLink:
    context = tls_context(pin, server=server)
    connection = context.wrap_socket(raw, server_side=server, do_handshake_on_connect=False)
    secure(connection, pin)
    return TlsLink(connection, pin.peer, terms)


@pytest.fixture(params=["memory", "tls"])
def connect(request: pytest.FixtureRequest, names: Names) -> Iterator[Connect]:
    made: list[Link] = []

    def build(terms: Terms) -> Pair:
        if request.param == "memory":
            pair: Pair = MemoryLink.pair(
                "bank", "retailer", limit=terms.unread_limit, check=terms.check, patience=terms.patience
            )
        else:
            pair = over_tls(names, terms)
        made.extend(pair)
        return pair

    yield build
    close_all(*made)


@pytest.fixture
def pair(connect: Connect) -> Pair:
    return connect(Terms(keep_alive=0.05))


SIZES = (0, 1, 5, 16_379, 16_380, 16_384, FRAME_LIMIT - 1, FRAME_LIMIT, FRAME_LIMIT + 1, 5_000_003)


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    bank, retailer = pair
    sent = [bytes([number % 251]) * size for number, size in enumerate(SIZES)]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: [bank.send(data) for data in sent])
        got = [retailer.receive(PATIENCE) for _ in sent]
        sending.result()
    assert got == sent
    assert all(type(data) is bytes for data in got)


def test_each_end_names_the_other(pair: Pair) -> None:
    assert (pair[0].peer, pair[1].peer) == ("retailer", "bank")


def test_both_can_send_much_at_once(pair: Pair) -> None:
    big = bytes(8_000_000)

    def turn(link: Link) -> int:
        total = 0
        for _ in range(3):
            link.send(big)
            total += len(link.receive(PATIENCE))
        return total

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(turn, pair)) == [24_000_000] * 2


def send_on(link: Link) -> None:
    while True:
        link.send(bytes(3 << 20))


def read_on(link: Link) -> None:
    while True:
        link.receive(PATIENCE)


def test_a_sender_waits_for_a_slow_reader_and_loses_nothing(connect: Connect) -> None:
    bank, retailer = connect(Terms(unread_limit=1 << 20))
    sent = 0

    def send_all() -> None:
        nonlocal sent
        for number in range(60):
            bank.send(bytes([number]) * (1 << 20))
            sent += 1

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_all)
        time.sleep(0.4)
        assert sent < 40, "nothing held the sender back"
        got = [retailer.receive(PATIENCE) for _ in range(60)]
        sending.result(PATIENCE)
    assert [data[0] for data in got] == list(range(60))


def test_a_peer_that_reads_nothing_is_a_timeout_that_names_it(connect: Connect) -> None:
    bank, _ = connect(Terms(unread_limit=1 << 16, patience=0.3))
    with pytest.raises(PeerTimeout, match="retailer didn't read"):
        send_on(bank)


def test_a_timeout_names_the_peer(pair: Pair) -> None:
    start = time.monotonic()
    with pytest.raises(PeerTimeout, match=r"bank sent no message within 0\.3 s"):
        pair[1].receive(0.3)
    assert time.monotonic() - start > 0.25
    pair[0].send(b"late")  # a timeout doesn't end the link
    assert pair[1].receive(PATIENCE) == b"late"


def test_a_close_is_seen_after_what_was_sent_before(pair: Pair) -> None:
    bank, retailer = pair
    bank.send(b"last words")
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(bank.close)
        assert retailer.receive(PATIENCE) == b"last words"
        with pytest.raises(PeerLost, match="bank"):
            retailer.receive(PATIENCE)
        with pytest.raises(PeerLost, match="bank"):
            retailer.send(bytes(8_000_000))
        retailer.close()
        closing.result(PATIENCE)


def test_a_stop_code_overtakes_what_is_unread(pair: Pair) -> None:
    bank, retailer = pair
    bank.send(b"one")
    assert retailer.receive(PATIENCE) == b"one"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(retailer.receive, PATIENCE)
        time.sleep(0.1)
        bank.close("revoked")
        with pytest.raises(PeerStopped, match="bank") as caught:
            waiting.result(PATIENCE)
    assert caught.value.reason == "revoked"
    with pytest.raises(PeerStopped):
        retailer.send(b"too late")


def test_a_stop_code_reaches_a_peer_that_is_sending(pair: Pair) -> None:
    bank, retailer = pair
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_on, retailer)
        time.sleep(0.2)
        bank.close("cancelled")
        with pytest.raises(PeerStopped) as caught:
            sending.result(PATIENCE)
    assert caught.value.reason == "cancelled"


def test_a_code_can_be_given_while_own_bytes_are_stuck(connect: Connect) -> None:
    """Cancel at a side whose peer reads nothing yet: the peer still learns why."""
    bank, retailer = connect(Terms(unread_limit=1 << 16, patience=0.5))
    with pytest.raises(PeerTimeout):
        send_on(bank)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(bank.close, "cancelled")
        with pytest.raises(PeerStopped) as caught:
            read_on(retailer)
        closing.result(PATIENCE)
    assert caught.value.reason == "cancelled"


@pytest.mark.parametrize("code", ["No code!", "x" * 200, "é"])
def test_a_malformed_code_is_unknown(pair: Pair, code: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(pair[0].close, code)
        with pytest.raises(PeerStopped) as caught:
            pair[1].receive(PATIENCE)
        pair[1].close()
        closing.result(PATIENCE)
    assert caught.value.reason == "unknown"


def test_use_after_close(pair: Pair) -> None:
    pair[0].close()
    pair[0].close("again")
    with pytest.raises(LinkError, match="closed"):
        pair[0].send(b"x")
    with pytest.raises(LinkError, match="closed"):
        pair[0].receive(1)


def test_own_stop_ends_a_wait(connect: Connect) -> None:
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise CancelledRun("asked to")

    bank, _ = connect(Terms(check=check))
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(CancelledRun):
        bank.receive(PATIENCE)


def test_another_thread_can_close_a_waiting_link(pair: Pair) -> None:
    bank, retailer = pair
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bank.receive, PATIENCE)
        time.sleep(0.1)
        bank.close("cancelled")
        with pytest.raises(PeerStopped):
            retailer.receive(PATIENCE)
        with pytest.raises(LinkError, match="closed"):
            waiting.result(PATIENCE)


# -- framing ---------------------------------------------------------------------------------------------------------


def _feed(reader: FrameReader, data: bytes, step: int) -> list[tuple[Frame, bytes]]:
    found = []
    while data:
        space = reader.space()
        count = min(len(space), step, len(data))
        space[:count] = data[:count]
        came = reader.filled(count)
        data = data[count:]
        found += [came] if came else []
    return found


@given(st.lists(st.integers(0, 3 * FRAME_LIMIT // 2), max_size=3), st.integers(1, 70_000))
@settings(max_examples=15, deadline=None)
def test_frames_round_trip_however_they_are_cut(sizes: list[int], step: int) -> None:
    messages = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    raw = b"".join(bytes(buffer) for data in messages for buffer, _ in message_frames(data))
    raw += frame(Frame.KEEP_ALIVE) + frame(Frame.STOP, b"revoked")
    found = _feed(FrameReader("bank"), raw, max(step, len(raw) // 2000))
    assert found == [(Frame.LAST, data) for data in messages] + [
        (Frame.KEEP_ALIVE, b""),
        (Frame.STOP, b"revoked"),
    ]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (HEADER.pack(9, 1), "unknown kind 9"),
        (HEADER.pack(Frame.LAST, FRAME_LIMIT + 1), "frame of"),
        (HEADER.pack(Frame.LAST, 0xFFFFFFFF), "frame of"),
        (HEADER.pack(Frame.KEEP_ALIVE, 1), "frame of"),
        (HEADER.pack(Frame.STOP, 65), "frame of"),
        (HEADER.pack(Frame.PART, 0), "empty piece"),
        (frame(Frame.PART, bytes(600)) + HEADER.pack(Frame.LAST, 600), "above 1000 bytes"),
    ],
)
def test_hostile_frames_are_refused_at_their_head(raw: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text) as caught:
        _feed(FrameReader("bank", limit=1000), raw, 7)
    assert "bank" in str(caught.value)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_frames_or_a_protocol_error(raw: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert sum(len(content) for _, content in _feed(FrameReader("bank", limit=1000), raw, 50)) <= len(raw)


# -- TLS only --------------------------------------------------------------------------------------------------------


def test_keep_alives_tell_a_long_computation_from_a_dead_peer(names: Names) -> None:
    bank, retailer = over_tls(names, Terms(silence=2.0, keep_alive=0.1))
    threading.Timer(2.5, bank.send, [b"computed"]).start()
    assert retailer.receive(PATIENCE) == b"computed"
    close_all(bank, retailer)


def test_a_silent_peer_is_noticed(names: Names) -> None:
    bank, retailer = over_tls(names, Terms(silence=0.5, keep_alive=60))
    with pytest.raises(PeerTimeout, match="bank gave no sign of life"):
        retailer.receive(PATIENCE)
    close_all(bank, retailer)


def test_a_hostile_frame_ends_the_link(names: Names) -> None:
    left, right = _tcp_pair()
    pin = names.pin("retailer", "bank")
    with ThreadPoolExecutor(1) as pool:
        link = pool.submit(_end, right, pin, False, Terms())
        peer = tls_context(names.pin("bank", "retailer"), server=True).wrap_socket(left, server_side=True)
        peer.sendall(HEADER.pack(Frame.LAST, 0xFFFFFFFF) + b"x" * 100)
        with pytest.raises(ProtocolError, match="bank"):
            link.result().receive(PATIENCE)
        peer.close()
        link.result().close()


def meeting(
    pin: Pin, address: str, hello: bytes = b"run 1", seconds: float = 100.0, **terms: float
) -> Meeting:
    return Meeting(
        pin=pin,
        address=address,
        hello=lambda: hello,
        is_ours=lambda other: other == hello,
        terms=Terms(**terms),  # type: ignore[arg-type]
        seconds=seconds,
    )


def _first_port(address: str) -> int:
    return int(address.split(":")[1].split("-")[0])


def meet(
    names: Names, address: str, before_dial: Callable[[int], None] = lambda port: None
) -> tuple[Met, Met]:
    listener = bind(address)
    with ThreadPoolExecutor(2) as pool:
        listening = pool.submit(listen, listener, meeting(names.pin("bank", "retailer"), address))
        before_dial(listener.getsockname()[1])
        dialing = pool.submit(dial, meeting(names.pin("retailer", "bank"), address))
        return listening.result(), dialing.result()


def check_and_close(met: tuple[Met, Met]) -> None:
    listened, dialed = met[0].link, met[1].link
    listened.send(b"to the dialer")
    dialed.send(b"to the listener")
    assert (dialed.receive(PATIENCE), listened.receive(PATIENCE)) == (b"to the dialer", b"to the listener")
    close_all(listened, dialed)


def test_two_workers_meet_whoever_is_first(names: Names) -> None:
    address = free_range()
    check_and_close(meet(names, address))
    with ThreadPoolExecutor(1) as pool:
        dialing = pool.submit(dial, meeting(names.pin("retailer", "bank"), address))
        time.sleep(0.3)
        listened = listen(bind(address), meeting(names.pin("bank", "retailer"), address))
        check_and_close((listened, dialing.result()))


def _plain(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(data)
        raw.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            raw.recv(100)


def _over(names: Names, port: int, own: str, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if own:
        context.load_cert_chain(names.folder / f"{own}.crt", names.folder / f"{own}.key")
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as raw:
        raw.settimeout(PATIENCE)
        with context.wrap_socket(raw) as connection:
            connection.sendall(b"".join(bytes(buffer) for buffer, _ in message_frames(b"run 1")))
            assert connection.recv(100) == b"", "the listener spoke to a stranger"


@pytest.mark.parametrize(
    "kind", ["no certificate", "other certificate", "plain http", "tls 1.2", "garbage", "other run"]
)
def test_strangers_are_refused_and_the_right_peer_is_taken(
    names: Names, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def come(port: int) -> None:
        if kind == "no certificate":
            _over(names, port, "")
        elif kind == "other certificate":
            _over(names, port, "stranger")
        elif kind == "tls 1.2":
            _over(names, port, "retailer", version=ssl.TLSVersion.TLSv1_2)
        elif kind == "plain http":
            _plain(port, b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n")
        elif kind == "garbage":
            _plain(port, bytes(range(256)) * 4)
        else:
            with pytest.raises(PeerTimeout):
                dial(
                    meeting(names.pin("retailer", "bank"), f"127.0.0.1:{port}-{port}", b"run 2", seconds=1.0)
                )

    check_and_close(meet(names, free_range(), come))
    assert "refused a connection from 127.0.0.1" in caplog.text


def test_silent_connections_delay_nobody(names: Names) -> None:
    silent: list[socket.socket] = []

    def come(port: int) -> None:
        for _ in range(40):
            silent.append(socket.create_connection(("127.0.0.1", port)))

    check_and_close(
        meet(names, free_range(), come)
    )  # 40 times the 5 seconds of each would be more than it waits
    for raw in silent:
        raw.close()


@pytest.mark.slow
def test_the_dialer_passes_by_what_isnt_the_peer(names: Names) -> None:
    """First port: somebody silent; second: a stranger's certificate; third: the peer."""
    address = free_range(3)
    first = _first_port(address)
    with (
        socket.create_server(("127.0.0.1", first)),
        socket.create_server(("127.0.0.1", first + 1)) as stranger,
    ):
        stop = threading.Event()
        thread = threading.Thread(target=_serve_stranger, args=(names, stranger, stop))
        thread.start()
        try:
            check_and_close(meet(names, address))
        finally:
            stop.set()
            thread.join()


def _serve_stranger(names: Names, listener: socket.socket, stop: threading.Event) -> None:
    context = tls_context(names.pin("stranger", "retailer"), server=True)
    listener.settimeout(0.1)
    while not stop.is_set():
        with contextlib.suppress(OSError):
            raw, _ = listener.accept()
            raw.settimeout(2)
            with context.wrap_socket(raw, server_side=True) as connection:
                connection.recv(1)


def test_two_runs_of_the_same_parties_find_their_own(names: Names) -> None:
    address = free_range(4)
    with ThreadPoolExecutor(4) as pool:
        listening = []
        for hello in (b"run 1", b"run 2"):
            at = meeting(names.pin("bank", "retailer"), address, hello)
            listening.append(pool.submit(listen, bind(address), at))
        dialing = [
            pool.submit(dial, meeting(names.pin("retailer", "bank"), address, hello))
            for hello in (b"run 2", b"run 1")
        ]
        mets = [future.result() for future in listening + dialing]
    check_and_close((mets[0], mets[3]))
    check_and_close((mets[1], mets[2]))


def test_a_peer_that_stops_as_soon_as_it_was_met_is_heard(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stop code comes when the listener has its word for this connection, but hasn't looked at it."""
    came, stopped, settle = threading.Event(), threading.Event(), _Reception._await_settlement

    def late(reception: _Reception, link: TlsLink) -> None:
        until(lambda: link._advance(lambda: bool(link._unread)), bool)
        came.set()
        stopped.wait(PATIENCE)
        settle(reception, link)

    monkeypatch.setattr(_Reception, "_await_settlement", late)
    address = free_range()
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(listen, bind(address), meeting(names.pin("bank", "retailer"), address))
        dialed = dial(meeting(names.pin("retailer", "bank"), address)).link
        came.wait(PATIENCE)
        dialed.close("block")
        stopped.set()
        listened = listening.result().link
    with pytest.raises(PeerStopped) as caught:
        listened.receive(PATIENCE)
    assert caught.value.reason == "block"
    listened.close()


def test_no_free_port_names_host_and_range(names: Names) -> None:
    address = free_range(2)
    with bind(address), bind(address), pytest.raises(PortInUse, match=r"127\.0\.0\.1 in \d+-\d+"):
        bind(address)


def test_a_host_of_another_machine_is_an_error(names: Names) -> None:
    with pytest.raises(LinkError, match=r"192\.0\.2\.1"):
        bind("192.0.2.1:20000-20001")


def test_nobody_comes(names: Names) -> None:
    address = free_range()
    with pytest.raises(PeerTimeout, match="retailer did not come"):
        listen(bind(address), meeting(names.pin("bank", "retailer"), address, seconds=0.4))
    with pytest.raises(PeerTimeout, match="bank did not answer"):
        dial(meeting(names.pin("retailer", "bank"), address, seconds=0.4))
    bind(address).close()  # the port is free again


@pytest.mark.parametrize("wrong", ["listener", "dialer"])
def test_a_wrong_certificate_is_refused_by_name(names: Names, wrong: str) -> None:
    """One side has pinned another certificate than the one the other holds."""
    address = free_range()
    pinned = {"listener": "retailer", "dialer": "bank"} | {wrong: "stranger"}
    with ThreadPoolExecutor(2) as pool:
        listening = pool.submit(
            listen,
            bind(address),
            meeting(names.pin("bank", "retailer", pinned["listener"]), address, seconds=8.2),
        )
        dialing = pool.submit(
            dial, meeting(names.pin("retailer", "bank", pinned["dialer"]), address, seconds=8.0)
        )
        with pytest.raises(PeerRefused, match="bank"):
            dialing.result()
        with pytest.raises(PeerTimeout, match=r"retailer.*refused"):
            listening.result()
