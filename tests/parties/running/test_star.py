"""An aggregator and four clients of `horizontal.train` as worker processes over real TLS, one of them killed."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from parties import catalog
from parties.computation import NO_DATA, Inputs, Parameters
from parties.demo.steps import same_bits
from parties.running.runspec import ARTIFACTS_FILE, RESULT_FILE, ExitCode
from protocols import audit, keys
from protocols.audit import AuditEvent
from protocols.errors import PeerLost
from protocols.masking import identities
from protocols.program import Compute, Outcome, Program, simulate
from protocols.request import AnalystEntry, BlockEntry, ComputationRequest, digest
from protocols.wire import unpack_arrays
from tests.parties.running.star_worker import FATAL
from tests.parties.running.test_worker import ROOT, Party, prepare
from tests.parties.running.wards import AGGREGATOR, FOUR, SHORT, TRAIN
from tests.ports import free_range

CLIENTS = tuple(FOUR)
SEED = "11" * 32
SECONDS = 300.0
"""For what does come to its end, however busy the machine is."""


def block(role: str) -> BlockEntry:
    return BlockEntry(
        role=role,
        block="visits",
        version=1,
        commitment="ab" * 32,
        columns=FOUR[role].table.names,
        label="state",
        rows=FOUR[role].table.rows,
        subject_key="patient",
        key_rule="text",
    )


@dataclass
class Star:
    """The parties by role, and the processes that were started for them."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parties = {role: Party(role, self.folder / role) for role in (AGGREGATOR, *CLIENTS)}
        self.analyst = keys.generate_key()

    def request(self, parameters: Parameters) -> ComputationRequest:
        address = free_range(2 * len(CLIENTS))
        blocks = tuple(block(role) for role in CLIENTS)
        return ComputationRequest(
            purpose="a test",
            purpose_text="",
            analyst=AnalystEntry(name="anna", organisation="lab", key=keys.public_hex(self.analyst)),
            parties=tuple(
                party.entry(address if role == AGGREGATOR else "", role)
                for role, party in self.parties.items()
            ),
            blocks=blocks,
            computation=TRAIN.name,
            computation_version=TRAIN.version,
            code_digest="cd" * 32,
            parameters=parameters,
            manifest=TRAIN.manifest(parameters, {entry.role: entry.rows for entry in blocks}),
            analyst_receives=TRAIN.analyst_receives,
            minimum_group=10,
            minimum_overlap=10,
            public_seed=1,
            expires="2100-01-01T00:00:00Z",
            runs=1,
            nonce="00" * 16,
        )

    def prepare(self, request: ComputationRequest) -> None:
        waits = {"connect_s": SECONDS, "silence_s": SECONDS, "message_s": SECONDS, "heads_s": 0.0}
        prepare(request, self.analyst, self.parties, seed=SEED, **waits)

    def start(self, faults: dict[str, str]) -> None:
        for role, party in self.parties.items():
            with open(party.folder / "worker.log", "ab") as log:
                command = [sys.executable, "-m", "tests.parties.running.star_worker", str(party.run)]
                self.processes[role] = subprocess.Popen(
                    [*command, *([faults[role]] if role in faults else [])],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=ROOT,
                    env=os.environ | {"OMP_NUM_THREADS": "1"},
                )

    def statuses(self) -> dict[str, int]:
        return {role: process.wait(SECONDS) for role, process in self.processes.items()}

    def logs(self) -> str:
        return "\n".join((party.folder / "worker.log").read_text()[-1500:] for party in self.parties.values())

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for party in self.parties.values():
            party.server.stop()


@pytest.fixture
def star(tmp_path: Path) -> Iterator[Star]:
    made = Star(tmp_path)
    yield made
    made.close()


def dies(program: Program[Outcome], at: int) -> Program[Outcome]:
    """The program up to its Compute of this number (from 1), at which it is lost."""
    computed, effect = 0, next(program)
    while True:
        computed += isinstance(effect, Compute)
        if computed == at:
            raise PeerLost("killed")
        effect = program.send((yield effect))


def twin(request: ComputationRequest, lost: str, at: int) -> dict[str, object]:
    """What the same programs leave in one thread, when one is lost at the same place."""
    catalog.one_thread()
    who = identities((AGGREGATOR, *CLIENTS), digest(request))
    programs = {
        role: TRAIN.program(
            Inputs(
                role=role,
                settings=request,
                data=FOUR.get(role, NO_DATA),
                seed=bytes.fromhex(SEED),
                observe=lambda progress: None,
                identity=who[role],
            )
        )
        for role in (AGGREGATOR, *CLIENTS)
    }
    programs[lost] = dies(programs[lost], at)
    return simulate(programs, may_fail={lost})


CASES = {
    "each update alone": ("in training", FATAL, {}, ("Update",)),
    "sums under masks": (  # of each round three computations: training, words, masks
        "before its words",
        3 * FATAL,
        {"secure_aggregation": True, "minimum_clients": 3},
        ("GroupKeys", "MaskStep", "Masked", "Ready", "Revealed"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_a_killed_client_costs_itself_the_rest_of_the_run_and_nobody_a_bit(star: Star, case: str) -> None:
    """The run goes on with the others, masks anew where there are masks, and its report says who is gone."""
    fault, at, changes, kinds = CASES[case]
    request = star.request(TRAIN.parameters({**SHORT, **changes}, 10))
    star.prepare(request)
    star.start({"client-4": fault})
    done = dict.fromkeys((AGGREGATOR, *CLIENTS[:3]), int(ExitCode.DONE))
    assert star.statuses() == {**done, "client-4": -9}, star.logs()

    centre = star.parties[AGGREGATOR]
    report = json.loads((centre.run / RESULT_FILE).read_text())["report"]
    assert report["end"] == "done"
    assert report["gone"] == {"client-4": "peer_lost"}
    failed = {number: record.get("failures", {}) for number, record in report["rounds"].items()}
    assert failed == {
        str(number): {"client-4": "peer_lost"} if number == FATAL else {} for number in range(1, 6)
    }
    traffic = json.loads((centre.run / "traffic.json").read_text())["releases"]
    assert sorted({use["kind"] for use in traffic if use["messages"]}) == sorted(("Broadcast", *kinds))
    masked = [use["messages"] for use in traffic if (use["kind"], use["sender"]) == ("Masked", CLIENTS[0])]
    assert masked == ([6] if changes else [])  # in round 3 once with client-4's key and once without

    expected = twin(request, "client-4", at)
    for role in done:
        outcome, left = expected[role], (star.parties[role].run / ARTIFACTS_FILE).read_bytes()
        assert isinstance(outcome, Outcome)
        assert same_bits(unpack_arrays(left), outcome.artifacts), role
        audit.verify(star.parties[role].folder / "audit.jsonl")
        assert len(star.parties[role].entries(AuditEvent.RUN_FINISHED)) == 1
    assert any("client-4" in str(entry.detail) for entry in centre.entries(AuditEvent.PEER_FAULT))
