"""A request of two parties, scripted datasites for the analyst's side alone, and entries of a log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from parties.home.state import State
from parties.syft_side.access import Decision
from parties.syft_side.publication import Publication
from protocols import keys
from protocols.approval import Decision as Verdict
from protocols.approval import Role, countersign, decide, to_text
from protocols.audit import AuditEvent, AuditLog, Result
from protocols.errors import DatasiteError
from protocols.request import (
    AnalystEntry,
    BlockEntry,
    ComputationRequest,
    PartyEntry,
    Release,
    digest,
)

KEYS = {name: keys.generate_key() for name in ("bank", "shop", "north", "centre", "ana", "owner")}
CERTIFICATES = {name: keys.link_certificate(name)[1].decode() for name in ("bank", "shop", "north", "centre")}
NOW = datetime(2026, 1, 2, tzinfo=UTC)
VIEWS = Release(
    kind="Views",
    sender="passive",
    receiver="active",
    shapes=(("aligned", (30, 2)),),
    repetitions=4,
    max_bytes=300,
    learns="representations of aligned people",
)


def add_entry(state: State, event: AuditEvent, now: datetime, **detail: str | int | float | bool) -> None:
    """Adds an entry of the owner's about "request x" to the party's log."""
    AuditLog(state.audit_path, state.name).append(
        event,
        who="owner",
        role="owner",
        organisation=state.organisation,
        result=Result.OK,
        origin="test",
        object="request x",
        detail=detail,
        now=now,
    )


def sample_request(**changes: object) -> ComputationRequest:
    """bank (active, dials) and shop (passive, listens), asked by ana."""
    parties = tuple(
        PartyEntry(
            name=name,
            role=role,
            signing_key=keys.public_hex(KEYS[name]),
            link_certificate=CERTIFICATES[name],
            address=address,
        )
        for name, role, address in (("bank", "active", ""), ("shop", "passive", "127.0.0.1:7400-7403"))
    )
    block = BlockEntry(
        role="active",
        block="customers",
        version=1,
        commitment="c" * 64,
        columns=("income", "age"),
        label="churned",
        rows=100,
        subject_key="person",
        key_rule="text@1",
        key_missing=("999",),
    )
    values: dict[str, object] = {
        "purpose": "churn",
        "purpose_text": "",
        "analyst": AnalystEntry(name="ana", organisation="Lab", key=keys.public_hex(KEYS["ana"])),
        "parties": parties,
        "blocks": (block,),
        "computation": "vertical.test",
        "computation_version": "1",
        "code_digest": "d" * 64,
        "parameters": (("d", 2), ("steps", 4)),
        "manifest": (VIEWS,),
        "analyst_receives": ("scores",),
        "minimum_group": 10,
        "minimum_overlap": 20,
        "public_seed": 1,
        "expires": "2030-01-01T00:00:00Z",
        "runs": 1,
        "nonce": "0" * 32,
    }
    return ComputationRequest(**(values | changes))  # type: ignore[arg-type]


def approval(request: ComputationRequest, party: str, signer: str = "") -> str:
    """The party's countersigned approval as text, under its own key or another's."""
    decision = decide(
        digest=digest(request),
        party=party,
        person="owner",
        role=Role.OWNER,
        organisation=party,
        decision=Verdict.APPROVE,
        reason="",
        key=KEYS["owner"],
        now=NOW,
    )
    return to_text((countersign(request, party, [decision], "0" * 16, NOW, KEYS[signer or party]),))


Script = Mapping[str, object] | Callable[[], Mapping[str, object]]


@dataclass
class ScriptedSite:
    """A datasite whose answers are given, by call; `asked` holds what came in. "down" makes it unreachable."""

    name: str
    answers: dict[str, Script] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    down: bool = False

    def call(self, digest: str, action: str, argument: str = "") -> dict[str, object]:
        self.asked.append((action, argument))
        if self.down:
            raise DatasiteError("the datasite can't be reached", remedy="ask its owner")
        answer = self.answers[action]
        return dict(answer() if callable(answer) else answer)

    def datasets(self) -> tuple[Publication, ...]:
        if self.down:
            raise DatasiteError("the datasite can't be reached", remedy="ask its owner")
        return ()

    def submit(self, signed: str) -> str:
        self.asked.append(("submit", signed))
        if self.down:
            raise DatasiteError("the datasite can't be reached", remedy="ask its owner")
        return ""

    def decision(self, digest: str) -> Decision:
        raise AssertionError("nothing here asks syft how a request stands")


def sites(**answers: Mapping[str, Script]) -> dict[str, ScriptedSite]:
    """Scripted datasites by party."""
    return {name: ScriptedSite(name, dict(scripted)) for name, scripted in answers.items()}


def state(name: str, **more: object) -> dict[str, object]:
    """A supervisor's answer to `status`."""
    return {"ok": True, "state": name, "reason": "", "used": 0, "allowed": 1} | more
