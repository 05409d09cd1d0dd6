"""A request that uses a trained model: found, handed to the worker, and refused when it may not be used (any more)."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from parties.control.runs import Ledger, RunState
from parties.control.supervisor import only_one
from parties.running.runspec import ARTIFACTS_FILE, load_spec
from protocols.approval import Decision, to_text
from protocols.audit import AuditEvent, AuditLog
from protocols.errors import RequestError
from protocols.request import ComputationRequest, digest
from tests.parties.control.offices import CALLER, COMMITMENT, EMAIL, Offices, copied, make_offices
from tests.parties.control.offices import running as running_offices
from tests.waiting import until


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(template: Offices, tmp_path: Path) -> Offices:
    return copied(template, tmp_path)


def wanted(request: ComputationRequest) -> str:
    return str(dict(request.parameters).get("trained", ""))


running = partial(running_offices, model_wanted=wanted)


def folder(offices: Offices, request: ComputationRequest, run: int = 1) -> Path:
    return offices.bank.runs / f"{digest(request)}-{run}"


def train(offices: Offices, **changes: object) -> ComputationRequest:
    """A finished training whose run left artifacts."""
    request = offices.approved(**changes)
    assert offices.start(request)["ok"]
    offices.wait(request, "DONE")
    (folder(offices, request) / ARTIFACTS_FILE).write_bytes(b"a model")
    return request


def use(offices: Offices, model: str, **changes: object) -> ComputationRequest:
    """An approved request that uses the model."""
    return offices.approved(nonce="1" * 32, parameters=(("trained", model),), **changes)


def refused(offices: Offices, request: ComputationRequest) -> str:
    """The reason in the log for which the start of the request was refused, as a model."""
    answer = offices.start(request)
    assert answer["error"] == "model"
    last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1]
    assert (last.event, last.result) == (AuditEvent.START_REFUSED, "refused")
    assert not folder(offices, request).exists()
    return str(dict(last.detail)["reason"])


def test_the_worker_is_given_the_newest_finished_run_and_the_log_says_which(offices: Offices) -> None:
    with running(offices):
        request = train(offices, runs=2)
        assert offices.start(request)["run"] == 2
        offices.wait(request, "DONE")
        newest = folder(offices, request, 2) / ARTIFACTS_FILE
        newest.write_bytes(b"a newer model")
        later = use(offices, digest(request))
        assert offices.start(later)["ok"]
        offices.wait(later, "DONE")
        assert load_spec(folder(offices, later)).model == str(newest)
        started = [
            e for e in AuditLog(offices.bank.audit_path, "bank").entries() if e.event == AuditEvent.STARTED
        ]
        assert dict(started[-1].detail)["model"] == digest(request)
        assert dict(started[-1].detail)["model_run"] == 2
        assert load_spec(folder(offices, request)).model == ""


def test_a_model_is_found_again_after_a_restart(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
    with running(offices):
        later = use(offices, digest(request))
        assert offices.start(later)["ok"]
        offices.wait(later, "DONE")


@pytest.mark.parametrize("model", ["ab" * 32, "not a digest"])
def test_an_unknown_model_is_refused(offices: Offices, model: str) -> None:
    with running(offices):
        assert "is not known here" in refused(offices, use(offices, model))


def test_a_use_that_names_no_training_is_refused_when_it_is_submitted_and_at_its_start(
    offices: Offices,
) -> None:
    def fits(computation: str, trained: ComputationRequest) -> None:
        if trained.purpose != "a training":
            raise RequestError(f"{digest(trained)[:12]} trains no model")

    supervisor = offices.supervisor("quick", model_wanted=wanted, model_fits=fits)
    with only_one(offices.bank):
        supervisor.start()
        try:
            offices.ask("add_user", name="ana", email=EMAIL)
            early = offices.request(nonce="2" * 32, purpose="no training")
            before = use(offices, digest(early))  # what it names isn't here yet
            other = train(offices, nonce="2" * 32, purpose="no training")
            late = offices.request(nonce="3" * 32, parameters=(("trained", digest(other)),))
            answer = offices.ask("ingest", signed=offices.signed(late), caller=CALLER, email=EMAIL)
            assert answer["error"] == "request"
            last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1]
            assert (last.event, last.result) == (AuditEvent.SUBMITTED, "refused")
            assert "trains no model" in str(dict(last.detail)["reason"])
            assert digest(early) == digest(other)
            assert offices.start(before)["error"] == "request"
            use(offices, digest(train(offices, nonce="4" * 32, purpose="a training")))
        finally:
            supervisor.stop()


def test_a_training_that_has_not_finished_is_refused(offices: Offices) -> None:
    with running(offices):
        request = offices.approved()
        assert "no run of its request has finished here, it is APPROVED" in refused(
            offices, use(offices, digest(request))
        )


def test_a_model_whose_files_are_gone_is_refused(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
        (folder(offices, request) / ARTIFACTS_FILE).unlink()
        assert "the files of its run are gone" in refused(offices, use(offices, digest(request)))


def test_a_withdrawn_model_is_refused_for_good(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
        revocation = offices.decision(offices.bank, request, Decision.REVOKE, reason="no longer")
        assert offices.ask("decide", decision=revocation)["ok"]
        later = use(offices, digest(request))
        assert "was withdrawn" in refused(offices, later)
    with running(offices):
        assert "was withdrawn" in refused(offices, later)


def test_a_model_that_the_peer_withdrew_is_refused(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
        (folder(offices, request) / "withdrawn.json").write_text(json.dumps({"mark": "withdrawn by shop"}))
        assert "was withdrawn" in refused(offices, use(offices, digest(request)))


def test_a_model_of_other_roles_is_refused(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
        bank, shop = offices.request().parties
        parties = (replace(bank, role="passive"), replace(shop, role="active"))
        (block,) = offices.request().blocks
        swapped = use(offices, digest(request), parties=parties, blocks=(replace(block, role="passive"),))
        assert "between other parties or in other roles" in refused(offices, swapped)


def test_a_revocation_stops_what_uses_the_model(offices: Offices) -> None:
    with running(offices):
        request = train(offices)
    with running(offices, "steps"):
        later = use(offices, digest(request))
        assert offices.start(later)["ok"]
        revocation = offices.decision(offices.bank, request, Decision.REVOKE, reason="no longer")
        assert offices.ask("decide", decision=revocation)["ok"]
        assert offices.wait(later, "REVOKED")["reason"] == "revoked"
        checkpoints = folder(offices, later) / "checkpoints"  # deleted right after the ledger says REVOKED
        assert not until(checkpoints.exists, lambda there: not there)


def test_a_revocation_stops_also_a_run_whose_paper_cannot_be_read(offices: Offices) -> None:
    """Such a run may use the model; and the damage must not keep the revocation from the rest of its work."""
    with running(offices):
        request = train(offices)
    left = folder(offices, request) / "checkpoints"
    with running(offices, "steps"):
        later = use(offices, digest(request))
        assert offices.start(later)["ok"]
        left.mkdir(exist_ok=True)
        (offices.bank.folder / "requests" / f"{digest(later)}.json").write_text("damaged")
        revocation = offices.decision(offices.bank, request, Decision.REVOKE, reason="no longer")
        assert offices.ask("decide", decision=revocation)["ok"]
        assert not left.exists()
        ledger = Ledger(offices.bank.ledger_path)
        until(lambda: ledger.find(digest(later)).state, lambda state: state is RunState.REVOKED)


def test_after_an_erasure_a_model_is_used_on_the_new_version_until_its_training_is_revoked(
    offices: Offices,
) -> None:
    """Models aren't unlearnt: whether this one may be used still is a person's decision, and takes hold at once."""
    version = [1]
    with running(offices, current_block=lambda name: (version[0], COMMITMENT)):
        request = train(offices)
        old = use(offices, digest(request))
        version[0] = 2  # somebody was taken out of the block
        assert offices.start(old)["error"] == "block"
        (entry,) = old.blocks
        parameters, blocks = (("trained", digest(request)),), (replace(entry, version=2),)
        new = offices.approved(nonce="2" * 32, parameters=parameters, blocks=blocks, runs=2)
        assert offices.start(new)["ok"]
        offices.wait(new, "DONE")
        revoked = offices.decision(
            offices.bank, request, Decision.REVOKE, reason="an erased person was in it"
        )
        assert offices.ask("decide", decision=revoked)["state"] == "REVOKED"
        assert offices.start(new)["error"] == "model"


def test_the_ledger_knows_finished_runs_only(offices: Offices) -> None:
    with running(offices):
        request = train(offices, runs=2)
    with running(offices, "vanish"):
        offices.start(request)
        offices.wait(request, "INTERRUPTED")
        assert Ledger(offices.bank.ledger_path).done_runs(digest(request)) == (1,)
        assert Ledger(offices.bank.ledger_path).done_runs("f" * 64) == ()


def test_what_several_trained_one_of_them_may_use_alone_where_the_computation_says_so(
    offices: Offices,
) -> None:
    """The party must be one of the training's, with the key that it had then."""
    with running(offices, model_used_alone=lambda request: request.purpose == "alone"):
        trained = train(offices)
        bank, *others = trained.parties
        assert others
        mine = replace(bank, role="client")
        blocks = tuple(replace(block, role="client") for block in trained.blocks if block.role == bank.role)
        single = {"parties": (mine,), "blocks": blocks, "manifest": ()}
        later = use(offices, digest(trained), purpose="alone", **single)
        assert offices.shim(later, "start", to_text(()))["ok"]
        offices.wait(later, "DONE")
        shared = offices.approved(
            nonce="5" * 32, parameters=(("trained", digest(trained)),), purpose="together", **single
        )
        assert offices.shim(shared, "start", to_text(()))["error"] == "model"
        last = list(AuditLog(offices.bank.audit_path, "bank").entries())[-1]
        assert "was trained between other parties" in str(dict(last.detail)["reason"])
