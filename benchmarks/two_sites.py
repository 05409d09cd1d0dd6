"""Two parties with supervisors on one machine and made-up people, ready to run an approved request again and again.

Everything between the approvals and the result is the product's: state folders, blocks in the store, countersigned
approvals, supervisors with their ledgers and logs, worker processes, TLS with pinned certificates, gates. Only syft is
left out: it carries a run's start and its result, never a step.
"""

from __future__ import annotations

import csv
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.timed_runs import SEED
from parties import catalog
from parties.blocks.block import BlockSpec
from parties.blocks.schema import BlockSchema
from parties.blocks.store import Store
from parties.control.asking import ask
from parties.control.supervisor import Options, Supervisor, only_one
from parties.control.workers import run_folder
from parties.demo.sites import free_range
from parties.home.cards import card_fingerprint
from parties.home.policy import Policy
from parties.home.state import State, init_analyst, init_party
from parties.roles.owner import add_block, add_peer
from parties.roles.reviewing import record
from protocols.approval import Decision, parse_approvals, to_text
from protocols.errors import StateError
from protocols.records import utc_text
from protocols.request import (
    AnalystEntry,
    BlockEntry,
    ComputationRequest,
    PartyEntry,
    SignedRequest,
    digest,
    sign_request,
)
from protocols.request import to_text as request_text
from vertical.config import FedCVTConfig

ROLES = {"bank": "active", "retailer": "passive"}
WIDTHS = {"bank": 24, "retailer": 48}
"""Feature columns of each party, about as many as the demo's have after preprocessing."""
TEST_PEOPLE = 40
_WORKER = (sys.executable, "-P", "-m", "benchmarks.timed_runs", "worker")
_EMAIL = "ana@lab.example.org"
_CALLER = "c" * 64
_END_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """The parties by role and the request that both have approved."""

    states: Mapping[str, State]
    request: ComputationRequest
    signed: SignedRequest

    def run(self) -> dict[str, Path]:
        """Runs the request once more, from both starts to both ends; the run folders by role."""
        name, approvals = digest(self.request), self._approvals()
        for state in self.states.values():
            ask(state.folder, "start", digest=name, approvals=approvals)
        return {role: self._finished(state, name) for role, state in self.states.items()}

    def _approvals(self) -> str:
        texts = [
            str(ask(state.folder, "status", digest=digest(self.request))["approval"])
            for state in self.states.values()
        ]
        return to_text(approval for text in texts for approval in parse_approvals(text))

    def _finished(self, state: State, name: str) -> Path:
        end = time.monotonic() + _END_S
        while True:
            view = ask(state.folder, "status", digest=name)
            if view["state"] == "DONE":
                return run_folder(state.runs, name, int(str(view["run"])))
            if view["state"] != "RUNNING" or time.monotonic() > end:
                raise StateError(f"{state.name}: the run is {view['state']} {view['reason']}")
            time.sleep(0.2)  # seldom enough not to be felt by the workers


@contextmanager
def two_sites(folder: Path, config: FedCVTConfig, *, alone: int, runs: int) -> Iterator[Sites]:
    """Two served parties, each with `alone` people of its own, and an approved request for so many runs."""
    address = free_range(4)
    policy = Policy(max_runs=runs)
    states = {
        "bank": init_party(folder / "bank", name="bank", organisation="Bank", address=address, policy=policy),
        "retailer": init_party(folder / "retailer", name="retailer", organisation="Retailer", policy=policy),
    }
    analyst = init_analyst(folder / "ana", name="ana", organisation="Lab")
    _introduce([*states.values(), analyst])
    schemas = {name: _block(states[name], people) for name, people in _people(config, alone).items()}
    request = _request(states, analyst, schemas, config, runs)
    signed = sign_request(request, analyst.signing_key())
    by_role = {ROLES[name]: state for name, state in states.items()}
    with ExitStack() as stack:
        for name, state in states.items():
            stack.enter_context(_served(state, schemas[name]))
            _approve(state, request, request_text(signed))
        yield Sites(states=by_role, request=request, signed=signed)


@contextmanager
def _served(state: State, schema: BlockSchema) -> Iterator[None]:
    options = Options(
        current_block=lambda name: (schema.version, schema.commitment),
        code_digest=catalog.code_digest,
        worker_command=_WORKER,
        injected_seed=SEED,
    )
    with only_one(state):
        supervisor = Supervisor(state, options)
        supervisor.start()
        try:
            yield
        finally:
            supervisor.stop()


