"""`horizontal.train` over links, past every gate: the bits of a simulation, and what a client's failure costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

import horizontal
from horizontal.masked_messages import GroupKeys, Masked, Ready, Revealed
from horizontal.masked_sum import SumTerms
from horizontal.messages import KINDS, Broadcast, Task, Update
from horizontal.rounds import RoundError
from horizontal.table_task import from_parameters
from horizontal.weights import model_arrays
from parties.catalog.horizontal_tables import client_rows
from parties.catalog.horizontal_train import TASK
from parties.demo.steps import same_bits
from parties.links.link import Link
from parties.running.drive import Driver
from parties.running.heads import AuditHead
from protocols.errors import ApprovalError, PeerStopped, ProtocolError
from protocols.masking import MaskKey, Masks
from protocols.program import Checkpoint, Outcome
from protocols.seeds import injected
from protocols.wire import decode, encode
from tests.parties.running.wards import (
    AGGREGATOR,
    CLIENTS,
    DATA,
    FOUR,
    PATIENCE_S,
    SEED,
    TRAIN,
    WHO,
    Wards,
    parameters,
    simulated,
)


@pytest.mark.parametrize(
    "method", ["fedavg", "fedprox", "scaffold", "fedbss", "fedoui", "fednova", "flash", "median"]
)
def test_links_gates_and_logs_change_no_bit(method: str) -> None:
    given = parameters(method=method)
    over_links, here = Wards(given).run(), simulated(given)
    for role, outcome in over_links.items():
        assert isinstance(outcome, Outcome), outcome
        assert same_bits(outcome.artifacts, here[role].artifacts), role
        assert outcome.report == here[role].report


def test_heads_of_logs_at_checkpoints_change_no_bit_at_any_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each checkpoint every side gives every peer a head, as workers do; the programs see none of them."""
    given, head, took = parameters(method="fedavg"), encode(AuditHead("signed")), list[str]()

    def take(role: str, data: bytes) -> bool:
        if data == head:
            took.append(role)
        return data == head

    def telling(*, links: Mapping[str, Link], save: Callable[[Checkpoint], None], **other: Any) -> Driver:
        def both(checkpoint: Checkpoint) -> None:
            save(checkpoint)
            for link in links.values():
                link.send(head)

        return Driver(links=links, save=both, take=take, **other)

    monkeypatch.setattr("tests.parties.running.wards.Driver", telling)
    over_links, here = Wards(given).run(), simulated(given)
    assert set(took) == {AGGREGATOR, *CLIENTS}
    for role, outcome in over_links.items():
        assert isinstance(outcome, Outcome), outcome
        assert same_bits(outcome.artifacts, here[role].artifacts), role


SECURE: dict[str, object] = {"secure_aggregation": True, "minimum_clients": 3}


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedbss"])
def test_sums_under_masks_are_the_same_bits_over_links_as_in_one_process(method: str) -> None:
    given = parameters(method=method, **SECURE)
    wards = Wards(given)
    over_links, here, plain = wards.run(), simulated(given), simulated(parameters(method=method))
    for role, outcome in over_links.items():
        assert isinstance(outcome, Outcome), outcome
        assert same_bits(outcome.artifacts, here[role].artifacts), role
        assert outcome.report == here[role].report
    kinds = {use.kind for use in wards.drivers[AGGREGATOR].gate.summary() if use.messages}
    assert kinds == {"Broadcast", "Ready", "MaskStep", "GroupKeys", "Masked", "Revealed"}
    weights = [one[AGGREGATOR].artifacts["0.weight"] for one in (here, plain)]
    np.testing.assert_allclose(*weights, rtol=0, atol=1e-5)


def unevenness(data: bytes) -> float:
    """The probability that evenly distributed bytes are as uneven as these or more, by a chi-square test."""
    return float(stats.chisquare(np.bincount(np.frombuffer(data, np.uint8), minlength=256)).pvalue)


def test_what_the_aggregator_receives_of_one_client_is_noise() -> None:
    """A client's words are evenly distributed bytes, in all rounds together, and so are their differences between
    rounds, in which a model hardly moves; the words that they hide are anything but."""
    given = parameters(hidden=[64], rounds=8, **SECURE)
    wards = Wards(given)
    ended = wards.run()
    terms = SumTerms.of(from_parameters(given)[1])
    outcome = ended[AGGREGATOR]
    assert isinstance(outcome, Outcome)
    shown = {name: array for name, array in outcome.artifacts.items() if name != TASK}
    for client in CLIENTS:
        messages = [decode(data, TRAIN.kinds()) for data in wards.received[client]]
        words = [message.words for message in messages if isinstance(message, Masked)]
        assert len(words) == 8
        assert {type(message) for message in messages} == {Ready, Masked, Revealed}
        assert unevenness(b"".join(each.tobytes() for each in words)) > 1e-9
        moved = [later - earlier for earlier, later in pairwise(words)]
        assert unevenness(b"".join(each.tobytes() for each in moved)) > 1e-9
        hidden = terms.point.words(shown, 20)
        assert len(words[0]) == len(hidden) + 1
    assert unevenness(hidden.tobytes()) < 1e-9


