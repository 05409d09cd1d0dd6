"""A console over the real supervisor socket of the unit-test offices, and a browser's part of it without a browser."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
from starlette.testclient import TestClient

from parties.blocks.block import BlockSpec
from parties.blocks.registration import register
from parties.blocks.store import Store
from parties.console.app import console
from parties.console.entrance import Entrance
from parties.control.supervisor import Supervisor, only_one
from parties.home.people import create_person
from parties.home.state import State
from parties.roles.signer import unlock
from protocols.audit import AuditEvent, AuditLog, Entry, read
from tests.parties.control.offices import EMAIL, PASSPHRASE, Offices

PORT = 7777
ADDRESS = f"http://127.0.0.1:{PORT}"


@dataclass
class Hands:
    """A clock in seconds that a test turns."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class House:
    """The bank with its supervisor and a console."""

    offices: Offices
    supervisor: Supervisor
    entrance: Entrance
    clock: Hands = field(default_factory=Hands)

    def visitor(self) -> "Visitor":
        """Somebody's browser, not logged in."""
        return Visitor(TestClient(console(self.entrance, PORT), base_url=ADDRESS, follow_redirects=False))

    def logged_in(self, person: str = "owner") -> "Visitor":
        """Somebody's browser after the login."""
        visitor = self.visitor()
        answer = visitor.log_in(person)
        assert answer.status_code == 303, answer.text
        return visitor

    def supervisor_log(self) -> AuditLog:
        """The bank's log, for its head of now."""
        return AuditLog(self.offices.bank.audit_path, "bank")

    def log(self, event: AuditEvent) -> list[Entry]:
        """The bank's entries of one kind."""
        return [entry for entry in read(self.offices.bank.audit_path) if entry.event is event]


@dataclass
class Visitor:
    """One browser, as far as forms and cookies go."""

    client: TestClient

    def get(self, path: str, **more: object) -> httpx.Response:
        return self.client.get(path, **more)  # type: ignore[arg-type]

    def form(self, page: str, action: str, **fields: str) -> httpx.Response:
        """Fills in the form with this action on the page and sends it, with its hidden fields."""
        (form,) = re.findall(rf'<form[^>]*action="{action}".*?</form>', self.get(page).text, re.S)
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
        return self.client.post(action, data=hidden | fields)

    def log_in(self, person: str, passphrase: str = PASSPHRASE.decode()) -> httpx.Response:
        return self.form("/login", "/login", person=person, passphrase=passphrase)

    def csrf(self) -> str:
        """The token of the session's forms."""
        return re.findall(r'name="csrf" value="([^"]+)"', self.get("/requests").text)[0]


@contextmanager
def house(offices: Offices, behaviour: str = "quick") -> Iterator[House]:
    """The bank serving, with an owner, a reviewer and an auditor, all under the same passphrase."""
    for name, role in (("rev", "reviewer"), ("aud", "auditor")):
        create_person(
            offices.bank.folder,
            name=name,
            role=role,
            organisation="Example Bank",
            passphrase=PASSPHRASE,
        )
    clock = Hands()
    entrance = Entrance.of(offices.bank, PORT, clock=clock, now=offices.clock)
    mask = os.umask(0o077)  # as `serve` has it: else `open_state` refuses the folder
    supervisor = offices.supervisor(behaviour)
    with only_one(offices.bank):
        try:
            supervisor.start()
            offices.ask("add_user", name="ana", email=EMAIL)
            yield House(offices=offices, supervisor=supervisor, entrance=entrance, clock=clock)
        finally:
            supervisor.stop()
            os.umask(mask)


def with_ticket(state: State, person: str) -> Visitor:
    """A browser at a console of the party, logged in by the terminal's link as a person whose key has no passphrase."""
    entrance = Entrance.of(state, PORT, clock=Hands(), now=lambda: datetime.now(UTC))
    client = TestClient(console(entrance, PORT), base_url=ADDRESS, follow_redirects=False)
    answer = client.post(f"/enter/{entrance.tickets.issue(unlock(state, person, None))}")
    assert answer.status_code == 303, answer.text
    return Visitor(client)


def add_block(offices: Offices, folder: Path) -> None:
    """A block of the bank with a mock twin."""
    file = folder / "customers.csv"
    rows = [f"p{n:04d},{20 + n % 50},{'yes' if n % 3 else 'no'}" for n in range(300)]
    file.write_text("\n".join(["person,age,member", *rows]) + "\n")
    register(
        Store(offices.bank.blocks),
        file,
        BlockSpec(name="customers", subject_key="person"),
        generator=np.random.default_rng(0),
    )
