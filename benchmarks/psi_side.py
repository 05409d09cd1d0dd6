"""One party of the alignment benchmark: `python -m benchmarks.psi_side ROLE ROWS CORES SOCKET`, started by it.

The process makes its keys, says "ready", waits for a line, runs its role's program past its gate over the inherited
socket, and prints what became of it as one line of JSON.
"""

from __future__ import annotations

import json
import resource
import socket
import struct
import sys
import time
from typing import Final

from parties.running.drive import Driver, drive, largest_message
from parties.running.traffic import Traffic
from protocols.errors import LinkError
from protocols.gate import Gate
from protocols.psi import PSI_KINDS, PsiTerms, crew_of, psi_client, psi_manifest, psi_server
from protocols.seeds import injected

CLIENT, SERVER = "active", "passive"
_LENGTH: Final = struct.Struct("!Q")


def keys_of(role: str, rows: int) -> list[bytes]:
    """`rows` keys of 12 digits; half of each party's are common."""
    first = 0 if role == CLIENT else rows - rows // 2
    return [b"%012d" % (number * 7919 % 10**12) for number in range(first, first + rows)]


class SocketLink:
    """A `parties.links.link.Link` over a socket within one machine: frames of a length and as many bytes."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self._socket = connection
        self._incoming = connection.makefile("rb")
        self._peer = peer

    @property
    def peer(self) -> str:
        """See `Link`."""
        return self._peer

    def send(self, data: bytes) -> None:
        """See `Link`; the protocol never has both sides send at once, so none waits for the other."""
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, timeout: float) -> bytes:
        """See `Link`; LinkError when the peer is gone."""
        self._socket.settimeout(timeout)
        head = self._incoming.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise LinkError(f"{self._peer} is gone")
        return self._incoming.read(_LENGTH.unpack(head)[0])

    def close(self, code: str = "") -> None:
        """See `Link`."""
        self._socket.close()


def run(role: str, rows: int, cores: int, connection: socket.socket) -> dict[str, object]:
    """Seconds, processor seconds, common people, tag, bytes sent, peak memory (MB) of this party with its helpers."""
    keys = keys_of(role, rows)
    print("ready", flush=True)
    sys.stdin.readline()
    start, before = time.perf_counter(), time.process_time()
    peer = SERVER if role == CLIENT else CLIENT
    terms = PsiTerms(client_rows=rows, server_rows=rows)
    manifest = psi_manifest(CLIENT, SERVER, terms)
    traffic = Traffic([peer])
    driver = Driver(
        links={peer: SocketLink(connection, peer)},
        gate=Gate(manifest, role),
        kinds=PSI_KINDS,
        inbound_limits={peer: largest_message(manifest, peer, role)},
        reserve=lambda first, last: None,
        traffic=traffic,
    )
    program = psi_client if role == CLIENT else psi_server
    with crew_of(cores) as crew:
        aligned = drive(program(keys, peer, injected(1, role), terms, crew=crew), driver)
    seconds, busy = time.perf_counter() - start, time.process_time() - before
    own, helpers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_seconds": busy + helpers.ru_utime + helpers.ru_stime,
        "common": len(aligned.rows),
        "tag": aligned.tag,
        "bytes_sent": traffic.bytes_sent,
        "peak_mb": (own.ru_maxrss + (cores * helpers.ru_maxrss if cores > 1 else 0)) / 1000,
    }


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[4])) as inherited:
        print(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), inherited)))
