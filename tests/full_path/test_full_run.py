"""A full run, from the request to what both parties keep of it (AC-05, AC-16)."""

from collections.abc import Mapping

import numpy as np
import pytest

from parties.home.private_files import read_json
from parties.roles import analyst
from parties.roles.auditing import verify_log, write_peer_heads
from parties.running.runspec import RESULT_FILE
from protocols.audit import AuditEvent
from protocols.program import Outcome
from protocols.request import ComputationRequest
from tests.full_path import people
from tests.full_path.lab import BANK, PARTIES, RETAILER, ROLES, Lab

pytestmark = pytest.mark.syft


def test_both_models_are_those_of_the_same_programs_in_one_process(
    lab: Lab, finished: ComputationRequest, finished_twin: Mapping[str, Outcome]
) -> None:
    for name in PARTIES:
        lab.check_model(name, finished, finished_twin)


def test_the_analyst_gets_what_each_party_released_and_nothing_else(
    lab: Lab, finished: ComputationRequest
) -> None:
    released = analyst.results(finished, lab.sites)
    for name in PARTIES:
        assert released[name] == read_json(lab.run_folder(name, finished) / RESULT_FILE)
    report = released[BANK]["report"]  # type: ignore[index]
    linear = {"aligned_only", "stack", "active_alone", "passive_alone"}
    networks = {"aligned_only_network", "active_alone_network"}
    assert report["methods"].keys() == {"fedcvt", "joint", *linear, *networks}
    text = str(released)
    assert not [secret for secret in lab.customers.secrets if secret in text]


def test_row_i_is_the_same_customer_at_both_parties(lab: Lab, finished: ComputationRequest) -> None:
    for group, size in (("aligned_train", people.ALIGNED), ("aligned_test", people.TEST)):
        keys = {
            name: [
                lab.customers.keys(name)[row]
                for row in np.asarray(lab.model(name, finished)[f"rows.{group}"]).tolist()
            ]
            for name in PARTIES
        }
        assert keys[BANK] == keys[RETAILER]
        assert len(set(keys[BANK])) == size


def test_P7_both_logs_hold_the_same_alignment_tag(lab: Lab, finished: ComputationRequest) -> None:
    tags = {
        dict(entry.detail)["alignment"]
        for name in PARTIES
        for entry in lab.log_of(name, finished)
        if entry.event is AuditEvent.PSI_FINISHED
    }
    (tag,) = tags
    assert len(str(tag)) == 64
    assert all(lab.events(name, finished).count("psi_finished") == 1 for name in PARTIES)


def test_both_logs_verify_against_the_heads_that_the_other_party_holds(
    lab: Lab, finished: ComputationRequest
) -> None:
    heads = lab.folder / "heads"
    for name in PARTIES:
        write_peer_heads(lab.states[name], heads)
    for name in PARTIES:
        document, _ = verify_log(lab.states[name], (heads / f"{name}-head.json",))
        assert document["status"] == "ok"
        compared = document["heads_compared"]
        assert isinstance(compared, list)
        assert len(compared) == 1


def test_one_run_is_one_line_of_a_story_in_each_log(lab: Lab, finished: ComputationRequest) -> None:
    for name in PARTIES:
        story = [event for event in lab.events(name, finished) if event in STORY]
        assert story[: len(STORY)] == STORY, (name, ROLES[name])


STORY = [
    "submitted",
    "approved",
    "countersigned",
    "started",
    "handshake",
    "messages_reserved",
    "psi_finished",
    "run_finished",
]
