"""Who is at the other end of a TLS connection: exactly the holder of one pinned certificate, or nobody."""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from protocols.errors import KeyFileError, PeerRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Who we are on the link, and whom alone we accept: `certificate` is the peer's, PEM."""

    peer: str
    certificate: str
    own_key: Path
    own_certificate: Path


def tls_context(pin: Pin, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 only, a certificate demanded from both sides, no trust root but the pinned certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the whole certificate is compared, which says more than a name in it
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # no session is ever resumed
    try:
        context.load_cert_chain(pin.own_certificate, pin.own_key)
        context.load_verify_locations(cadata=pin.certificate)
    except (OSError, ValueError) as problem:
        raise KeyFileError(
            f"the link keys for {pin.peer} can't be used ({type(problem).__name__})"
        ) from problem
    return context


def secure(connection: ssl.SSLSocket, pin: Pin) -> None:
    """Shakes hands and compares the other side's certificate byte for byte.

    Raises PeerRefused when this isn't the peer, OSError (so TimeoutError, ssl.SSLError) when the connection breaks or
    its timeout passes.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        connection.do_handshake()
    except ssl.SSLCertVerificationError as problem:
        raise PeerRefused(f"a certificate that isn't {pin.peer}'s ({problem.verify_message})") from problem
    if connection.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(pin.certificate):
        raise PeerRefused(f"a certificate that isn't the one pinned for {pin.peer}")
