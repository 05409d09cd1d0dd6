"""Commands on a run that goes on until it is stopped."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from parties.home.state import open_state
from parties.roles import analyst, requesting
from parties.syft_side.access import Datasite
from protocols.request import ComputationRequest
from tests.parties.commands.town import Town, bad, fedaccord, good, running_town


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A town whose runs go on until they are stopped."""
    with running_town(tmp_path_factory.mktemp("slow-town"), "steps") as made:
        yield made


def test_running_cancelled_and_their_next_steps(town: Town) -> None:
    digest = town.approved()
    assert "the request is APPROVED there" in bad("request", "cancel", digest, "-s", town.ana)
    said = good("request", "start", digest, "-s", town.ana).out
    assert "RUNNING" in said
    assert "--watch" in said
    assert "a run is under way at bank" in bad("request", "start", digest, "-s", town.ana)
    assert "the request is RUNNING there" in bad("request", "result", digest, "-s", town.ana)
    facts = good("request", "status", digest, "--json", "-s", town.ana).document["parties"]
    assert "bytes" not in json.dumps(facts)
    assert good("request", "cancel", digest, "-s", town.ana).out == "bank: CANCELLED\nshop: CANCELLED\n"
    assert town.states(digest) == {"bank": "CANCELLED", "shop": "CANCELLED"}


def test_whoever_watches_a_run_fails_with_it(town: Town) -> None:
    digest = town.approved()
    really_follow = requesting.follow

    def cancelled_meanwhile(
        request: ComputationRequest, sites: Mapping[str, Datasite], tell: requesting.Tell
    ) -> object:
        analyst.cancel(request, sites)
        return really_follow(request, sites, tell)

    with patch.object(requesting, "follow", cancelled_meanwhile):
        started = fedaccord("request", "start", digest, "--watch", "-s", town.ana)
    assert (started.status, started.err) == (1, "")
    assert "CANCELLED" in started.out
    seen = fedaccord("request", "status", digest, "--watch", "--json", "-s", town.ana)
    assert seen.status == 1
    assert seen.document["digest"] == digest
    good("request", "status", digest, "-s", town.ana)


def test_an_interrupted_run_says_how_it_goes_on(town: Town) -> None:
    digest = town.approved()
    good("request", "start", digest, "-s", town.ana)
    for state in (town.bank, town.shop):  # as a supervisor's restart leaves it
        _interrupt(open_state(state, test_mode=True).ledger_path, digest)
    said = good("request", "status", digest, "-s", town.ana).out
    assert "INTERRUPTED" in said
    assert f"next: fedaccord request start {digest[:12]} goes on from the last checkpoint" in said


def _interrupt(ledger: Path, digest: str) -> None:
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE requests SET state = 'INTERRUPTED' WHERE digest = ?", (digest,))
