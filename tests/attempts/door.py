"""Attempts at a party's worker while it waits for its peer: a real worker over real TLS, and somebody who comes."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from parties.home.cards import parse_address
from parties.links.handshake import hello
from parties.links.rendezvous import Meeting, Met, dial
from parties.links.tls_identity import Pin, secure, tls_context
from parties.links.tls_link import Terms, TlsLink
from parties.running.runspec import load_spec, read_snapshot
from parties.running.stopping import StopFlag
from parties.running.worker import Worker
from parties.running.worker_tools import Tools
from protocols import keys
from protocols.approval import PartyApproval, parse_approvals, to_text
from protocols.audit import AuditEvent, Entry, sign_head
from protocols.audit import to_text as head_text
from protocols.errors import CancelledRun, CodeDigestError, LinkError, RevokedRun
from protocols.request import ComputationRequest, digest
from tests.attempts.papers import Papers, tampered
from tests.attempts.table import Attempt
from tests.parties.running import toy
from tests.parties.running.test_worker import Trial
from tests.parties.running.toy_worker import data
from tests.waiting import PATIENCE, until


@dataclass
class Door:
    """The bank's worker, which listens, and what a comer in the retailer's place can say."""

    trial: Trial
    request: ComputationRequest
    other: Papers
    stop: StopFlag = field(default_factory=StopFlag)
    late: timedelta = field(default_factory=timedelta)
    other_code: bool = False
    worker: threading.Thread = field(default_factory=threading.Thread)

    @classmethod
    def of(cls, trial: Trial) -> "Door":
        trial.prepare(trial.request(nonce="11" * 16))
        other = _papers(trial)
        request = trial.request()
        trial.prepare(request, cores=1)
        return cls(trial, request, other)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The bank's worker at its port; it has ended afterwards."""
        tools = Tools(
            find=lambda name, version: toy.computation()[name],
            check_code=self._check_code,
            open_data=data,
            now=lambda: datetime.now(UTC) + self.late,
        )
        self.worker = threading.Thread(target=Worker(self.trial.bank.run, tools, self.stop).run)
        self.worker.start()
        try:
            yield
        finally:
            self.worker.join(PATIENCE)
            assert not self.worker.is_alive()

    def _check_code(self, request: ComputationRequest) -> None:
        if self.other_code:
            raise CodeDigestError("the request was made for other code than is installed")

    def come(self, approvals: Sequence[PartyApproval], *, stranger: bool = False) -> Met:
        """Comes to the bank's port with the retailer's link key (or one's own) and these approvals."""
        return dial(self.meeting(approvals, stranger=stranger))

    def meeting(self, approvals: Sequence[PartyApproval], *, stranger: bool = False) -> Meeting:
        bank, retailer = self.trial.parties
        folder = retailer.folder
        if stranger:
            folder = _strangers(retailer.folder / "stranger")
        now = datetime.now(UTC)
        head = head_text(sign_head(retailer.log.head(), now, retailer.key))
        return Meeting(
            pin=Pin(
                peer="bank",
                certificate=(bank.folder / "link.crt").read_text(),
                own_key=folder / "link.pem",
                own_certificate=folder / "link.crt",
            ),
            address=self.trial.address,
            hello=lambda: hello(digest(self.request), "passive", to_text(approvals), head, (), now),
            is_ours=lambda other: True,
            terms=Terms(check=self._check_whether_it_waits),
            seconds=PATIENCE,
        )

    def _check_whether_it_waits(self) -> None:
        """LinkError once there is nothing to try any more: the worker has ended, or has turned somebody away."""
        if not self.worker.is_alive() or "peer_refused" in self.refusals():
            raise LinkError("the bank's worker doesn't wait for this one")

    def entries(self) -> list[Entry]:
        return list(self.trial.bank.log.entries())

    def refusals(self) -> list[str]:
        """The codes of what the bank's log says was refused, or ended the run."""
        ends = (AuditEvent.RUN_FAILED, AuditEvent.RUN_CANCELLED)
        return [
            "peer_refused"
            if entry.event is AuditEvent.HANDSHAKE_REFUSED
            else str(dict(entry.detail)["reason"])
            for entry in self.entries()
            if entry.event in (*ends, AuditEvent.HANDSHAKE_REFUSED)
        ]

    def let_in(self) -> bool:
        """Whether the worker shook hands with anybody."""
        return any(entry.event is AuditEvent.HANDSHAKE for entry in self.entries())

    def passed(self) -> bool:
        """Whether the worker let anybody so far that a message could have been sent or taken."""
        return "run_committed" in self.trial.bank.asked or any(
            entry.event is AuditEvent.MESSAGES_RESERVED for entry in self.entries()
        )


def _papers(trial: Trial) -> Papers:
    given = parse_approvals(load_spec(trial.bank.run).approvals)
    return {approval.party: approval for approval in given}


def _strangers(folder: Path) -> Path:
    folder.mkdir()
    key, certificate = keys.link_certificate("retailer")
    (folder / "link.pem").write_bytes(key)
    (folder / "link.crt").write_bytes(certificate)
    return folder


def attempted(door: Door, attempt: Attempt) -> None:
    """Somebody comes to the waiting worker in this attempt; returns when the worker has ended."""
    given = tampered(attempt, _papers(door.trial), door.other, own="bank")
    door.other_code = attempt is Attempt.OTHER_CODE
    with door.waiting():
        if attempt is Attempt.REVOKED:
            door.stop.ask(RevokedRun)
        if attempt is Attempt.EXPIRED:  # everything held when the worker began to wait
            until(
                lambda: read_snapshot(door.trial.bank.run),
                lambda found: found is not None and found.phase == "connect",
            )
            door.late = timedelta(days=36_500)
        try:
            if attempt is Attempt.REPLAYED:
                _twice(door, given)
            else:
                link = door.come(given, stranger=attempt is Attempt.UNKNOWN_KEY).link
                until(lambda: door.let_in() or not door.worker.is_alive(), bool)
                link.close("cancelled")
        except LinkError:  # turned away at the port; what the worker's log says of it is looked at afterwards
            door.stop.ask(CancelledRun)


def _twice(door: Door, approvals: Sequence[PartyApproval]) -> None:
    """The same hello on two connections at once; the second is settled first."""
    meeting = door.meeting(approvals)
    _, first, last = parse_address(meeting.address)
    until(lambda: _port(first, last), bool)
    with socket.create_connection(("127.0.0.1", _port(first, last))) as raw:
        raw.settimeout(PATIENCE)
        connection = tls_context(meeting.pin, server=False).wrap_socket(raw, do_handshake_on_connect=False)
        secure(connection, meeting.pin)
        replayed = TlsLink(connection, "bank", Terms())
        replayed.send(meeting.hello())
        replayed.receive(PATIENCE)
        genuine = dial(meeting).link
        with pytest.raises(LinkError):
            replayed.receive(PATIENCE)
        genuine.close("cancelled")
        replayed.close("cancelled")


def _port(first: int, last: int) -> int:
    """The port of the range at which somebody listens; 0 when nobody does."""
    listening = {each.laddr.port for each in psutil.Process().net_connections() if each.status == "LISTEN"}
    return next((port for port in range(first, last + 1) if port in listening), 0)
