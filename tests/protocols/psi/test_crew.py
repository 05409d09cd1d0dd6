"""Helper processes: the same results as alone, nothing secret where others can read, and none left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from protocols.errors import ProtocolError, StateError
from protocols.psi import ALONE, crew_of
from protocols.psi.crew import all_cores
from protocols.psi.curve import new_secret
from protocols.psi.helper import serve
from protocols.psi.jobs import Job, Operation, encode_answer, pack_keys, read_answer
from tests.protocols.psi.sets import align, people
from tests.waiting import PATIENCE, until


def blind(keys: list[bytes], secret: bytes) -> Job:
    return Job(operation=Operation.BLIND_KEYS, secret=secret, content=pack_keys(keys))


def again(points: bytes, secret: bytes) -> Job:
    return Job(operation=Operation.BLIND_POINTS, secret=secret, content=points)


def children(of: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{of}/task/{of}/children").read_text().split()]


def helpers() -> list[int]:
    found = []
    for pid in children(os.getpid()):
        if b"protocols.psi.helper" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return found


@pytest.mark.slow
def test_helpers_give_the_same_results_and_leave_nobody(monkeypatch):
    """Also: the secret is in no argument and in no variable of a helper's environment, nor is any variable of ours."""
    monkeypatch.setenv("SOME_PASSWORD", "hunter2")
    secret = new_secret()
    jobs = [blind(people(5, start), secret) for start in range(0, 40, 5)]
    expected = [job.run() for job in jobs]
    alone = align(people(60), people(60, 20))
    with crew_of(2) as crew:
        assert helpers() == []
        waits = [crew.begin(job) for job in jobs]
        assert len(helpers()) == 2
        assert [wait() for wait in waits] == expected
        for pid in helpers():
            seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            assert secret not in seen
            assert secret.hex().encode() not in seen
            assert b"hunter2" not in seen
        crew.rest()
        assert helpers() == []
        monkeypatch.setattr("protocols.psi.blinding.PART", 10)
        together = align(people(60), people(60, 20), crew=crew)
        assert together[0].rows.tolist() == alone[0].rows.tolist()
        assert together[1].tag == alone[1].tag
        assert helpers() == []
        for job in jobs:
            crew.begin(job)
        assert len(helpers()) == 2
    assert helpers() == []


@pytest.mark.slow
def test_a_helper_that_dies_is_an_error_and_one_that_refuses_stays_useful():
    with crew_of(2) as crew:
        junk = [crew.begin(again(b"\xff" * 33, new_secret())) for _ in range(3)]
        for wait in junk:
            with pytest.raises(ProtocolError, match="no points"):
                wait()
        assert len(crew.begin(blind(people(2), new_secret()))()) == 66
        waits = [crew.begin(blind(people(4000), new_secret())) for _ in range(4)]
        for pid in helpers():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(StateError, match="was ended by signal 9 before its work was done"):
            [wait() for wait in waits]


@pytest.mark.slow
def test_helpers_end_when_the_process_that_started_them_is_killed():
    program = (
        "import time\n"
        "from protocols.psi import crew_of\n"
        "from protocols.psi.jobs import Job, Operation\n"
        "with crew_of(2) as crew:\n"
        "    job = Job(operation=Operation.BLIND_KEYS, secret=b'\\1' * 32, content=b'')\n"
        "    [wait() for wait in [crew.begin(job) for _ in range(3)]]\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"begun\n"
        pids = children(parent.pid)
        assert len(pids) == 2
        parent.kill()
        parent.wait()
        until(lambda: [pid for pid in pids if _lives(pid)], lambda left: not left)


def _lives(pid: int) -> bool:
    try:
        return json.dumps(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]) != '"Z"'
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_one_helper_is_this_process():
    with crew_of(1) as crew:
        assert crew is ALONE
        secret = new_secret()
        assert crew.begin(blind([b"a"], secret))() == blind([b"a"], secret).run()
        crew.rest()
    assert 1 <= all_cores() <= (os.cpu_count() or 1)


def test_a_helper_serves_jobs_until_its_socket_ends_even_within_a_job():
    ours, its = socket.socketpair()
    serving = threading.Thread(target=serve, args=(its,))
    serving.start()
    job = blind([b"a", b"", b"\xff"], new_secret())
    with ours.makefile("rb") as incoming:
        ours.sendall(job.encode())
        assert read_answer(incoming.read) == job.run()
        ours.sendall(again(b"\0" * 33, new_secret()).encode())
        assert read_answer(incoming.read) is None
        ours.sendall(job.encode()[:-1])
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            read_answer(incoming.read)
    serving.join(PATIENCE)
    assert not serving.is_alive()
    ours.close()


def test_no_points_are_an_answer_and_a_refusal_is_another():
    for points in (b"", b"x" * 33, None):
        written = iter([encode_answer(points)])
        data = next(written)
        position = [0]

        def read(count: int, data: bytes = data, position: list[int] = position) -> bytes:
            position[0] += count
            return data[position[0] - count : position[0]]

        assert read_answer(read) == points


def test_a_job_does_not_show_its_secret():
    assert repr(blind([b"key-1"], b"s" * 32)).find("sss") == -1
    assert "key-1" not in repr(blind([b"key-1"], b"s" * 32))
