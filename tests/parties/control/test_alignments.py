"""The budget of alignments with a peer, held before a run starts, and a set that changed between two of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from parties.control.asking import explained
from parties.home.agreements import Agreement
from parties.home.policy import Policy, policy_text
from parties.home.private_files import write_private
from protocols.approval import Decision
from protocols.audit import AuditEvent, AuditLog, Entry, Result
from protocols.psi import PsiTerms, psi_manifest, size_manifest
from protocols.request import BlockEntry, ComputationRequest, Release, digest
from tests.parties.control.offices import COMMITMENT, EMAIL, Offices, copied, make_offices
from tests.waiting import until

TERMS = PsiTerms(client_rows=100, server_rows=200)
PAIRS, SIZE = psi_manifest("active", "passive", TERMS), size_manifest("active", "passive", TERMS)
TRAINING = (
    *PAIRS,
    Release(
        kind="Views",
        sender="passive",
        receiver="active",
        shapes=(),
        repetitions=1,
        max_bytes=90,
        learns="representations",
    ),
)


def blocks(shop: str = "5" * 64, version: int = 1, rows: int = 200) -> tuple[BlockEntry, ...]:
    """Both parties' blocks, keys only; the shop's content is `shop`."""
    bank = BlockEntry(
        role="active",
        block="customers",
        version=1,
        commitment=COMMITMENT,
        columns=(),
        label="",
        rows=100,
        subject_key="person",
        key_rule="text",
    )
    other = replace(bank, role="passive", block="baskets", commitment=shop, version=version, rows=rows)
    return bank, other


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def office(template: Offices, tmp_path: Path) -> Iterator[Offices]:
    """The bank serves with dummy workers, and allows two alignments with the shop."""
    mine = copied(template, tmp_path)
    agreement = Agreement(peer="shop", max_psi_runs=2, max_psi_keys=5000)
    _allow(mine, Policy(agreements=(agreement,)))
    with serving(mine):
        yield mine


@contextmanager
def serving(offices: Offices, behaviour: str = "quick") -> Iterator[None]:
    supervisor = offices.supervisor(behaviour)
    supervisor.start()
    try:
        offices.ask("add_user", name="ana", email=EMAIL)
        yield
    finally:
        supervisor.stop()


def asked(office: Offices, number: int, **changes: object) -> ComputationRequest:
    given: dict[str, object] = {"manifest": PAIRS, "blocks": blocks()}
    return office.approved(nonce=f"{number:032x}", **(given | changes))


def run(office: Offices, request: ComputationRequest) -> dict[str, object]:
    answer = office.start(request)
    if answer["ok"]:
        office.wait(request, "DONE")
    return answer


def entries(office: Offices, event: AuditEvent) -> list[Entry]:
    log = AuditLog(office.bank.audit_path, "bank")
    return [entry for entry in log.entries() if entry.event is event]


def test_R21_a_third_alignment_of_two_is_refused_whatever_it_computes(office: Offices) -> None:
    """R21: a training, a size and a pairing are alignments all three; a computation without one is not."""
    requests = [asked(office, 1, manifest=TRAINING), asked(office, 2, manifest=SIZE), asked(office, 3)]
    other = asked(office, 4, manifest=TRAINING[-1:])
    assert [run(office, request)["ok"] for request in requests] == [True, True, False]
    third = office.start(requests[2])
    assert (third["error"], third["used"], third["allowed"]) == ("alignments_used", 2, 2)
    assert explained(str(third["error"]), third).endswith("used 2 of 2")
    assert office.view(requests[2])["state"] == "APPROVED"
    assert run(office, other)["ok"]

    refused = [dict(entry.detail) for entry in entries(office, AuditEvent.START_REFUSED)]
    assert [detail["reason"] for detail in refused] == ["alignments with shop: used 2 of 2"] * 2
    started = entries(office, AuditEvent.PSI_STARTED)
    assert [(dict(e.detail)["used"], dict(e.detail)["allowed"]) for e in started] == [(1, 2), (2, 2)]
    assert {entry.result for entry in started} == {Result.OK}


def test_the_budget_holds_after_a_restart_and_is_raised_only_by_both_rules(
    template: Offices, tmp_path: Path
) -> None:
    mine = copied(template, tmp_path)
    with serving(mine):
        _allow(mine, Policy(max_psi_runs=2))
        for number in (1, 2):
            assert run(mine, asked(mine, number))["ok"]
        third = asked(mine, 3)
    with serving(mine):
        agreement = Agreement(peer="shop", max_psi_runs=2, max_psi_keys=5000)
        for policy in (Policy(max_psi_runs=2), Policy(max_psi_runs=3, agreements=(agreement,))):
            _allow(mine, policy)
            assert run(mine, third)["error"] == "alignments_used"
        _allow(mine, Policy(max_psi_runs=3))
        assert run(mine, third)["ok"]


def _allow(offices: Offices, policy: Policy) -> None:
    write_private(offices.bank.folder / "policy.toml", policy_text(policy))


def test_a_set_that_changed_since_the_last_alignment_is_shown_to_the_reviewer_and_logged(
    office: Offices,
) -> None:
    run(office, asked(office, 1))
    changed = asked(office, 2, blocks=blocks(shop="6" * 64, version=2))
    (line,) = office.ask("request", digest=digest(changed))["alignments"]  # type: ignore[misc]
    assert "with shop: used 1 of 2" in line
    assert "own set customers v1, at most 100 keys, commitment cccccccccccccccc, same as in" in line
    assert (
        "its set baskets v2, at most 200 keys, commitment 6666666666666666, changed since the last alignment"
        in line
    )
    run(office, changed)
    first, second = (dict(entry.detail) for entry in entries(office, AuditEvent.PSI_STARTED))
    assert str(first["peer's set"]).endswith("first alignment")
    assert str(second["peer's set"]).endswith("changed since the last alignment")
    assert str(second["own set"]).endswith("same as in the last alignment")


def test_larger_sets_or_more_runs_than_agreed_cannot_be_approved(office: Offices) -> None:
    for changes, text in (
        ({"blocks": blocks(rows=6000)}, "a set has up to 6000 keys, our policy allows 5000"),
        ({"runs": 3}, "runs is 3, our policy allows 2 alignments with shop"),
    ):
        request = office.submitted(manifest=SIZE, **({"blocks": blocks()} | changes))
        answer = office.ask("decide", decision=office.decision(office.bank, request, Decision.APPROVE))
        assert answer["ok"] is False
        assert text in str(answer["message"])


def test_a_run_that_never_sent_a_message_uses_nothing(template: Offices, tmp_path: Path) -> None:
    mine = copied(template, tmp_path)
    _allow(mine, Policy(max_psi_runs=1))
    with serving(mine, "unmet"):
        request = asked(mine, 1)
        for _ in range(2):
            assert mine.start(request)["ok"]
            mine.wait(request, "FAILED")


def test_an_alignment_whose_worker_could_not_log_its_end_has_one(template: Offices, tmp_path: Path) -> None:
    mine = copied(template, tmp_path)
    _allow(mine, Policy(max_psi_runs=1))
    with serving(mine, "full"):
        request = asked(mine, 1)
        assert mine.start(request)["ok"]
        mine.wait(request, "FAILED")
        until(lambda: len(entries(mine, AuditEvent.PSI_FINISHED)), (1).__eq__)
    (end,) = entries(mine, AuditEvent.PSI_FINISHED)
    assert end.result is Result.FAILED
    assert dict(end.detail)["alignment"] == "not told: the run ended first (audit)"


def test_an_alignment_whose_worker_was_killed_has_an_end_counts_and_leaves_no_half_result(
    template: Offices, tmp_path: Path
) -> None:
    mine = copied(template, tmp_path)
    _allow(mine, Policy(max_psi_runs=1))
    with serving(mine, "vanish"):
        request, next_one = asked(mine, 1), asked(mine, 2)
        for attempt in (1, 2):
            assert mine.start(request)["ok"]
            mine.wait(request, "INTERRUPTED")
            until(lambda: len(entries(mine, AuditEvent.PSI_FINISHED)), attempt.__eq__)
        assert mine.start(next_one)["error"] == "alignments_used"
    ends = entries(mine, AuditEvent.PSI_FINISHED)
    assert {entry.result for entry in ends} == {Result.FAILED}
    assert {dict(entry.detail)["alignment"] for entry in ends} == {
        "not told: the run ended first (worker_ended)"
    }
    assert {dict(entry.detail)["peer"] for entry in ends} == {"shop"}
    (folder,) = (mine.bank.folder / "runs").iterdir()
    left = {path.name for path in folder.iterdir()}
    assert not left & {"temporary", "artifacts.bin", "result.json"}
    assert "private.seed" in left  # it is taken up again with that
    deleted = [dict(entry.detail)["deleted"] for entry in entries(mine, AuditEvent.TEMPORARY_DELETED)]
    assert deleted == ["temporary artifacts.bin result.json"] * 2
