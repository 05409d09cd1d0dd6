"""A helper process of an alignment: reads jobs from its standard input, a socket, and answers there until that ends.

Started by `protocols.psi.crew`. It opens no file and no other connection, and prints nothing of a job.
"""

import signal
import socket
import sys

from protocols.errors import ProtocolError
from protocols.psi.jobs import encode_answer, read_job


def serve(connection: socket.socket) -> None:
    """Answers jobs one after the other until the connection ends."""
    with connection, connection.makefile("rb") as incoming:
        while (job := read_job(incoming.read)) is not None:
            try:
                points = job.run()
            except ProtocolError:
                points = None
            connection.sendall(encode_answer(points))


def main() -> int:
    """The process: `python -m protocols.psi.helper` with a socket as its standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us; it ends us
    try:
        serve(socket.socket(fileno=0))
    except (BrokenPipeError, ConnectionResetError):
        return 1  # nobody waits for the answer any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
