"""Submission, start, cancel and result at two scripted datasites."""

import json
import os
from pathlib import Path

import pytest

from parties.control.asking import Refusal
from parties.home.documents import Documents
from parties.home.logins import known_datasites
from parties.home.state import State, init_analyst
from parties.roles import analyst
from parties.roles.sites import Unreachable
from protocols.errors import DatasiteError, NotApprovedError, RequestError, StateError
from protocols.request import digest, sign_request
from tests.parties.roles.samples import KEYS, ScriptedSite, approval, sample_request, sites, state

REQUEST = sample_request()


@pytest.fixture(scope="module")
def ana(tmp_path_factory: pytest.TempPathFactory) -> State:
    """An analyst's folder."""
    return init_analyst(tmp_path_factory.mktemp("analyst") / "ana", name="ana", organisation="Lab")


def _both(**starts: dict[str, object]) -> dict[str, ScriptedSite]:
    """Both approved; `starts` are the answers to `start`, DONE where none is given."""
    made = sites(bank={}, shop={})
    for name, site in made.items():
        site.answers = {
            "status": state("APPROVED", approval=approval(REQUEST, name)),
            "start": starts.get(name, state("RUNNING")),
            "cancel": state("CANCELLED"),
        }
    return made


def test_a_submission_goes_to_all_and_is_kept(ana: State) -> None:
    both = sites(bank={}, shop={})
    signed = sign_request(REQUEST, KEYS["ana"])
    made = analyst.submit(ana, signed, both)
    assert made == digest(REQUEST)
    assert [site.asked[0][0] for site in both.values()] == ["submit", "submit"]
    assert Documents(ana.folder).request(made).request == REQUEST
    assert analyst.find(ana, made[:6]) == signed


def test_a_submission_that_one_does_not_get_names_it(ana: State) -> None:
    both = sites(bank={}, shop={})
    both["shop"].down = True
    with pytest.raises(DatasiteError, match="shop: the datasite can't be reached"):
        analyst.submit(ana, sign_request(REQUEST, KEYS["ana"]), both)
    with pytest.raises(RequestError, match="no login for the datasite of shop"):
        analyst.submit(ana, sign_request(REQUEST, KEYS["ana"]), {"bank": both["bank"]})


def test_a_start_carries_all_approvals_and_begins_with_the_one_who_listens() -> None:
    both = _both()
    order: list[str] = []
    for name, site in both.items():
        site.answers["start"] = lambda name=name: order.append(name) or state("RUNNING")  # type: ignore[misc]
    analyst.start(REQUEST, both)
    assert order == ["shop", "bank"]
    for site in both.values():
        (carried,) = [argument for action, argument in site.asked if action == "start"]
        assert {each["party"] for each in json.loads(carried)} == {"bank", "shop"}


def test_when_one_refuses_the_other_is_cancelled() -> None:
    both = _both(bank={"ok": False, "error": "runs_used", "used": 1, "allowed": 1})
    with pytest.raises(Refusal, match="bank: used 1 of 1") as caught:
        analyst.start(REQUEST, both)
    assert caught.value.reason == "runs_used"
    assert [action for action, _ in both["shop"].asked] == ["status", "start", "cancel"]


def test_when_one_is_lost_at_the_start_the_first_reason_is_told() -> None:
    both = _both()

    def lost() -> dict[str, object]:
        both["shop"].down = both["bank"].down = True
        raise DatasiteError("the datasite can't be reached")

    both["bank"].answers["start"] = lost
    with pytest.raises(DatasiteError, match="bank: the datasite can't be reached"):
        analyst.start(REQUEST, both)
    assert both["shop"].asked[-1][0] == "cancel"


def test_nothing_starts_without_every_approval() -> None:
    both = _both()
    both["shop"].answers["status"] = {"ok": False, "error": "not_approved", "standing": "pending"}
    with pytest.raises(NotApprovedError, match="shop"):
        analyst.start(REQUEST, both)
    assert all("start" not in dict(site.asked) for site in both.values())


def test_a_cancellation_reaches_whom_it_can() -> None:
    both = _both()
    both["bank"].down = True
    assert analyst.cancel(REQUEST, both) == {"bank": "the datasite can't be reached", "shop": "CANCELLED"}
    both["shop"].answers["cancel"] = {"ok": False, "error": "state", "state": "DONE"}
    with pytest.raises(StateError, match=r"nothing was cancelled: shop: the request is DONE there.*; bank: "):
        analyst.cancel(REQUEST, both)


def test_results_are_given_by_party_and_only_when_all_are_done() -> None:
    both = _both()
    for name, site in both.items():
        site.answers["result"] = {"ok": True, "result": {"of": name}}
    assert analyst.results(REQUEST, both) == {"bank": {"of": "bank"}, "shop": {"of": "shop"}}
    both["shop"].answers["result"] = {"ok": False, "error": "state", "state": "FAILED"}
    with pytest.raises(Refusal, match="shop: the request is FAILED there"):
        analyst.results(REQUEST, both)


GOOD_LOGIN = {"party": "bank", "url": "http://127.0.0.1:1", "email": "a@b", "password": "sentinel"}


def test_a_login_is_remembered_in_a_private_file(ana: State, tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text(json.dumps(GOOD_LOGIN))
    assert analyst.add_login(ana, tmp_path / "login.json").party == "bank"
    assert known_datasites(ana)["bank"].password == "sentinel"
    assert os.stat(ana.folder / "datasites.json").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b'{"password": "sentinel"',
        b'["sentinel"]',
        json.dumps(GOOD_LOGIN | {"email": 5}).encode(),
        json.dumps({"password": "sentinel"}).encode(),
        json.dumps(GOOD_LOGIN | {"party": "../x"}).encode(),
    ],
)
def test_a_login_that_is_none_is_refused_without_showing_it(
    ana: State, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "login.json").write_bytes(content)
    with pytest.raises(Exception, match=r"login|name") as caught:
        analyst.add_login(ana, tmp_path / "login.json")
    assert "sentinel" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_missing_login_file_is_named(ana: State, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file"):
        analyst.add_login(ana, tmp_path / "nowhere.json")


def test_an_unknown_datasite_is_named_with_the_remedy(tmp_path: Path) -> None:
    fresh = init_analyst(tmp_path / "ana", name="ana", organisation="Lab")
    with pytest.raises(RequestError, match="no datasite is known yet") as caught:
        analyst.connect_all(fresh)
    assert "fedaccord datasite add" in caught.value.remedy
    with pytest.raises(RequestError, match="no login for the datasite of shop"):
        analyst.connect_all(fresh, ("shop",))


def test_what_is_unreachable_says_so_whatever_is_asked() -> None:
    site = Unreachable("bank", DatasiteError("the datasite can't be reached", remedy="ask its owner"))
    for ask in (
        site.datasets,
        lambda: site.submit(""),
        lambda: site.decision(""),
        lambda: site.call("", "status"),
    ):
        with pytest.raises(DatasiteError, match="can't be reached") as caught:
            ask()
        assert caught.value.remedy == "ask its owner"
    assert site.name == "bank"


def test_offers_name_the_party_that_is_down() -> None:
    both = sites(bank={}, shop={})
    both["shop"].down = True
    with pytest.raises(DatasiteError, match="shop: "):
        analyst.read_offers({"shop": both["shop"]})
    with pytest.raises(RequestError, match="bank publishes no block"):
        analyst.read_offers({"bank": both["bank"]})
