"""Rules of the link: one pinned certificate, one run, one comer, and a hello that holds."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.links.handshake import VERSION, Hello, check_goodbye, check_hello, for_same_run, goodbye, hello
from parties.links.rendezvous import Meeting, _Reception, _try_port
from parties.links.tls_identity import Pin, secure, tls_context
from parties.links.tls_link import Terms
from parties.running.drive import Traffic
from protocols import keys
from protocols.approval import to_text
from protocols.audit import GENESIS, Head, sign_head
from protocols.audit import to_text as head_text
from protocols.errors import (
    ApprovalError,
    AuditError,
    ExpiredError,
    NotApprovedError,
    PeerRefused,
    ProtocolError,
)
from protocols.request import digest
from protocols.wire import encode
from tests.mutations.rule import Cut, Place, Rule
from tests.parties.links.test_link import Names, _tcp_pair, close_all
from tests.protocols import samples
from tests.waiting import PATIENCE

TLS = "parties.links.tls_identity."
PORT = "parties.links.rendezvous._Reception._settle"
HELLO = "parties.links.handshake.check_hello"
HEAD = "parties.links.handshake.parse_peer_head"
PINNED = (
    Cut(f"{TLS}tls_context", "ssl.CERT_REQUIRED", "ssl.CERT_NONE"),
    Cut(
        f"{TLS}secure",
        "connection.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(pin.certificate)",
    ),
)
SECONDS = PATIENCE
OURS, OTHER = "dd" * 32, "ee" * 32


def ends(server: Pin, client: Pin, *, old: bool = False) -> list[BaseException | None]:
    """How the TLS handshake ended for who listens and for who dials, with TLS 1.2 in the dialer's hands if `old`."""

    def one(raw: socket.socket, pin: Pin, listens: bool) -> None:
        context = tls_context(pin, server=listens)
        if old and not listens:
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        raw.settimeout(SECONDS)
        with context.wrap_socket(raw, server_side=listens, do_handshake_on_connect=False) as connection:
            secure(connection, pin)
            if listens:  # TLS 1.3 lets a dialer write before its certificate was looked at
                connection.send(b"!")
            else:
                connection.recv(1)

    left, right = _tcp_pair()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(one, left, server, True), pool.submit(one, right, client, False)]
        return [end.exception() for end in both]


def a_stranger_comes(place: Place) -> None:
    names = Names(place.folder)
    came, _ = ends(names.pin("bank", "retailer"), names.pin("stranger", "bank"))
    if came is not None:
        raise came


def a_stranger_answers(place: Place) -> None:
    names = Names(place.folder)
    _, answered = ends(names.pin("stranger", "retailer"), names.pin("retailer", "bank"))
    if answered is not None:
        raise answered


def an_old_protocol(place: Place) -> None:
    names = Names(place.folder)
    came, _ = ends(names.pin("bank", "retailer"), names.pin("retailer", "bank"), old=True)
    if came is not None:
        raise came


def comers(ours: str, theirs: list[str], place: Place) -> None:
    """The bank waits at its port for the run `ours`; with the retailer's link key somebody comes with each of `theirs`.

    PeerRefused when one was turned away.
    """
    names = Names(place.folder)
    refused: list[str] = []
    links = []
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        listener.settimeout(SECONDS)
        port = listener.getsockname()[1]

        def meeting(own: str, peer: str, said: str) -> Meeting:
            return Meeting(
                pin=names.pin(own, peer),
                address=f"127.0.0.1:{port}-{port}",
                hello=lambda: hello(said, "passive", "", "", (), samples.NOW),
                is_ours=for_same_run(ours, "passive") if own == "bank" else lambda hello: True,
                terms=Terms(),
                turned_away=lambda host, why: refused.append(why),
            )

        reception = _Reception(listener, meeting("bank", "retailer", ours))
        for said in theirs:
            pin = meeting("retailer", "bank", said)
            context = tls_context(pin.pin, server=False)
            met = pool.submit(_try_port, "127.0.0.1", port, pin, context, SECONDS)
            raw, origin = listener.accept()
            raw.settimeout(SECONDS)
            caller = reception._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
            reception._heard.append(caller)
            reception._hear(caller, f"{origin[0]}:{origin[1]}")
            if met.exception() is None:
                links.append(met.result().link)
    close_all(*links, *([reception._met.link] if reception._met else []))
    if refused:
        raise PeerRefused(refused[0])


