"""Attempts at a party's supervisor over its socket: a first start, or the resuming of an interrupted run."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import pytest

from parties.control import runs
from parties.control.supervisor import only_one
from parties.home.cards import card_fingerprint, card_text
from parties.home.documents import Documents
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from protocols import keys
from protocols.approval import Decision, to_text
from protocols.audit import AuditEvent, AuditLog, Entry
from protocols.request import ComputationRequest, digest
from tests.attempts.papers import Papers, tampered
from tests.attempts.table import Attempt
from tests.parties.control.offices import CALLER, CODE, COMMITMENT, EMAIL, Offices
from tests.waiting import until


@dataclass
class Desk:
    """A running supervisor whose block, code and clock a test can change."""

    offices: Offices
    version: list[int] = field(default_factory=lambda: [1])
    code: list[str] = field(default_factory=lambda: [CODE])

    @contextmanager
    def open(self, behaviour: str) -> Iterator["Desk"]:
        supervisor = self.offices.supervisor(
            behaviour,
            current_block=lambda name: (self.version[0], COMMITMENT),
            code_digest=lambda: self.code[0],
        )
        with only_one(self.offices.bank):
            supervisor.start()
            try:
                self.offices.ask("add_user", name="ana", email=EMAIL)
                yield self
            finally:
                supervisor.stop()

    def entries(self) -> list[Entry]:
        return list(AuditLog(self.offices.bank.audit_path, "bank").entries())

    def opened(self) -> int:
        path = self.offices.bank.folder / "opened"
        return path.read_text().count("\n") if path.exists() else 0

    def papers(self, request: ComputationRequest) -> Papers:
        own = Documents(self.offices.bank.folder).approval(digest(request))
        assert own is not None
        return {"bank": own, "shop": self.offices.shop_signed(request)}

    def start(self, request: ComputationRequest, approvals: str) -> dict[str, object]:
        return self.offices.ask("start", digest=digest(request), approvals=approvals)

    def interrupted(self, request: ComputationRequest) -> None:
        """Starts the run and kills its worker in the middle: it may be taken up again."""
        assert self.start(request, to_text(self.papers(request).values()))["ok"]
        until(
            lambda: self.offices.view(request),
            lambda view: view["state"] != "RUNNING" or int(str(view.get("step", 0))) > 0,
        )
        pid = self.offices.bank.runs / f"{digest(request)}-1" / "pid"
        os.kill(int(pid.read_text()), signal.SIGKILL)
        self.offices.wait(request, "INTERRUPTED")

    def change_card(self) -> None:
        """The shop's card is replaced by one with another key, as after a break-in there."""
        card = replace(self.offices.shop.card(), signing_key=keys.public_hex(keys.generate_key()))
        (self.offices.bank.folder / "peers" / "shop.json").unlink()
        self.offices.bank.address_book().add_peer(card_text(card), card_fingerprint(card))


def prepared(
    desk: Desk, attempt: Attempt, *, resume: bool, patch: pytest.MonkeyPatch
) -> tuple[ComputationRequest, str]:
    """A request that could be started (or taken up) but for the attempt, and the approvals that are handed over."""
    if attempt is Attempt.UNKNOWN_KEY and not resume:
        return _with_unknown_key(desk), ""
    request = desk.offices.approved()
    other = {"shop": desk.offices.shop_signed(desk.offices.request(nonce="1" * 32))}
    text = to_text(tampered(attempt, desk.papers(request), other, own="bank"))
    if resume:
        desk.interrupted(request)
    happens: dict[Attempt, Callable[[], object]] = {
        Attempt.STALE: partial(_made_stale, desk, resume=resume),
        Attempt.EXPIRED: partial(setattr, desk.offices.clock, "ahead", timedelta(days=8)),
        Attempt.REVOKED: partial(_revoke, desk, request),
        Attempt.USED_UP: partial(_use_up, desk, request, patch, resume=resume),
        Attempt.UNKNOWN_KEY: desk.change_card,
        Attempt.REPLAYED: partial(_run, desk, request),
        Attempt.OTHER_CODE: partial(desk.code.__setitem__, 0, "0" * 64),
    }
    happens.get(attempt, lambda: None)()
    return request, text


def tried(
    desk: Desk, attempt: Attempt, *, resume: bool, patch: pytest.MonkeyPatch
) -> tuple[dict[str, object], list[Entry], list[Entry]]:
    """The answer to the attempt, and what the log had before and got by it."""
    request, text = prepared(desk, attempt, resume=resume, patch=patch)
    before = desk.entries()
    answer = desk.start(request, text)
    return answer, before, desk.entries()[len(before) :]


def _with_unknown_key(desk: Desk) -> ComputationRequest:
    request = desk.offices.request()
    bank, shop = request.parties
    wrong = replace(request, parties=(bank, replace(shop, signing_key=keys.public_hex(keys.generate_key()))))
    answer = desk.offices.ask("ingest", signed=desk.offices.signed(wrong), caller=CALLER, email=EMAIL)
    assert (answer["ok"], answer["error"]) == (False, "roster")
    return wrong


def _made_stale(desk: Desk, *, resume: bool) -> None:
    if resume:
        desk.version[0] = 2
    else:
        write_private(desk.offices.bank.folder / "policy.toml", policy_text(Policy(owners=2)))


def _revoke(desk: Desk, request: ComputationRequest) -> None:
    decision = desk.offices.decision(desk.offices.bank, request, Decision.REVOKE, reason="a subject objected")
    assert desk.offices.ask("decide", decision=decision)["ok"]


def _run(desk: Desk, request: ComputationRequest) -> None:
    assert desk.start(request, to_text(desk.papers(request).values()))["ok"]
    desk.offices.wait(request, "DONE")


def _use_up(desk: Desk, request: ComputationRequest, patch: pytest.MonkeyPatch, *, resume: bool) -> None:
    """All runs are used; when it is about resuming, the one run was taken up as often as it may be."""
    if resume:
        patch.setattr(runs, "TAKEN_UP", 0)
    else:
        _run(desk, request)


def refusals(entries: list[Entry], *events: AuditEvent) -> list[str]:
    """The codes of what was refused, of these kinds of entries."""
    return [
        str(dict(entry.detail)["code"])
        for entry in entries
        if entry.event in events and entry.result.value == "refused"
    ]
