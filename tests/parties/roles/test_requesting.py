"""Following a run, waiting for approvals, and what is said of how a request stands."""

import pytest

from parties.roles.requesting import APPROVAL_LOOKS, follow, wait_for_approvals
from parties.roles.standing import PartyStatus, statuses
from parties.roles.standing_words import standing_text, status_line
from tests.parties.roles.samples import sample_request, sites, state

REQUEST = sample_request()
PENDING = {"ok": False, "error": "not_approved", "standing": "pending"}


def _queue(*answers: dict[str, object]) -> object:
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_following_ends_when_no_party_runs_and_pauses_longer_and_longer() -> None:
    running = [state("RUNNING", phase="train", step=n, of=100, loss=0.5) for n in range(20)]
    both = sites(bank={"status": _queue(*running, state("DONE"))}, shop={"status": state("DONE")})  # type: ignore[dict-item]
    pauses: list[float] = []
    told: list[str] = []
    ended = follow(REQUEST, both, told.append, sleep=pauses.append)
    assert [each.state for each in ended] == ["DONE", "DONE"]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, 30.0)
    assert any("train" in line for line in told)


def test_following_gives_back_a_party_that_was_lost() -> None:
    both = sites(bank={"status": state("FAILED", reason="peer_lost")}, shop={})
    both["shop"].down = True
    assert [s.state for s in follow(REQUEST, both, lambda line: None)] == ["FAILED", "UNREACHABLE"]


def test_a_start_waits_for_approvals_on_their_way_and_says_so_once() -> None:
    both = sites(
        bank={"status": _queue(PENDING, PENDING, state("APPROVED"))},  # type: ignore[dict-item]
        shop={"status": state("APPROVED")},
    )
    told: list[str] = []
    pauses: list[float] = []
    wait_for_approvals(REQUEST, both, told.append, sleep=pauses.append)
    assert told == ["waiting for the approval of bank"]
    assert len(pauses) == 2


def test_it_waits_no_longer_than_a_few_looks() -> None:
    both = sites(bank={"status": PENDING}, shop={"status": PENDING})
    pauses: list[float] = []
    wait_for_approvals(REQUEST, both, lambda line: None, sleep=pauses.append)
    assert len(pauses) == APPROVAL_LOOKS


@pytest.mark.parametrize(
    "other",
    [PENDING | {"standing": "denied", "reason": "no"}, state("RUNNING"), {"ok": False, "error": "internal"}],
)
def test_it_does_not_wait_for_what_will_not_come(other: dict[str, object]) -> None:
    both = sites(bank={"status": PENDING}, shop={"status": other})
    wait_for_approvals(REQUEST, both, pytest.fail, sleep=pytest.fail)


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (state("APPROVED"), "bank         APPROVED  used 0 of 1 runs"),
        (
            state("RUNNING", phase="fedcvt", step=20, of=100, loss=0.5, eta=12.3, note="x"),
            "bank         RUNNING  fedcvt  20/100  loss 0.5000  12 s left  x  used 0 of 1 runs",
        ),
        (
            state(
                "FAILED", reason="peer_lost", note="shop went away", phase="fedcvt", step=20, of=100, used=1
            ),
            "bank         FAILED  peer_lost  shop went away  used 1 of 1 runs",
        ),
        (PENDING, "bank         PENDING  missing: the approval of bank's own people"),
        (state("APPROVED", missing=["x", "y"]), "bank         APPROVED  missing: x; y  used 0 of 1 runs"),
    ],
)
def test_one_line_for_each_party(status: dict[str, object], line: str) -> None:
    (first, _) = statuses(REQUEST, sites(bank={"status": status}, shop={"status": status}))
    assert status_line(first) == line


def _text(*states: str) -> str:
    pairs = [(name, *state.partition(" ")[::2]) for name, state in zip(("bank", "shop"), states, strict=True)]
    return standing_text(
        REQUEST,
        tuple(
            PartyStatus(party=name, state=state, reason=reason, answer={}) for name, state, reason in pairs
        ),
    )[1]


@pytest.mark.parametrize(
    ("states", "step"),
    [
        (("APPROVED", "APPROVED"), "request start"),
        (("RUNNING", "RUNNING"), "--watch"),
        (("DONE", "DONE"), "request result"),
        (("DONE", "REVOKED"), "new request"),
        (("DENIED", "PENDING"), "new request"),
        (("INTERRUPTED", "APPROVED"), "goes on from the last checkpoint"),
        (("INTERRUPTED", "FAILED peer_lost"), "goes on from the last checkpoint"),
        (("FAILED peer_timeout", "FAILED peer_stopped:peer_timeout"), "goes on from the last checkpoint"),
        (("FAILED disk_full", "FAILED peer_stopped:disk_full"), "goes on from the last checkpoint"),
        (("UNREACHABLE", "FAILED peer_stopped:interrupted"), "fedaccord request status"),
        (("INTERRUPTED", "FAILED overlap"), "ask with a new request"),
        (("FAILED peer_stopped:gate", "FAILED gate"), "ask with a new request"),
    ],
)
def test_the_next_step_is_told(states: tuple[str, str], step: str) -> None:
    assert step in _text(*states).splitlines()[-1]


@pytest.mark.parametrize(
    "states", [("PENDING", "APPROVED"), ("INTERRUPTED", "RUNNING"), ("DONE", "UNREACHABLE")]
)
def test_no_step_is_told_that_may_be_wrong(states: tuple[str, str]) -> None:
    assert "next:" not in _text(*states)


def test_the_document_repeats_no_approval() -> None:
    document, _ = standing_text(
        REQUEST,
        statuses(REQUEST, sites(bank={"status": state("APPROVED", approval="x")}, shop={"status": PENDING})),
    )
    parties = document["parties"]
    assert isinstance(parties, dict)
    assert parties["bank"] == {"state": "APPROVED", "reason": "", "used": 0, "allowed": 1}
    assert parties["shop"] == {
        "state": "PENDING",
        "reason": "",
        "missing": ["the approval of shop's own people"],
    }
