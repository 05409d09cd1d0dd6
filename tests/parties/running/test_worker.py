"""Two worker processes over real TLS: what each end leaves behind at both parties."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.control.socket import SocketServer
from parties.home.private_files import write_private
from parties.running.earlier import BLOCK, PEER, RELEASED, EarlierReleases, Release
from parties.running.runspec import (
    ARTIFACTS_FILE,
    CHECKPOINTS,
    RESULT_DETAIL,
    RESULT_FILE,
    SEED_FILE,
    TEMPORARY,
    ExitCode,
    RunSpec,
    Snapshot,
    State,
    load_spec,
    read_snapshot,
    save_spec,
)
from protocols import audit, keys
from protocols.approval import Decision, Role, countersign, decide, to_text
from protocols.audit import AuditEvent, AuditLog, Entry
from protocols.errors import AuditError
from protocols.request import (
    AnalystEntry,
    BlockEntry,
    ComputationRequest,
    PartyEntry,
    digest,
    sign_request,
)
from protocols.request import to_text as request_text
from protocols.wire import unpack_arrays
from tests.parties.running import toy
from tests.parties.running.toy_worker import MEETING
from tests.ports import free_range
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).resolve().parents[3]
ROLES = {"bank": "active", "retailer": "passive"}
STEPS = 500
"""Of a run that is stopped in its middle: long enough for whoever stops it to be late."""
TOGETHER = 10.0
"""Seconds for two workers, both ready, to meet or not to meet."""


@dataclass
class Party:
    """One party: folder, keys, and a stand-in for its supervisor's socket."""

    name: str
    folder: Path
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("", "store", "run"):
            (self.folder / name).mkdir(mode=0o700)
        self.key = keys.generate_key()
        self.person = keys.generate_key()
        link_key, certificate = keys.link_certificate(self.name)
        write_private(self.folder / "link.pem", link_key)
        (self.folder / "link.crt").write_bytes(certificate)
        self.log = AuditLog(self.folder / "audit.jsonl", self.name)
        self.server = SocketServer(self.folder, self.answer)
        self.server.start()

    def answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        self.asked.append(str(request["action"]))
        head = audit.sign_head(self.log.head(), datetime.now(UTC), self.key)
        return {"head": audit.to_text(head)} if request["action"] == "sign_head" else {}

    def entry(self, address: str, role: str) -> PartyEntry:
        return PartyEntry(
            name=self.name,
            role=role,
            signing_key=keys.public_hex(self.key),
            link_certificate=(self.folder / "link.crt").read_text(),
            address=address,
        )

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def snapshot(self) -> Snapshot:
        found = read_snapshot(self.run)
        assert found is not None
        return found

    def entries(self, event: AuditEvent) -> list[Entry]:
        return [entry for entry in self.log.entries() if entry.event is event]


def block(role: str) -> BlockEntry:
    return BlockEntry(
        role=role,
        block="rows",
        version=1,
        commitment="ab" * 32,
        columns=("x",),
        label="",
        rows=10,
        subject_key="id",
        key_rule="text",
    )


def prepare(
    request: ComputationRequest,
    analyst: Ed25519PrivateKey,
    parties: Mapping[str, Party],
    **changes: object,
) -> None:
    """Writes run.json at each party, by role, with all approvals unless `changes` say otherwise."""
    now = datetime.now(UTC) - timedelta(minutes=1)
    approvals = []
    for party in parties.values():
        decision = decide(
            digest=digest(request),
            party=party.name,
            person="olga",
            role=Role.OWNER,
            organisation=party.name,
            decision=Decision.APPROVE,
            reason="",
            key=party.person,
            now=now,
        )
        approvals.append(countersign(request, party.name, (decision,), "v1", now, party.key))
    for role, party in parties.items():
        spec = RunSpec(
            digest=digest(request),
            run=1,
            request=request_text(sign_request(request, analyst)),
            approvals=to_text(approvals),
            role=role,
            state=str(party.folder),
            store=str(party.folder / "store"),
            audit=str(party.folder / "audit.jsonl"),
            link_key=str(party.folder / "link.pem"),
            link_certificate=str(party.folder / "link.crt"),
            seed="11" * 32,
            connect_s=PATIENCE,
            message_s=PATIENCE,
            silence_s=PATIENCE,
        )
        save_spec(party.run, replace(spec, **changes))  # type: ignore[arg-type]