def greeted(
    place: Place,
    *,
    given: str = "all",
    head_of: str = "retailer",
    signer: Ed25519PrivateKey | None = None,
    now: datetime = samples.NOW,
    **changes: object,
) -> None:
    """The bank's worker is told a hello in which one thing isn't right."""
    people = samples.People()
    request = samples.sample_request(people)
    of_another = samples.approvals(samples.sample_request(people, nonce="d" * 32), people)
    approvals = samples.approvals(request, people)
    head = Head(party=head_of, index=0, hash=GENESIS)
    said: dict[str, object] = {
        "version": VERSION,
        "digest": digest(request),
        "role": "passive",
        "approvals": to_text({"all": approvals, "one": approvals[:1], "another's": of_another}[given]),
        "head": head_text(sign_head(head, samples.NOW, signer or people.retailer)),
        "held": (),
        "time": "2030-01-01T12:00:00Z",
    }
    hers = encode(Hello(**said | changes))  # type: ignore[arg-type]
    check_hello(hers, request, "passive", now, samples.NOW)


def parted(place: Place) -> None:
    """The retailer says at the end that it sent something else than came here."""
    people = samples.People()
    request = samples.sample_request(people)
    head = sign_head(Head(party="retailer", index=0, hash=GENESIS), samples.NOW, people.retailer)
    theirs = Traffic(["active"])
    theirs.sent["active"].add(b"something else")
    said = goodbye(head_text(head), theirs, "active", held=False)
    check_goodbye(said, request, Traffic(["passive"]), "passive")


RULES = (
    Rule(
        name="TLS pin: who comes has the pinned certificate",
        off=PINNED,
        attempt=a_stranger_comes,
        stopped=PeerRefused,
        saying="a certificate that isn't retailer's",
    ),
    Rule(
        name="TLS pin: who answers has the pinned certificate",
        off=PINNED,
        attempt=a_stranger_answers,
        stopped=PeerRefused,
        saying="a certificate that isn't bank's",
    ),
    Rule(
        name="TLS 1.3 and nothing older",
        off=(
            Cut(
                f"{TLS}tls_context",
                "context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3",
                "pass",
            ),
        ),
        attempt=an_old_protocol,
        stopped=ssl.SSLError,
        saying="UNSUPPORTED_PROTOCOL",
    ),
    Rule(
        name="replayed start: who comes to the port twice is met once",
        off=(Cut(PORT, "self._met is not None or self._over"),),
        attempt=partial(comers, OURS, [OURS, OURS]),
        stopped=PeerRefused,
        saying="came twice",
    ),
    Rule(
        name="who comes to the port comes for this run",
        off=(Cut(PORT, "not self._meeting.is_ours(hello)"),),
        attempt=partial(comers, OURS, [OTHER]),
        stopped=PeerRefused,
        saying="came with another run",
    ),
    Rule(
        name="handshake: the same version",
        off=(Cut(HELLO, "hers.version != VERSION"),),
        attempt=partial(greeted, version=VERSION + 1),
        stopped=ProtocolError,
        saying="speaks version",
    ),
    Rule(
        name="handshake: the same request",
        off=(Cut(HELLO, "hers.digest != digest(request)"),),
        attempt=partial(greeted, digest=OTHER),
        stopped=ProtocolError,
        saying="came with request",
    ),
    Rule(
        name="handshake: the role of the roster",
        off=(Cut(HELLO, "hers.role != role"),),
        attempt=partial(greeted, role="active"),
        stopped=ProtocolError,
        saying="claims the role",
    ),
    Rule(
        name="handshake: every party's approval",
        off=(Cut(HELLO, "verify_all(request, parse_approvals(hers.approvals), now)", "pass"),),
        attempt=partial(greeted, given="one"),
        stopped=NotApprovedError,
        saying="approval missing",
    ),
    Rule(
        name="handshake: approvals of this request",
        off=(Cut(HELLO, "verify_all(request, parse_approvals(hers.approvals), now)", "pass"),),
        attempt=partial(greeted, given="another's"),
        stopped=ApprovalError,
        saying="is for request",
    ),
    Rule(
        name="handshake: before the request's date",
        off=(Cut("protocols.approval.verify_all", "check_expiry(request, now)", "pass"),),
        attempt=partial(greeted, now=samples.NOW.replace(year=2031)),
        stopped=ExpiredError,
        saying="expired",
    ),
    Rule(
        name="head exchange: a head is signed by its party",
        off=(Cut(HEAD, "parse_head(text, entry.signing_key)", "parse_head(text)"),),
        attempt=partial(greeted, signer=keys.generate_key()),
        stopped=AuditError,
        saying="signed with another key",
    ),
    Rule(
        name="head exchange: a party gives heads of its own log",
        off=(Cut(HEAD, "signed.head.party != entry.name"),),
        attempt=partial(greeted, head_of="bank"),
        stopped=ProtocolError,
        saying="sent an audit head of bank",
    ),
    Rule(
        name="goodbye: both sides say the same messages went over",
        off=(Cut("parties.links.handshake.check_goodbye", "(came.sent, came.received) != own"),),
        attempt=parted,
        stopped=ProtocolError,
        saying="don't agree on the messages",
    ),
)
