"""Refusals as errors, and waiting for what the steward does."""

from pathlib import Path

import pytest

from parties.control.asking import EXPLANATIONS, Refusal, accepted, ask, explained, task_end
from parties.control.endings import VANISHED
from parties.control.tasks import ABOUT, KINDS, TaskQueue
from protocols import errors
from protocols.errors import FedaccordError, RequestError, StateError
from tests.parties.control.offices import Offices, copied, make_offices


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Offices:
    return make_offices(tmp_path_factory.mktemp("offices"))


@pytest.fixture
def offices(template: Offices, tmp_path: Path) -> Offices:
    return copied(template, tmp_path)


def test_an_answer_passes_and_a_refusal_raises_with_what_was_said() -> None:
    assert accepted({"ok": True, "x": 1}, "bank")["x"] == 1
    answer = {"ok": False, "error": "expired", "message": "it expired", "remedy": "ask again"}
    with pytest.raises(Refusal, match="bank: it expired") as caught:
        accepted(answer, "bank")
    assert (caught.value.reason, caught.value.remedy, caught.value.answer) == ("expired", "ask again", answer)


@pytest.mark.parametrize("answer", [{}, {"ok": False}, {"ok": "true"}, {"ok": 1}])
def test_only_true_is_an_acceptance(answer: dict[str, object]) -> None:
    with pytest.raises(Refusal, match="bank: an internal error"):
        accepted(answer, "bank")


@pytest.mark.parametrize(
    ("code", "answer", "text"),
    [
        (
            "state",
            {"state": "DONE"},
            "the request is DONE there, which doesn't allow that (see `fedaccord request status`)",
        ),
        ("state", {}, EXPLANATIONS["state"]),
        ("not_approved", {"reason": "no"}, "the request isn't approved there: no"),
        ("unheard", {}, "refused (unheard)"),
    ],
)
def test_what_a_code_means(code: str, answer: dict[str, object], text: str) -> None:
    assert explained(code, answer) == text


def test_every_explained_code_exists() -> None:
    known = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, FedaccordError)
    }
    assert set(EXPLANATIONS) - known == {"action", "internal", VANISHED}


def test_no_supervisor_is_named_with_the_remedy(offices: Offices) -> None:
    with pytest.raises(StateError, match="no supervisor runs") as caught:
        ask(offices.bank.folder, "requests")
    assert "fedaccord serve" in caught.value.remedy


@pytest.mark.parametrize(("ok", "end"), [(True, ("done", "")), (False, ("failed", "no such user"))])
def test_the_end_of_a_task_is_waited_for(
    offices: Offices, monkeypatch: pytest.MonkeyPatch, ok: bool, end: tuple[str, str]
) -> None:
    supervisor = offices.supervisor()
    supervisor.start()
    try:
        offices.ask("add_user", name="ana", email="ana@lab.example.org")
        assert task_end(offices.bank.folder, "add_user", "ana@lab.example.org", 0) == ("queued", "")
        assert task_end(offices.bank.folder, "add_user", "bob@lab.example.org", 0) == ("", "")

        def steward(seconds: float) -> None:
            task = offices.ask("next_task", timeout=1)["task"]
            assert isinstance(task, dict)
            offices.ask("task_done", id=task["id"], ok=ok, problems=end[1])

        assert task_end(offices.bank.folder, "add_user", "ana@lab.example.org", 30, sleep=steward) == end
        with pytest.raises(Refusal, match="one of"):
            ask(offices.bank.folder, "task_state", kind="magic", about="x")
    finally:
        supervisor.stop()


def test_the_newest_task_of_a_kind_counts(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "ledger.db")
    first = queue.put("publish", {"block": "customers"})
    queue.done(first, False, "syft hiccuped")
    assert queue.standing("publish", "customers") == ("failed", "syft hiccuped")
    queue.put("publish", {"block": "customers"})
    assert queue.standing("publish", "customers") == ("queued", "")
    assert queue.standing("publish", "others") == ("", "")
    with pytest.raises(RequestError):
        queue.standing("magic", "x")


def test_every_kind_of_task_is_about_something() -> None:
    assert set(ABOUT) == set(KINDS)