@dataclass
class Trial:
    """Two parties with an approved request, and the processes that were started for them."""

    bank: Party
    retailer: Party
    address: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def parties(self) -> tuple[Party, Party]:
        return self.bank, self.retailer

    def request(self, *, steps: int = 12, pause: float = 0.0, nonce: str = "00" * 16) -> ComputationRequest:
        self.analyst = keys.generate_key()
        return ComputationRequest(
            purpose="a test",
            purpose_text="",
            analyst=AnalystEntry(name="anna", organisation="lab", key=keys.public_hex(self.analyst)),
            parties=(self.bank.entry(self.address, "active"), self.retailer.entry("", "passive")),
            blocks=(block("active"), block("passive")),
            computation="toy.sums",
            computation_version="1",
            code_digest="cd" * 32,
            parameters=(("pause", pause), ("steps", steps)),
            manifest=toy.manifest(steps),
            analyst_receives=("a score",),
            minimum_group=10,
            minimum_overlap=10,
            public_seed=1,
            expires="2100-01-01T00:00:00Z",
            runs=1,
            nonce=nonce,
        )

    def prepare(self, request: ComputationRequest, **changes: object) -> None:
        """Writes run.json at both parties, with all approvals unless `changes` say otherwise."""
        prepare(request, self.analyst, {ROLES[party.name]: party for party in self.parties}, **changes)

    def change(self, party: Party, **changes: object) -> None:
        save_spec(party.run, replace(load_spec(party.run), **changes))  # type: ignore[arg-type]

    def start(self, party: Party, *arguments: str, meeting: str = "") -> subprocess.Popen[bytes]:
        with open(party.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.parties.running.toy_worker",
                    str(party.run),
                    *(arguments or ("",)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1", MEETING: meeting},
            )
        self.processes[party.name] = process
        return process

    def start_both(self, *arguments: str, bank: str = "") -> None:
        """Starts both, the retailer's with these arguments; neither begins before the other is ready to."""
        meeting = tempfile.mkdtemp(dir=self.bank.folder.parent)
        self.start(self.bank, bank, meeting=meeting)
        self.start(self.retailer, *arguments, meeting=meeting)

    def say(self, party: Party, word: str) -> None:
        stdin = self.processes[party.name].stdin
        assert stdin is not None
        if word:
            stdin.write(word.encode() + b"\n")
            stdin.flush()
        else:
            stdin.close()

    def wait_for_step(self, party: Party, step: int = 3) -> None:
        def reached(found: Snapshot | None) -> bool:
            return found is not None and found.state is State.RUNNING and found.step >= step

        until(lambda: read_snapshot(party.run), reached)

    def end(self, party: Party) -> ExitCode:
        return ExitCode(self.processes[party.name].wait(PATIENCE))

    def states(self) -> tuple[tuple[State, str], tuple[State, str]]:
        """State and reason of both, after both have ended with the exit status of that state."""
        for party in self.parties:
            status = self.end(party)
            assert status.name == party.snapshot().state.name, (party.folder / "worker.log").read_text()
        first, second = (party.snapshot() for party in self.parties)
        return (first.state, first.reason), (second.state, second.reason)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        for party in self.parties:
            party.server.stop()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    made = Trial(Party("bank", tmp_path / "bank"), Party("retailer", tmp_path / "retailer"), free_range())
    yield made
    made.close()


def test_a_normal_run(trial: Trial) -> None:
    trial.prepare(trial.request())
    trial.start_both()
    assert trial.states() == ((State.DONE, ""), (State.DONE, ""))
    bank, retailer = trial.parties

    result = json.loads((bank.run / RESULT_FILE).read_text())
    score = result["report"]["score"]
    assert score == {"people": 100, "value": 0.123}  # rounded
    assert result["report"]["people"]["suppressed"] == "<10"
    scale = int(unpack_arrays((retailer.run / ARTIFACTS_FILE).read_bytes())["scale"])
    total = unpack_arrays((bank.run / ARTIFACTS_FILE).read_bytes())["total"]
    assert total.tolist() == [scale * sum(range(12)) * toy.WIDTH] * 2

    (suppressed,) = bank.entries(AuditEvent.RESULT_SUPPRESSED)
    assert dict(suppressed.detail) == {"run": 1, "places": 1, "for: fewer than 10 people": 1}
    assert not retailer.entries(AuditEvent.RESULT_SUPPRESSED), "it releases nothing, so nothing is held back"
    for party, peer in ((bank, retailer), (retailer, bank)):
        for name in (CHECKPOINTS, TEMPORARY, SEED_FILE):
            assert not (party.run / name).exists()
        files = [path for path in party.run.iterdir() if path.is_file()]
        assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
        audit.verify(party.folder / "audit.jsonl")
        heads = party.entries(AuditEvent.HEAD_RECEIVED)
        assert [dict(entry.detail)["when"] for entry in heads] == ["opening", "closing"]
        held = held_heads(party, "opening") + held_heads(party, "closing")
        audit.verify(peer.folder / "audit.jsonl", heads=held)  # what was received is enough for that
        assert len(party.entries(AuditEvent.HANDSHAKE)) == 1
        assert len(party.entries(AuditEvent.MESSAGES_RESERVED)) == 1
        finished, end = party.entries(AuditEvent.PROGRAM_FINISHED), party.entries(AuditEvent.RUN_FINISHED)
        assert (len(finished), len(end)) == (1, 1)
        assert end[0].index == party.log.head().index
        closing = int(str(dict(peer.entries(AuditEvent.HEAD_RECEIVED)[1].detail)["index"]))
        assert closing >= finished[0].index, "the closing head covers what was sent and received"
        assert len(party.entries(AuditEvent.TEMPORARY_DELETED)) == 1
        assert party.asked == ["sign_head", "run_committed", "sign_head"]
    for party in (bank, retailer):
        recorded = dict(party.entries(AuditEvent.RUN_FINISHED)[0].detail)[RESULT_DETAIL]
        assert recorded == hashlib.sha256((party.run / RESULT_FILE).read_bytes()).hexdigest()
    sent = dict(bank.entries(AuditEvent.RUN_FINISHED)[0].detail)["sent passive"]
    received = dict(retailer.entries(AuditEvent.RUN_FINISHED)[0].detail)["received active"]
    assert sent == received
    assert str(sent).startswith("12 messages, ")
    assert bank.snapshot().bytes_sent == retailer.snapshot().bytes_received > 0


def test_R9_what_one_party_must_not_tell_the_other_does_not_tell_either(trial: Trial) -> None:
    """The retailer's block has one person less than at an earlier release; the bank's report counts its people."""
    earlier = EarlierReleases(trial.retailer.folder / RELEASED)
    earlier.compare(Release(block="rows", name="earlier-1", facts={}), (b"1", b"2", b"3"), {}, 10)
    request = trial.request()
    trial.prepare(request)
    trial.start_both()
    assert trial.states() == ((State.DONE, ""), (State.DONE, ""))
    report = json.loads((trial.bank.run / RESULT_FILE).read_text())["report"]
    reason = "may differ from an earlier release by fewer than 10 people"
    mark = {"suppressed": "difference", "reason": reason}
    assert report == {"score": {"people": mark, "value": mark}, "people": mark}
    (suppressed,) = trial.bank.entries(AuditEvent.RESULT_SUPPRESSED)
    assert dict(suppressed.detail) == {"run": 1, "places": 3, f"for: {reason}": 3}
    for party, why in ((trial.bank, PEER), (trial.retailer, BLOCK)):
        (record,) = (party.folder / RELEASED / "rows").glob(f"{digest(request)}-1.json")
        assert json.loads(record.read_text())["held"] == why


def held_heads(party: Party, when: str) -> list[audit.SignedHead]:
    """The heads of its peer's log that the party holds from such a moment."""
    details = [dict(entry.detail) for entry in party.entries(AuditEvent.HEAD_RECEIVED)]
    return [
        audit.SignedHead(
            head=audit.Head(party=str(found["peer"]), index=int(found["index"]), hash=str(found["hash"])),
            time=str(found["time"]),
            key=str(found["key"]),
            signature=str(found["signature"]),
        )
        for found in details
        if found["when"] == when
    ]


def rewritten(log: Path, event: AuditEvent, to: Path) -> Path:
    """A sound log at `to` with the same entries as `log`, but another detail in the first of this event."""
    made, changed = AuditLog(to, "retailer"), False
    for entry in audit.read(log):
        detail = dict(entry.detail)
        if entry.event is event and not changed:
            detail, changed = detail | {"note": "nothing to see here"}, True
        made.append(
            entry.event,
            who=entry.who,
            role=entry.role,
            organisation=entry.organisation,
            result=entry.result,
            origin=entry.origin,
            object=entry.object,
            detail=detail,
            now=datetime.fromisoformat(entry.time),
        )
    assert changed
    return to


def test_P4_a_log_rewritten_before_a_checkpoint_is_found_though_the_run_never_ended(trial: Trial) -> None:
    trial.prepare(trial.request(steps=400, pause=0.02), heads_s=0.0)
    trial.start_both()
    trial.wait_for_step(trial.bank, 8)
    for process in trial.processes.values():
        process.kill()
        process.wait()
    log = trial.retailer.folder / "audit.jsonl"
    opening, held = held_heads(trial.bank, "opening"), held_heads(trial.bank, "checkpoint")
    assert held
    assert not held_heads(trial.bank, "closing")
    audit.verify(log, heads=held)
    other = rewritten(log, AuditEvent.MESSAGES_RESERVED, trial.retailer.folder / "other.jsonl")
    audit.verify(other, heads=opening)  # which was signed before that entry
    with pytest.raises(AuditError, match="the log was rewritten"):
        audit.verify(other, heads=held)


def test_heads_at_checkpoints_change_no_bit_and_are_for_both(trial: Trial) -> None:
    trial.prepare(trial.request(steps=12), heads_s=0.0)
    trial.start_both()
    assert trial.states() == ((State.DONE, ""), (State.DONE, ""))
    scale = hashlib.sha256(bytes.fromhex("11" * 32)).digest()[0]
    total = unpack_arrays((trial.bank.run / ARTIFACTS_FILE).read_bytes())["total"]
    assert total.tolist() == [scale * sum(range(12)) * toy.WIDTH] * 2
    for party, peer in (trial.parties, trial.parties[::-1]):
        whens = [dict(entry.detail)["when"] for entry in party.entries(AuditEvent.HEAD_RECEIVED)]
        assert whens == ["opening", "checkpoint", "checkpoint", "closing"]
        audit.verify(peer.folder / "audit.jsonl", heads=held_heads(party, "checkpoint"))
        sent = dict(party.entries(AuditEvent.RUN_FINISHED)[0].detail)[f"sent {ROLES[peer.name]}"]
        assert str(sent).startswith("12 messages, "), "a head is in no count of messages"


@pytest.mark.slow
def test_progress_is_whole_and_only_grows(trial: Trial) -> None:
    trial.prepare(trial.request(steps=40, pause=0.03))
    trial.start_both()
    seen: list[Snapshot] = []
    while trial.processes["bank"].poll() is None:
        found = read_snapshot(trial.bank.run)
        if found is not None and (not seen or found != seen[-1]):
            seen.append(found)
        time.sleep(0.005)
    assert [s.seq for s in seen] == sorted({s.seq for s in seen})
    training = [s for s in seen if s.phase == "sum"]
    assert training[0].of == 40
    assert any(s.eta for s in training)
    assert any(s.loss for s in training)
    assert len(training) >= 3, "several a second"


@pytest.mark.slow
@pytest.mark.parametrize("side", ["bank", "retailer"])
@pytest.mark.parametrize(
    ("word", "own", "peer"),
    [
        ("cancel", (State.CANCELLED, "cancelled"), (State.CANCELLED, "peer_stopped:cancelled")),
        ("revoke", (State.REVOKED, "revoked"), (State.REVOKED, "peer_stopped:revoked")),
        ("", (State.INTERRUPTED, "interrupted"), (State.FAILED, "peer_stopped:interrupted")),
    ],
)
def test_a_word_stops_both_sides(
    trial: Trial, word: str, own: tuple[State, str], peer: tuple[State, str], side: str
) -> None:
    trial.prepare(trial.request(steps=1000, pause=0.02))
    trial.start_both()
    trial.wait_for_step(trial.bank, 8)
    stopping, other = trial.parties if side == "bank" else (trial.retailer, trial.bank)
    trial.say(stopping, word)
    trial.states()
    for party, (state, reason) in ((stopping, own), (other, peer)):
        assert (party.snapshot().state, party.snapshot().reason) == (state, reason)
        resumable = state in (State.INTERRUPTED, State.FAILED)
        assert (party.run / CHECKPOINTS).exists() == resumable
        assert not (party.run / ARTIFACTS_FILE).exists()
        assert not (party.run / RESULT_FILE).exists()
        assert len(party.entries(AuditEvent.TEMPORARY_DELETED)) == (0 if resumable else 1)
    assert other.snapshot().note == f"{stopping.name} stopped the run: {own[1]}"


@pytest.mark.slow
def test_sigterm_is_an_interruption(trial: Trial) -> None:
    trial.prepare(trial.request(steps=1000, pause=0.02))
    trial.start_both()
    trial.wait_for_step(trial.bank)
    trial.processes["bank"].send_signal(signal.SIGTERM)
    assert trial.states()[0] == (State.INTERRUPTED, "interrupted")


@pytest.mark.slow
@pytest.mark.parametrize("side", ["bank", "retailer"])
def test_a_killed_peer_is_lost_by_name(trial: Trial, side: str) -> None:
    trial.prepare(trial.request(steps=1000, pause=0.02))
    trial.start_both()
    trial.wait_for_step(trial.bank)
    killed, other = trial.parties if side == "bank" else (trial.retailer, trial.bank)
    trial.processes[killed.name].kill()
    assert trial.end(other) is ExitCode.FAILED
    assert other.snapshot().reason == "peer_lost", "noticed at once, not by a timeout"
    assert killed.name in other.snapshot().note
    assert len(other.entries(AuditEvent.RUN_FAILED)) == 1
    assert killed.snapshot().state is State.RUNNING  # its supervisor notices


@pytest.mark.slow
def test_a_peer_lost_before_its_goodbye_leaves_one_end_in_the_log(trial: Trial) -> None:
    trial.prepare(trial.request())
    trial.start_both("no goodbye")
    assert trial.end(trial.bank) is ExitCode.FAILED
    assert trial.bank.snapshot().reason == "peer_lost"
    events = [entry.event for entry in trial.bank.log.entries()]
    ends = [event for event in events if event.startswith("run_")]
    assert (ends, events[-1]) == ([AuditEvent.RUN_FAILED], AuditEvent.RUN_FAILED)
    assert AuditEvent.PROGRAM_FINISHED in events
    assert not (trial.bank.run / RESULT_FILE).exists()


@pytest.mark.slow
def test_a_frozen_peer_is_a_timeout_by_name(trial: Trial) -> None:
    trial.prepare(trial.request(steps=1000, pause=0.02), silence_s=8.0)
    trial.start_both()
    trial.wait_for_step(trial.bank)
    trial.processes["retailer"].send_signal(signal.SIGSTOP)
    assert trial.end(trial.bank) is ExitCode.FAILED
    assert trial.bank.snapshot().reason == "peer_timeout"
    assert "retailer" in trial.bank.snapshot().note


@pytest.mark.slow
def test_an_interrupted_run_is_taken_up_and_ends_with_the_same_bits(trial: Trial) -> None:
    trial.prepare(trial.request(steps=STEPS, pause=0.02))
    trial.start_both()
    trial.wait_for_step(trial.bank, 17)
    trial.say(trial.retailer, "")
    trial.states()
    asked = len(trial.bank.asked)
    trial.start_both(bank="hurried")
    assert trial.states() == ((State.DONE, ""), (State.DONE, ""))
    scale = int(unpack_arrays((trial.retailer.run / ARTIFACTS_FILE).read_bytes())["scale"])
    total = unpack_arrays((trial.bank.run / ARTIFACTS_FILE).read_bytes())["total"]
    assert total.tolist() == [scale * sum(range(STEPS)) * toy.WIDTH] * 2
    done = dict(trial.bank.entries(AuditEvent.RUN_FINISHED)[0].detail)
    messages = int(str(done["sent passive"]).split()[0])
    assert messages % 5 == 0
    assert 0 < messages <= STEPS - 15, "it started again from the beginning"
    assert len(trial.bank.asked) > asked


@pytest.mark.slow
def test_a_drawn_seed_is_kept_for_the_next_attempt_and_deleted_at_the_end(trial: Trial) -> None:
    trial.prepare(trial.request(steps=STEPS, pause=0.02), seed="")
    trial.start_both()
    trial.wait_for_step(trial.bank, 8)
    trial.say(trial.bank, "")
    trial.states()
    seeds = [(party.run / SEED_FILE).read_bytes() for party in trial.parties]
    assert len(set(seeds)) == 2
    assert {len(seed) for seed in seeds} == {32}
    trial.start_both(bank="hurried")
    trial.states()
    assert not any((party.run / SEED_FILE).exists() for party in trial.parties)


# -- what must not run -----------------------------------------------------------------------------------------------


def _wrong_certificate(trial: Trial) -> None:
    """The retailer's worker holds another certificate than the roster's."""
    key, certificate = keys.link_certificate("retailer")
    (trial.retailer.folder / "link.pem").write_bytes(key)
    (trial.retailer.folder / "link.crt").write_bytes(certificate)


def _other_run(trial: Trial) -> None:
    """The retailer's worker is for another approved request of the same parties."""
    kept = load_spec(trial.bank.run)
    trial.prepare(trial.request(nonce="11" * 16), connect_s=TOGETHER)
    save_spec(trial.bank.run, replace(kept, connect_s=TOGETHER))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "bank", "retailer"),
    [
        (_wrong_certificate, "peer_timeout", "peer_refused"),
        (_other_run, "peer_timeout", "peer_timeout"),
    ],
)
def test_workers_that_must_not_meet(
    trial: Trial, spoil: Callable[[Trial], None], bank: str, retailer: str
) -> None:
    trial.prepare(trial.request(), connect_s=TOGETHER)
    spoil(trial)
    trial.start_both()
    assert trial.states() == ((State.FAILED, bank), (State.FAILED, retailer))
    for party, peer in (trial.parties, trial.parties[::-1]):
        assert peer.name in party.snapshot().note
        assert party.entries(AuditEvent.MESSAGES_RESERVED) == []
        assert "run_committed" not in party.asked


