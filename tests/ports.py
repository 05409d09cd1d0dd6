"""Free ports that nobody takes between the moment they are found and the moment they are used.

They lie below those that the system gives to outgoing connections, each process of the tests (pytest-xdist) has a
region of its own, and in it no port is handed out twice in a row.
"""

import contextlib
import itertools
import os
import socket

FIRST, SIZE, REGIONS = 10_000, 2_700, 8
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_region = FIRST + SIZE * (_worker % REGIONS)
_places = itertools.count(os.getpid() * 31)  # another session of the tests on this machine begins elsewhere


def free_ports(count: int = 4) -> int:
    """The first of `count` neighbouring ports of the loopback address at which nobody listens."""
    while True:
        first = _region + next(_places) * count % (SIZE - count)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def free_range(count: int = 3) -> str:
    """The same as "127.0.0.1:first-last"."""
    first = free_ports(count)
    return f"127.0.0.1:{first}-{first + count - 1}"
