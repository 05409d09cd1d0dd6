"""Two parties and an analyst with real state folders, and the request that they work on; no syft, no data."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parties.control.socket import call
from parties.control.supervisor import Options, Supervisor, only_one
from parties.home.cards import card_fingerprint, card_text
from parties.home.people import Person, find_person
from parties.home.state import State, init_analyst, init_party, open_state
from protocols import keys
from protocols.approval import Decision, PartyApproval, Role, countersign, decide, decision_text, to_text
from protocols.records import utc_text
from protocols.request import (
    AnalystEntry,
    BlockEntry,
    ComputationRequest,
    PartyEntry,
    digest,
    sign_request,
)
from protocols.request import to_text as request_text
from tests.ports import free_ports
from tests.waiting import PATIENCE, until

CODE = "d" * 64
COMMITMENT = "c" * 64
CALLER = "e" * 64
EMAIL = "ana@lab.example.org"
DUMMY = Path(__file__).with_name("dummy_worker.py")
PASSPHRASE = b"correct horse"


@dataclass(slots=True)
class Clock:
    """The supervisors' clock, which a test can move."""

    ahead: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass(slots=True)
class Offices:
    """bank (active, listens), shop (passive, dials), ana."""

    bank: State
    shop: State
    ana: State
    clock: Clock = field(default_factory=Clock)
    opened: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    """When a request's week begins: the same for all, so that equal requests have one digest whenever they are made."""

    def request(self, **changes: object) -> ComputationRequest:
        cards = [("active", self.bank.card()), ("passive", self.shop.card())]
        values: dict[str, object] = {
            "purpose": "a test",
            "purpose_text": "",
            "analyst": AnalystEntry(
                name="ana", organisation=self.ana.organisation, key=self.ana.card().signing_key
            ),
            "parties": tuple(
                PartyEntry(
                    name=card.name,
                    role=role,
                    signing_key=card.signing_key,
                    link_certificate=card.link_certificate,
                    address=card.address,
                )
                for role, card in cards
            ),
            "blocks": (
                BlockEntry(
                    role="active",
                    block="customers",
                    version=1,
                    commitment=COMMITMENT,
                    columns=("income",),
                    label="churned",
                    rows=100,
                    subject_key="person",
                    key_rule="text",
                ),
            ),
            "computation": "vertical.test",
            "computation_version": "1",
            "code_digest": CODE,
            "parameters": (),
            "manifest": (),
            "analyst_receives": (),
            "minimum_group": 10,
            "minimum_overlap": 50,
            "public_seed": 1,
            "expires": utc_text(self.opened + timedelta(days=7)),
            "runs": 1,
            "nonce": "0" * 32,
        }
        return ComputationRequest(**(values | changes))  # type: ignore[arg-type]

    def signed(self, request: ComputationRequest) -> str:
        return request_text(sign_request(request, self.ana.signing_key()))

    def decision(
        self,
        state: State,
        request: ComputationRequest,
        what: Decision,
        *,
        person: str = "owner",
        reason: str = "a test",
    ) -> str:
        who = find_person(state.folder, person)
        decided = decide(
            digest=digest(request),
            party=state.name,
            person=who.name,
            role=Role(who.role),
            organisation=who.organisation,
            decision=what,
            reason=reason,
            key=keys.load_key(state.folder / "keys" / "people" / f"{person}.pem", PASSPHRASE),
            now=self.clock(),
        )
        return decision_text(decided)

    def shop_approval(self, request: ComputationRequest) -> str:
        """What the shop's supervisor would have countersigned."""
        return to_text((self.shop_signed(request),))

    def shop_signed(self, request: ComputationRequest) -> PartyApproval:
        from protocols.approval import parse_decision

        owner = parse_decision(self.decision(self.shop, request, Decision.APPROVE))
        return countersign(request, "shop", [owner], "0" * 16, self.clock(), self.shop.signing_key())

    def supervisor(self, behaviour: str = "quick", **changes: object) -> Supervisor:
        """The bank's supervisor with dummy workers; not yet started."""
        options = Options(
            current_block=lambda name: (1, COMMITMENT),
            code_digest=lambda: CODE,
            worker_command=(sys.executable, str(DUMMY), behaviour),
            now=self.clock,
        )
        return Supervisor(self.bank, replace(options, **changes))  # type: ignore[arg-type]

    def ask(self, action: str, **more: object) -> dict[str, object]:
        return call(self.bank.folder, {"action": action, **more}, PATIENCE)

    def shim(
        self, request: ComputationRequest, what: str, argument: str = "", caller: str = CALLER
    ) -> dict[str, object]:
        """What the analyst's shim would ask."""
        return self.ask("call", request=digest(request), call=what, argument=argument, caller=caller)

    def submitted(self, **changes: object) -> ComputationRequest:
        """A request that the bank's steward has brought in."""
        request = self.request(**changes)
        answer = self.ask("ingest", signed=self.signed(request), caller=CALLER, email=EMAIL)
        assert answer["ok"], answer
        return request

    def approved(self, **changes: object) -> ComputationRequest:
        """A request that the bank's owner has approved too."""
        request = self.submitted(**changes)
        answer = self.ask("decide", decision=self.decision(self.bank, request, Decision.APPROVE))
        assert answer["ok"], answer
        assert answer["state"] == "APPROVED"
        return request

    def start(self, request: ComputationRequest) -> dict[str, object]:
        return self.shim(request, "start", self.shop_approval(request))

    def view(self, request: ComputationRequest) -> dict[str, object]:
        return self.ask("status", digest=digest(request))

    def wait(self, request: ComputationRequest, *states: str) -> dict[str, object]:
        return until(lambda: self.view(request), lambda view: view["state"] in states)


@contextmanager
def running(offices: Offices, behaviour: str = "quick", **changes: object) -> Iterator[Supervisor]:
    """The bank's supervisor at work, with the analyst's account."""
    supervisor = offices.supervisor(behaviour, **changes)
    with only_one(offices.bank):
        supervisor.start()
        try:
            if not (offices.bank.folder / "users.json").exists():
                offices.ask("add_user", name="ana", email=EMAIL)
            yield supervisor
        finally:
            supervisor.stop()


def introduce(to: State, *others: State) -> None:
    for other in others:
        card = other.card()
        to.address_book().add_peer(card_text(card), card_fingerprint(card))


def make_offices(folder: Path, analysts: str = "Example Lab") -> Offices:
    """Both parties and the analyst, of the organisation `analysts`."""
    first = free_ports()
    address = f"127.0.0.1:{first}-{first + 3}"
    bank = init_party(
        folder / "bank", name="bank", organisation="Example Bank", address=address, passphrase=PASSPHRASE
    )
    shop = init_party(folder / "shop", name="shop", organisation="Example Shop", passphrase=PASSPHRASE)
    ana = init_analyst(folder / "ana", name="ana", organisation=analysts)
    introduce(bank, shop, ana)
    introduce(shop, bank, ana)
    return Offices(bank=bank, shop=shop, ana=ana)


def copied(offices: Offices, folder: Path) -> Offices:
    """The same parties in folders of their own: a state folder can be moved, and making keys and cards takes time."""
    states = []
    for state in (offices.bank, offices.shop, offices.ana):
        shutil.copytree(state.folder, folder / state.name)
        states.append(open_state(folder / state.name, test_mode=True))
    bank, shop, ana = states
    return Offices(bank=bank, shop=shop, ana=ana)


def reviewer(name: str, organisation: str = "Example Bank") -> Person:
    return Person(
        name=name, role="reviewer", organisation=organisation, key=keys.public_hex(keys.generate_key())
    )