def test_an_aggregator_that_puts_its_own_key_in_a_clients_place_gets_no_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It signs it with its own key, as it can't with the client's; everybody's run ends before anything is masked."""

    class Swapping(GroupKeys):
        @classmethod
        def of(cls, number: int, attempt: int, keys: Sequence[MaskKey]) -> GroupKeys:
            own = Masks(WHO[AGGREGATOR], number, least=3).key
            forged = [replace(own, role=key.role) if key.role == "client-2" else key for key in keys]
            return GroupKeys.of(number, attempt, forged)

    monkeypatch.setattr("horizontal.masked_rounds.GroupKeys", Swapping)
    wards = Wards(parameters(**SECURE))
    ended = wards.run()
    for client in ("client-1", "client-3"):
        assert isinstance(ended[client], ApprovalError), ended[client]
        assert "the mask key of client-2 for round 1 isn't signed by client-2" in str(ended[client])
    assert isinstance(ended["client-2"], ProtocolError)
    assert isinstance(ended[AGGREGATOR], RoundError)
    for received in wards.received.values():
        assert [type(decode(data, TRAIN.kinds())) for data in received] == [Ready]


def test_a_client_that_is_late_with_its_words_ends_a_sum_of_three() -> None:
    """No sum is opened without it, though the others have sent theirs; nobody claims to have finished."""
    wards = Wards(parameters(**SECURE), impatient={"client-3": {2}})  # 1: it is ready; 2: its words
    problem = wards.run()[AGGREGATOR]
    assert isinstance(problem, RoundError)
    assert problem.outcome.report["rounds"]["1"]["failures"] == {"client-3": "peer_timeout"}
    assert problem.outcome.report["last_good"] == "the initial model"
    used = {use.kind: use.messages for use in wards.drivers[AGGREGATOR].gate.summary()}
    assert used["Revealed"] == 0


def test_a_client_that_is_late_to_be_ready_leaves_no_sum_of_two() -> None:
    wards = Wards(parameters(**SECURE), impatient={"client-3": {4}})  # three waits a round: late in round 2
    problem = wards.run()[AGGREGATOR]
    assert isinstance(problem, RoundError)
    assert problem.outcome.report["last_good"] == "round 1"


def test_a_client_that_is_late_to_be_ready_is_in_later_sums_again() -> None:
    """Its round's sum is over the three others; of three waits a round the fourth finds nothing."""
    wards = Wards(parameters(**SECURE), {"client-4": {4}}, blocks=FOUR)
    ended = wards.run()
    outcome = ended[AGGREGATOR]
    assert isinstance(outcome, Outcome), outcome
    rounds: Any = outcome.report["rounds"]
    assert rounds["2"]["failures"] == {"client-4": "peer_timeout"}
    assert {number for number, record in rounds.items() if record.get("failures")} == {"2"}
    assert "gone" not in outcome.report
    late = ended["client-4"]
    assert isinstance(late, Outcome), late
    assert late.report["failures"] == {"2": "left_out"}
    assert same_bits(late.artifacts, outcome.artifacts)


def test_no_checkpoint_holds_a_key_a_seed_or_words_of_a_sum() -> None:
    wards = Wards(parameters(**SECURE))
    wards.run()
    for role, saved in wards.saved.items():
        names = {name.partition(".")[0] for checkpoint in saved for name in checkpoint.state}
        assert names <= {"round", "history", "model", "shared", "kept", "memory"}, role
        assert {value.dtype.name for c in saved for value in c.state.values()} <= {
            "int64",
            "uint8",
            "float32",
            "float64",
        }


def test_a_resumed_run_under_masks_ends_with_the_same_bits() -> None:
    given = parameters(rounds=6, checkpoint_every=2, **SECURE)
    wards = Wards(given)
    whole = wards.run()
    at = {role: next(c.state for c in reversed(saved) if c.step <= 4) for role, saved in wards.saved.items()}
    again = Wards(given).run(at)
    for role, outcome in again.items():
        assert isinstance(outcome, Outcome), outcome
        assert same_bits(outcome.artifacts, whole[role].artifacts), role


@pytest.mark.parametrize("method", ["fedavg", "fedbss"])
def test_the_librarys_simulation_gives_the_same_bits(method: str) -> None:
    given = parameters(method=method)
    task, config = from_parameters(given)
    clients = {role: client_rows(data, task)[0] for role, data in DATA.items()}
    alone = horizontal.simulate(task.network(injected(SEED, AGGREGATOR)), clients, config, seed=SEED)
    outcome = simulated(given)[AGGREGATOR]
    for name, value in model_arrays(alone.model).items():
        assert value.tobytes() == outcome.artifacts[name].tobytes()


