"""`horizontal.train` over links, past every gate: the bits of a simulation, and what a client's failure costs."""

from collections.abc import Callable

import pytest

import horizontal
from horizontal.messages import KINDS, Broadcast, Task, Update
from horizontal.rounds import RoundError
from horizontal.table_task import from_parameters
from horizontal.weights import model_arrays
from parties.catalog.horizontal_tables import client_rows
from parties.demo.steps import same_bits
from parties.links.link import Link
from protocols.errors import PeerStopped
from protocols.program import Outcome
from protocols.seeds import injected
from protocols.wire import decode, encode
from tests.parties.running.wards import (
    AGGREGATOR,
    CLIENTS,
    DATA,
    SEED,
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
            broadcast = decode(link.receive(20), KINDS)
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
    wards = Wards(parameters(), message_s=1.0, changed={"client-3": after(2, does)})
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
    import time

    def late(link: Link, broadcast: Broadcast) -> None:
        time.sleep(0.5)
        answer(link, broadcast)
        after(9, answer_nothing)(link)

    def answer_nothing(link: Link, broadcast: Broadcast) -> None:
        assert broadcast.task == Task.FINISH

    ended = Wards(parameters(rounds=5), message_s=0.3, changed={"client-3": after(1, late)}).run()
    report = ended[AGGREGATOR].report  # type: ignore[attr-defined]
    assert report["rounds"]["2"]["failures"] == {"client-3": "peer_timeout"}
    assert report["end"] == "done"
    assert "client-3" in report["rounds"]["5"]["clients"]
    assert "gone" not in report


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