@pytest.mark.slow
def test_a_run_json_with_another_digest_is_refused(trial: Trial) -> None:
    trial.prepare(trial.request(), connect_s=2.0)
    trial.change(trial.retailer, digest="00" * 32)
    trial.start_both()
    assert trial.states()[1] == (State.FAILED, "request")


@pytest.mark.slow
def test_the_peer_checks_the_approvals_too(trial: Trial) -> None:
    """The retailer's worker is tampered: it doesn't mind that an approval is missing.  The bank's does."""
    request = trial.request()
    trial.prepare(request)
    spec = load_spec(trial.retailer.run)
    only_own = json.loads(spec.approvals)[1:]
    approvals = json.dumps(only_own, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    trial.change(trial.retailer, approvals=approvals)
    trial.start_both("careless")
    assert trial.states() == (
        (State.FAILED, "not_approved"),
        (State.FAILED, "peer_stopped:not_approved"),
    )
    assert trial.bank.entries(AuditEvent.MESSAGES_RESERVED) == []


@pytest.mark.slow
def test_a_changed_block_ends_both(trial: Trial) -> None:
    trial.prepare(trial.request())
    (trial.retailer.folder / "store").rmdir()
    trial.start_both()
    assert trial.states() == ((State.FAILED, "peer_stopped:block"), (State.FAILED, "block"))


@pytest.mark.slow
def test_no_free_port(trial: Trial) -> None:
    host, first, last = trial.address.replace("-", ":").split(":")
    trial.prepare(trial.request(), connect_s=2.0)
    with contextlib.ExitStack() as stack:
        for port in range(int(first), int(last) + 1):
            stack.enter_context(socket.create_server((host, port)))
        trial.start(trial.bank)
        assert trial.end(trial.bank) is ExitCode.FAILED
    assert trial.bank.snapshot().reason == "port_in_use"
    assert f"{host} in {first}-{last}" in trial.bank.snapshot().note


TAMPERED = [
    "unlisted",
    *(pytest.param(how, marks=pytest.mark.slow) for how in ("large", "frequent", "wrong way")),
]


def tamperable(trial: Trial, tampered: str) -> None:
    """Prepares a run whose programs want to say more than the manifest lists, from the fourth message on."""
    request = trial.request()
    trial.prepare(replace(request, manifest=toy.manifest(3)) if tampered == "frequent" else request)


@pytest.mark.parametrize("tampered", TAMPERED)
def test_a_tampered_worker_is_stopped_by_its_own_gate(trial: Trial, tampered: str) -> None:
    tamperable(trial, tampered)
    trial.start_both(tampered)
    assert trial.states() == ((State.FAILED, "peer_stopped:gate"), (State.FAILED, "gate"))
    (entry,) = trial.retailer.entries(AuditEvent.RUN_FAILED)
    assert entry.result is audit.Result.REFUSED
    sent = dict(entry.detail)["sent active"]
    assert str(sent).startswith("3 messages")
    assert [dict(each.detail)["reason"] for each in trial.bank.entries(AuditEvent.RUN_FAILED)] == [
        "peer_stopped:gate"
    ]
    assert trial.bank.snapshot().step <= 3, "a stop may overtake the last message; the fourth never came"


@pytest.mark.slow
@pytest.mark.parametrize("tampered", ["unlisted", "large", "frequent", "wrong way"])
def test_a_worker_without_a_gate_is_stopped_by_its_peers(trial: Trial, tampered: str) -> None:
    tamperable(trial, tampered)
    trial.start_both(tampered, "open")
    assert trial.states() == ((State.FAILED, "gate"), (State.FAILED, "peer_stopped:gate"))
    (entry,) = trial.bank.entries(AuditEvent.RUN_FAILED)
    assert entry.result is audit.Result.REFUSED
    assert str(dict(entry.detail)["received passive"]).startswith("3 messages")
    assert trial.bank.snapshot().step == 3, "the message reached the program"
    assert len(trial.retailer.entries(AuditEvent.RUN_FAILED)) == 1


@pytest.mark.slow
def test_an_unknown_error_tells_nothing(trial: Trial) -> None:
    trial.prepare(trial.request())
    trial.start_both("crash")
    assert trial.states() == ((State.FAILED, "peer_stopped:internal"), (State.FAILED, "internal"))
    told = [(party.run / "progress.json").read_text() for party in trial.parties]
    told += [(party.folder / "audit.jsonl").read_text() for party in trial.parties]
    told.append((trial.bank.folder / "worker.log").read_text())
    assert "secret cell 42" not in " ".join(told)
    assert "secret cell 42" in (trial.retailer.folder / "worker.log").read_text()


def test_an_end_that_can_not_be_logged_is_left_to_the_supervisor(trial: Trial) -> None:
    trial.prepare(trial.request())
    trial.start_both("disk full at the end")
    assert trial.states() == ((State.DONE, ""), (State.FAILED, "audit"))
    assert [party.snapshot().logged for party in trial.parties] == [True, False]
    assert not trial.retailer.entries(AuditEvent.RUN_FINISHED)


@pytest.mark.slow
def test_a_killed_helper_of_an_alignment_is_in_the_own_log_with_what_to_do(trial: Trial) -> None:
    trial.prepare(trial.request())
    trial.start_both("helpers killed")
    assert trial.states() == ((State.FAILED, "peer_stopped:helper_lost"), (State.FAILED, "helper_lost"))
    (end,) = trial.retailer.entries(AuditEvent.RUN_FAILED)
    assert dict(end.detail)["detail"] == (
        "a helper process of the alignment was ended by signal 9 before its work was done; "
        "see that the machine has memory left (fewer cores need less), then start the run again"
    )
    assert trial.retailer.snapshot().note == ""


def test_without_a_run_json_there_is_an_exit_status(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-m", "parties.running.worker", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == ExitCode.FAILED
    assert b"run.json" in done.stderr
