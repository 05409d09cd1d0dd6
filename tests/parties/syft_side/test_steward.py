"""The steward's decisions, over a desk and a supervisor in memory."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from parties.shim import function_name
from parties.syft_side.publication import Publication
from parties.syft_side.steward import CHANGED, CodeRequest, Examination, Steward
from protocols.errors import DatasiteError, StateError
from tests.waiting import PATIENCE

ANA, BOB = "aa" * 32, "bb" * 32
DIGEST, OTHER = "1d" * 32, "2d" * 32


@dataclass
class MemoryDesk:
    """A desk whose requests and findings a test sets; `log` has what was done."""

    found: dict[str, tuple[CodeRequest, Examination]] = field(default_factory=dict)
    log: list[tuple[str, ...]] = field(default_factory=list)
    change_on_approval: dict[str, Examination] = field(default_factory=dict)
    broken: bool = False
    examined: list[str] = field(default_factory=list)

    def add(self, uid: str, digest: str, caller: str = ANA, problems: tuple[str, ...] = ()) -> None:
        request = CodeRequest(uid=uid, caller=caller, email="ana@lab.example.org", pending=True)
        signed = "" if problems else f"signed {digest}"
        code = "def leak(rows):\n    return rows.to_dict()\n" if problems else ""
        examination = Examination(
            name=function_name(digest), signed=signed, digest=digest, problems=problems, code=code
        )
        self.found[uid] = (request, examination)

    def requests(self) -> tuple[CodeRequest, ...]:
        if self.broken:
            raise DatasiteError("no connection")
        return tuple(request for request, _ in self.found.values())

    def examine(self, uid: str) -> Examination:
        self.examined.append(uid)
        return self.found[uid][1]

    def approve(self, uid: str) -> None:
        self.log.append(("approve", uid))
        request, examination = self.found[uid]
        self.found[uid] = (replace(request, pending=False), self.change_on_approval.get(uid, examination))

    def deny(self, uid: str, reason: str) -> None:
        self.log.append(("deny", uid, reason))

    def publish(self, publication: Publication) -> None:
        self.log.append(("publish", str(publication)))

    def add_user(self, email: str, name: str, password: str) -> None:
        if not password:
            raise ValueError("a text that nobody may read")
        self.log.append(("add_user", email, name, password))

    def reset_user(self, email: str, password: str) -> None:
        self.log.append(("reset_user", email, password))

    def remove_user(self, email: str) -> None:
        self.log.append(("remove_user", email))


@dataclass
class MemorySupervisor:
    """Hands out `tasks` and keeps what it is told; refuses ingests with `refusal`."""

    tasks: list[dict[str, object]] = field(default_factory=list)
    told: list[dict[str, object]] = field(default_factory=list)
    refusal: str = ""

    def __call__(self, question: Mapping[str, object]) -> dict[str, object]:
        if question["action"] == "next_task":
            return {"ok": True, "task": self.tasks.pop(0) if self.tasks else None}
        self.told.append(dict(question))
        if self.refusal and question["action"] != "task_done":
            return {"ok": False, "error": self.refusal, "message": "a rule", "remedy": "ask otherwise"}
        return {"ok": True}


@pytest.fixture
def desk() -> MemoryDesk:
    return MemoryDesk()


@pytest.fixture
def supervisor() -> MemorySupervisor:
    return MemorySupervisor()


@pytest.fixture
def steward(desk: MemoryDesk, supervisor: MemorySupervisor) -> Steward:
    return Steward(desk, supervisor, lambda block: block, news=threading.Event())  # type: ignore[arg-type, return-value]


def test_a_shim_is_ingested_once(desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward) -> None:
    desk.add("r1", DIGEST)
    steward.look()
    steward.look()
    assert supervisor.told == [
        {"action": "ingest", "signed": f"signed {DIGEST}", "caller": ANA, "email": "ana@lab.example.org"}
    ]
    assert desk.log == []


def test_an_approval_examines_no_request_that_is_known_to_be_another(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", OTHER)
    desk.add("r2", DIGEST)
    steward.look()
    desk.add("r3", DIGEST, problems=("came after the look",))
    desk.examined.clear()
    supervisor.tasks.append({"id": 1, "kind": "approve", "digest": DIGEST, "caller": ANA})
    steward.work(0.0)
    assert desk.examined == ["r2", "r3", "r2"]  # before and after; what wasn't seen yet is looked at too
    assert desk.log == [("approve", "r2")]


def test_foreign_code_is_reported_once_and_touched_by_nobody(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST, problems=("text differs", "limit differs"))
    steward.look()
    steward.look()
    (told,) = supervisor.told
    assert (told["action"], told["name"]) == ("ingest_foreign", function_name(DIGEST))
    assert told["reasons"] == ["text differs", "limit differs"]
    assert told["code"].startswith("def leak")
    assert told["warnings"][0].startswith("line 2: rows: to_dict")
    assert desk.log == []


def test_decided_requests_are_left_alone(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST)
    request, examination = desk.found["r1"]
    desk.found["r1"] = (replace(request, pending=False), examination)
    steward.look()
    assert supervisor.told == []


@pytest.mark.parametrize(
    ("refusal", "log"),
    [
        ("roster", [("deny", "r1", "roster")]),
        ("policy", [("deny", "r1", "refused by policy: a rule; ask otherwise")]),
        ("internal", []),
    ],
)
def test_a_refused_shim_is_denied_with_the_code_alone(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward, refusal: str, log: list[tuple[str, ...]]
) -> None:
    desk.add("r1", DIGEST)
    supervisor.refusal = refusal
    steward.look()
    steward.look()
    assert desk.log == log
    assert len(supervisor.told) == 1


def _done(supervisor: MemorySupervisor, steward: Steward, **task: str) -> dict[str, object]:
    supervisor.tasks.append({"id": 7, **task})
    assert steward.work(0) is True
    done = supervisor.told[-1]
    assert (done["action"], done["id"]) == ("task_done", 7)
    return {"ok": done["ok"], "problems": done["problems"]}


def test_an_approval_takes_the_right_analyst_s_request(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST, caller=BOB)
    desk.add("r2", OTHER)
    desk.add("r3", DIGEST)
    assert _done(supervisor, steward, kind="approve", digest=DIGEST, caller=ANA) == {
        "ok": True,
        "problems": "",
    }
    assert desk.log == [("approve", "r3")]


def test_without_the_caller_two_equal_requests_are_one_too_many(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST, caller=BOB)
    desk.add("r2", DIGEST)
    assert _done(supervisor, steward, kind="approve", digest=DIGEST)["ok"] is False
    assert desk.log == []


def test_a_request_that_isn_t_the_shim_is_not_approved(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST, problems=("approves the status of other code",))
    done = _done(supervisor, steward, kind="approve", digest=DIGEST, caller=ANA)
    assert done == {"ok": False, "problems": "approves the status of other code"}
    assert desk.log == []


@pytest.mark.parametrize("what", ["problems", "signed"])
def test_a_request_that_changes_while_it_is_approved_is_denied(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward, what: str
) -> None:
    desk.add("r1", DIGEST)
    changed = {"problems": ("text differs",)} if what == "problems" else {"signed": "another"}
    desk.change_on_approval["r1"] = replace(desk.found["r1"][1], **changed)  # type: ignore[arg-type]
    done = _done(supervisor, steward, kind="approve", digest=DIGEST, caller=ANA)
    assert done["ok"] is False
    assert CHANGED in str(done["problems"])
    assert desk.log == [("approve", "r1"), ("deny", "r1", CHANGED)]


def test_a_denial_carries_its_reason(
    desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward
) -> None:
    desk.add("r1", DIGEST)
    done = _done(supervisor, steward, kind="deny", digest=DIGEST, caller=ANA, reason="not now")
    assert done["ok"] is True
    assert desk.log == [("deny", "r1", "not now")]


def test_accounts_and_publications(desk: MemoryDesk, supervisor: MemorySupervisor, steward: Steward) -> None:
    user = {"email": "eve@lab.example.org", "name": "eve", "password": "first"}
    assert _done(supervisor, steward, kind="add_user", **user)["ok"] is True
    assert _done(supervisor, steward, kind="publish", block="customers")["ok"] is True
    again = {"email": user["email"], "password": "second"}
    assert _done(supervisor, steward, kind="reset_user", **again)["ok"] is True
    assert _done(supervisor, steward, kind="remove_user", email=user["email"])["ok"] is True
    assert desk.log == [
        ("add_user", *user.values()),
        ("publish", "customers"),
        ("reset_user", *again.values()),
        ("remove_user", user["email"]),
    ]


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({"kind": "approve", "digest": DIGEST}, "0 requests in syft"),
        ({"kind": "deny", "digest": DIGEST}, "0 requests in syft"),
        ({"kind": "approve"}, "has no digest"),
        ({"kind": "paint"}, "unknown task 'paint'"),
        (
            {"kind": "add_user", "email": "e", "name": "n", "password": ""},
            "ValueError, see the syft server's log",
        ),
    ],
)
def test_a_task_that_fails_says_why(
    supervisor: MemorySupervisor, steward: Steward, task: dict[str, str], problem: str
) -> None:
    done = _done(supervisor, steward, **task)
    assert done["ok"] is False
    assert problem in str(done["problems"])
    assert "nobody may read" not in str(done["problems"])


def test_nothing_to_do_is_nothing_done(supervisor: MemorySupervisor, steward: Steward) -> None:
    assert steward.work(0) is False
    assert supervisor.told == []


def test_it_looks_at_news_for_a_while_and_seldom_without(
    desk: MemoryDesk, supervisor: MemorySupervisor
) -> None:
    news, now = threading.Event(), [0.0]
    steward = Steward(desk, supervisor, lambda block: block, news=news, clock=lambda: now[0])  # type: ignore[arg-type, return-value]

    def looks(at: float) -> bool:
        now[0] = at
        return steward.look_if_due()

    assert [looks(at) for at in (0.0, 0.25, 29.0)] == [True, False, False]
    news.set()
    assert [looks(at) for at in (29.25, 29.5, 32.0, 32.5)] == [True, True, True, False]
    assert [looks(at) for at in (61.0, 62.0, 63.0)] == [False, True, False]


def test_a_look_that_failed_is_made_again(desk: MemoryDesk, supervisor: MemorySupervisor) -> None:
    steward = Steward(desk, supervisor, lambda block: block, news=threading.Event(), clock=lambda: 0.0)  # type: ignore[arg-type, return-value]
    desk.broken = True
    for _ in range(2):
        with pytest.raises(DatasiteError):
            steward.look_if_due()
    desk.broken = False
    assert [steward.look_if_due(), steward.look_if_due()] == [True, False]


def test_neither_side_s_absence_ends_the_steward(desk: MemoryDesk) -> None:
    """syft fails in one round, the supervisor in the next; then both are back."""
    stopping, rounds = threading.Event(), []

    def supervisor(question: Mapping[str, object]) -> dict[str, object]:
        rounds.append(question["action"])
        if len(rounds) == 1:
            raise StateError("no supervisor runs")
        stopping.set()
        return {"ok": True, "task": None}

    desk.broken = True
    steward = Steward(desk, supervisor, lambda block: block, news=threading.Event())  # type: ignore[arg-type, return-value]
    mended = threading.Timer(0.3, lambda: setattr(desk, "broken", False))
    mended.start()
    thread = threading.Thread(target=steward.run, args=(stopping,))
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert rounds == ["next_task", "next_task"]
