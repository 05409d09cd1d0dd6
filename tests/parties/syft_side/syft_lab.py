"""A party with a stub in the place of its supervisor, for tests of everything that touches syft."""

import queue
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import numpy as np
import pyarrow as pa

from parties.blocks.block import BlockSpec, block_from_table, describe_block
from parties.blocks.mock import make_mock
from parties.blocks.schema import BlockSchema
from parties.blocks.store import Store
from parties.control.socket import SocketServer
from parties.home.state import State, init_party
from parties.syft_side import launcher
from protocols import keys
from protocols.request import (
    AnalystEntry,
    BlockEntry,
    ComputationRequest,
    PartyEntry,
    digest,
    sign_request,
    to_text,
)
from tests.ports import free_ports
from tests.waiting import until

ANALYST_KEY = keys.generate_key()
CERTIFICATES = {name: keys.link_certificate(name)[1].decode() for name in ("bank", "retailer")}
PEOPLE = {"ana": "ana@lab.example.org", "bob": "bob@lab.example.org"}
PASSWORD = "a password of the lab"


def signed_request(number: int) -> tuple[str, str]:
    """Text and digest of a small signed request; each number gives another digest."""
    parties = tuple(
        PartyEntry(
            name=name, role=role, signing_key=mark * 64, link_certificate=CERTIFICATES[name], address=""
        )
        for name, role, mark in (("bank", "active", "a"), ("retailer", "passive", "b"))
    )
    block = BlockEntry(
        role="active",
        block="customers",
        version=1,
        commitment="c" * 64,
        columns=("income",),
        label="churned",
        rows=100,
        subject_key="person",
        key_rule="text",
    )
    request = ComputationRequest(
        purpose="a test",
        purpose_text="",
        analyst=AnalystEntry(name="ana", organisation="Lab", key=keys.public_hex(ANALYST_KEY)),
        parties=parties,
        blocks=(block,),
        computation="vertical.test",
        computation_version="1",
        code_digest="d" * 64,
        parameters=(),
        manifest=(),
        analyst_receives=(),
        minimum_group=10,
        minimum_overlap=50,
        public_seed=1,
        expires="2030-01-01T00:00:00Z",
        runs=1,
        nonce=f"{number:032x}",
    )
    return to_text(sign_request(request, ANALYST_KEY)), digest(request)


def add_block(state: State) -> BlockSchema:
    """Puts a block of 40 people into the party's store."""
    generator = np.random.default_rng(7)
    table = pa.table(
        {
            "person": [f"P-{row:03d}" for row in range(40)],
            "income": generator.normal(50_000, 10_000, 40).round(0),
            "churned": [str(row % 2) for row in range(40)],
        }
    )
    block = block_from_table(table, BlockSpec(name="customers", subject_key="person", label="churned"))
    mock = make_mock(describe_block(block), rows=20, generator=np.random.default_rng(8))
    return Store(state.blocks).add(block, mock)


@dataclass
class StubSupervisor:
    """Answers the steward and the shim; `told` holds what came in, `answers` what calls of the shim get."""

    told: list[dict[str, object]] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    answers: Callable[[Mapping[str, object]], dict[str, object]] = lambda question: {"state": "PENDING"}
    _tasks: "queue.Queue[dict[str, object]]" = field(default_factory=queue.Queue)
    _count: int = 0

    def __call__(self, question: Mapping[str, object]) -> dict[str, object]:
        """One question over the socket."""
        action = question["action"]
        if action == "next_task":
            try:
                return {"task": self._tasks.get(timeout=float(str(question["timeout"])))}
            except queue.Empty:
                return {"task": None}
        self.told.append(dict(question))
        if action == "call":
            return self.answers(question)
        if action in self.refusals:
            return {"ok": False, "error": self.refusals[str(action)], "message": "not for the analyst"}
        return {}

    def order(self, kind: str, **details: str) -> dict[str, object]:
        """Gives the steward a task and waits for what it says of it."""
        self._count += 1
        self._tasks.put({"id": self._count, "kind": kind, **details})
        return self.wait(lambda told: told["action"] == "task_done" and told["id"] == self._count)

    def wait(self, wanted: Callable[[dict[str, object]], bool]) -> dict[str, object]:
        """The first thing told that is wanted; AssertionError with all that was told when it doesn't come in time."""
        return until(lambda: [told for told in list(self.told) if wanted(told)], bool)[0]


@dataclass
class Lab:
    """A running party."""

    state: State
    supervisor: StubSupervisor
    process: Popen[bytes]

    @property
    def url(self) -> str:
        """Where its syft server answers."""
        return f"http://127.0.0.1:{self.state.port}"

    def restart(self) -> None:
        """Starts the server again after its process is gone."""
        self.process = launcher.launch(self.state)
        launcher.wait_until_ready(self.process, self.state)


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    """A party whose syft server runs, with accounts for PEOPLE; no process is left behind."""
    state = init_party(folder / "bank", name="bank", organisation="Bank", port=free_ports(1))
    supervisor = StubSupervisor()
    server = SocketServer(state.folder, supervisor)
    server.start()
    lab = Lab(state, supervisor, launcher.launch(state))
    try:
        launcher.wait_until_ready(lab.process, state)
        for name, email in PEOPLE.items():
            assert supervisor.order("add_user", name=name, email=email, password=PASSWORD)["ok"] is True
        yield lab
    finally:
        launcher.stop(lab.process)
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