def after(rounds: int, then: Callable[[Link, Broadcast], object]) -> Callable[[Link], object]:
    """A client that answers so many rounds with the model that it was sent, and does something else in the next."""

    def client(link: Link) -> object:
        while True:
            broadcast = decode(link.receive(PATIENCE_S), KINDS)
            assert isinstance(broadcast, Broadcast)
            if broadcast.round > rounds or broadcast.task == Task.FINISH:
                return then(link, broadcast)
            link.send(encode(Update.of(broadcast.round, Task.TRAIN, 20, broadcast.arrays())))

    return client


def answer(link: Link, broadcast: Broadcast, task: Task = Task.TRAIN) -> None:
    link.send(encode(Update.of(broadcast.round, task, 20, broadcast.arrays())))


FAULTS: dict[str, tuple[str, Callable[[Link, Broadcast], object]]] = {
    "lost": ("peer_lost", lambda link, broadcast: link.close()),
    "stopped": ("peer_stopped", lambda link, broadcast: link.close("interrupted")),
    "garbage": ("wire", lambda link, broadcast: link.send(b"no message")),
    "too large": ("gate", lambda link, broadcast: link.send(bytes(100_000))),
    "its own broadcast": ("gate", lambda link, broadcast: link.send(encode(broadcast))),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_clients_fault_costs_it_the_round_and_nobody_else(fault: str) -> None:
    code, does = FAULTS[fault]
    # After its fault in round 3 it says nothing more, for which the aggregator needn't wait.
    wards = Wards(parameters(), {"client-3": range(4, 99)}, changed={"client-3": after(2, does)})
    ended = wards.run()
    assert ended.keys() == {AGGREGATOR, *CLIENTS}
    for role in (AGGREGATOR, "client-1", "client-2"):
        outcome = ended[role]
        assert isinstance(outcome, Outcome), outcome
        assert outcome.report["end"] == "done"
    report = ended[AGGREGATOR].report  # type: ignore[attr-defined]
    assert list(report["rounds"]["2"]["clients"]) == list(CLIENTS)
    assert report["rounds"]["3"]["failures"] == {"client-3": code}
    assert list(report["rounds"]["5"]["clients"]) == ["client-1", "client-2"]
    assert "client-3" in wards.drivers[AGGREGATOR].faults


def test_a_late_answer_is_skipped_and_the_client_takes_part_again() -> None:
    """Its answer of round 2 comes before that of round 3, and takes part in neither."""
    wards = Wards(parameters(rounds=5), impatient={"client-3": {2}})
    ended = wards.run()
    report = ended[AGGREGATOR].report  # type: ignore[attr-defined]
    assert report["rounds"]["2"]["failures"] == {"client-3": "peer_timeout"}
    assert list(report["rounds"]["2"]["clients"]) == ["client-1", "client-2"]
    assert all(list(report["rounds"][number]["clients"]) == list(CLIENTS) for number in ("1", "3", "4", "5"))
    assert report["end"] == "done"
    assert "gone" not in report
    for role in CLIENTS:
        assert same_bits(ended[role].artifacts, ended[AGGREGATOR].artifacts)  # type: ignore[attr-defined]
    assert list(ended["client-3"].report["rounds"]) == ["1", "2", "3", "4", "5"]  # type: ignore[attr-defined]


def test_with_too_few_clients_nobody_claims_to_have_finished() -> None:
    lose = after(2, lambda link, broadcast: link.close())
    ended = Wards(parameters(), changed={"client-2": lose, "client-3": lose}).run()
    stopped, told = ended[AGGREGATOR], ended["client-1"]
    assert isinstance(stopped, RoundError)
    assert stopped.outcome.report["end"] == "stopped"
    assert stopped.outcome.report["last_good"] == "round 2"
    assert isinstance(told, PeerStopped)
    assert told.reason == "round"


def test_a_clients_revocation_ends_the_run_for_all() -> None:
    revoke = after(1, lambda link, broadcast: link.close("revoked"))
    ended = Wards(parameters(), changed={"client-3": revoke}).run()
    problem = ended[AGGREGATOR]
    assert isinstance(problem, PeerStopped)
    assert problem.reason == "revoked"
    assert isinstance(ended["client-1"], PeerStopped)


@pytest.mark.parametrize("method", ["fedbss", "scaffold"])
def test_each_resumes_from_its_own_checkpoint_to_the_same_bits(method: str) -> None:
    given = parameters(method=method, rounds=6, checkpoint_every=2)
    wards = Wards(given)
    whole = wards.run()
    states = {
        role: {saved.step: saved.state for saved in wards.saved[role]}[4] for role in (AGGREGATOR, *CLIENTS)
    }
    assert [saved.step for saved in wards.saved[AGGREGATOR]] == [2, 4, 6]
    resumed = Wards(given).run(states)
    for role, outcome in resumed.items():
        assert isinstance(outcome, Outcome), outcome
        assert same_bits(outcome.artifacts, whole[role].artifacts), role  # type: ignore[attr-defined]
