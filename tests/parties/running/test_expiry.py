"""A run that is under way when its request's date comes: it ends there, at both parties, and leaves nothing."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parties.running.runspec import CHECKPOINTS, RESULT_FILE, State, read_snapshot
from parties.running.stopping import StopFlag
from parties.running.worker import Worker
from parties.running.worker_tools import Tools
from protocols.audit import AuditEvent
from tests.parties.running import toy
from tests.parties.running.test_worker import Party, Trial, free_range
from tests.parties.running.toy_worker import data
from tests.waiting import PATIENCE, until


def test_R14_a_run_ends_with_its_requests_date_at_both_parties(tmp_path: Path) -> None:
    trial = Trial(Party("bank", tmp_path / "bank"), Party("retailer", tmp_path / "retailer"), free_range())
    late: list[timedelta] = [timedelta()]
    tools = Tools(
        find=lambda name, version: toy.computation()[name],
        check_code=lambda request: None,
        open_data=data,
        now=lambda: datetime.now(UTC) + late[-1],
    )
    try:
        trial.prepare(
            trial.request(steps=100_000, pause=0.005), connect_s=PATIENCE, message_s=PATIENCE, cores=1
        )
        workers = [
            threading.Thread(target=Worker(party.run, tools, StopFlag()).run) for party in trial.parties
        ]
        for worker in workers:
            worker.start()
        for party in trial.parties:
            until(
                lambda party=party: read_snapshot(party.run),
                lambda found: found is not None and found.step > 6,
                PATIENCE,
            )
        late.append(timedelta(days=36_500))
        for worker in workers:
            worker.join(PATIENCE)
        ends = [party.snapshot() for party in trial.parties]
        assert {end.state for end in ends} == {State.FAILED}
        reasons = {end.reason for end in ends}  # who looks at the clock first tells the other
        assert "expired" in reasons
        assert reasons <= {"expired", "peer_stopped:expired"}
        for party in trial.parties:
            (end,) = party.entries(AuditEvent.RUN_FAILED)
            assert end.result.value == ("refused" if party.snapshot().reason == "expired" else "failed")
            assert not (party.run / RESULT_FILE).exists()
            assert (
                party.run / CHECKPOINTS
            ).exists()  # which the supervisor deletes: it knows that none comes again
    finally:
        trial.close()