def _introduce(states: list[State]) -> None:
    for state in states[:-1]:  # the last one is the analyst, who needs no address book here
        for other in states:
            if other is not state:
                add_peer(state, other.folder / "card.json", card_fingerprint(other.card()))


def _approve(state: State, request: ComputationRequest, signed: str) -> None:
    ask(state.folder, "add_user", name="ana", email=_EMAIL)
    ask(state.folder, "ingest", signed=signed, caller=_CALLER, email=_EMAIL)
    record(
        state,
        digest(request),
        person="owner",
        decision=Decision.APPROVE,
        reason="a benchmark of this machine's own",
        passphrase=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _People:
    """One party's rows: numbers of the people, whether they are test people, features (rows, f), labels or None."""

    numbers: NDArray[np.int64]
    test: NDArray[np.bool_]
    features: NDArray[np.float64]
    labels: NDArray[np.int64] | None


def _people(config: FedCVTConfig, alone: int) -> dict[str, _People]:
    """Both parties' people: aligned and test people in common, `alone` more at each."""
    generator = np.random.default_rng(0)
    both = config.max_aligned_train + config.max_aligned_test
    total = both + 2 * alone
    features = generator.normal(size=(total, sum(WIDTHS.values())))
    score = features @ generator.normal(size=features.shape[1]) / np.sqrt(features.shape[1])
    labels = (score + generator.normal(scale=0.5, size=total) > 0.5).astype(np.int64)
    test = (np.arange(total) >= config.max_aligned_train) & (np.arange(total) < both)
    width = WIDTHS["bank"]
    bank = np.r_[0 : both + alone]
    retailer = np.r_[0:both, both + alone : total]
    return {
        "bank": _People(numbers=bank, test=test[bank], features=features[bank, :width], labels=labels[bank]),
        "retailer": _People(
            numbers=retailer, test=test[retailer], features=features[retailer, width:], labels=None
        ),
    }


def _block(state: State, people: _People) -> BlockSchema:
    """Writes the party's file and registers it."""
    path = state.folder.parent / f"{state.name}.csv"
    names = [f"x{column}" for column in range(people.features.shape[1])]
    label = () if people.labels is None else ("label",)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "split", *label, *names])
        for row, number in enumerate(people.numbers.tolist()):
            code = () if people.labels is None else ("yes" if people.labels[row] else "no",)
            cells = [f"{value:.6g}" for value in people.features[row].tolist()]
            writer.writerow([f"p{number:07d}", "test" if people.test[row] else "train", *code, *cells])
    spec = BlockSpec(name="people", subject_key="person", split="split", label=label[0] if label else "")
    add_block(state, path, spec)
    os.unlink(path)
    return Store(state.blocks).describe("people")


def _request(
    states: Mapping[str, State],
    analyst: State,
    schemas: Mapping[str, BlockSchema],
    config: FedCVTConfig,
    runs: int,
) -> ComputationRequest:
    computation = catalog.CATALOG["vertical.fedcvt.train"]
    parameters = config.to_parameters()
    rows = {ROLES[name]: schema.rows for name, schema in schemas.items()}
    return ComputationRequest(
        purpose="benchmark",
        purpose_text="",
        analyst=AnalystEntry(
            name=analyst.name, organisation=analyst.organisation, key=analyst.card().signing_key
        ),
        parties=tuple(
            PartyEntry(
                name=name,
                role=ROLES[name],
                signing_key=state.card().signing_key,
                link_certificate=state.card().link_certificate,
                address=state.card().address,
            )
            for name, state in states.items()
        ),
        blocks=tuple(
            BlockEntry(
                role=ROLES[name],
                block=schema.block,
                version=schema.version,
                commitment=schema.commitment,
                columns=schema.names,
                label=schema.label,
                rows=schema.rows,
                subject_key=schema.subject_key,
                key_rule=schema.key_rule,
                key_missing=schema.key_missing,
                duplicates=schema.duplicates.value,
            )
            for name, schema in schemas.items()
        ),
        computation=computation.name,
        computation_version=computation.version,
        code_digest=catalog.code_digest(),
        parameters=parameters,
        manifest=computation.manifest(parameters, rows),
        analyst_receives=computation.analyst_receives,
        minimum_group=10,
        minimum_overlap=config.minimum_overlap,
        public_seed=0,
        expires=utc_text(datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)),
        runs=runs,
        nonce=secrets.token_hex(16),
    )
