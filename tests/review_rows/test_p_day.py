"""A scripted day at the bank, by commands: exactly the expected entries, each complete, with no key or cell in them."""

import hashlib
from pathlib import Path
from unittest.mock import patch

import pytest

from parties.control.asking import ask
from parties.home.state import open_state
from parties.roles.auditing import verify_log
from protocols.audit import AuditLog, Entry, Result, verify
from protocols.errors import AuditError
from tests.parties.commands.town import EMAIL, SECRETS, Town, bad, good, running_town


def spend(town: Town, folder: Path) -> str:
    """The day; the digest of its request."""
    bank, ana = town.bank, town.ana
    ask(bank, "login", email=EMAIL, success=True)
    ask(bank, "login", email="stranger@example.org", success=False)
    digest = town.submit()
    good("review", "show", digest, "-s", bank)
    good("review", "deny", digest, "--reason", "not yet", "-s", bank)
    bad("review", "approve", digest, "--as", "nobody", "--reason", "fine", "-s", bank)
    for state in (bank, town.shop):
        good("review", "approve", digest, "--reason", "fine", "-s", state)
    good("request", "start", digest, "--watch", "-s", ana)
    good("request", "result", digest, "-s", ana)
    assert "used 1 of 1" in bad("request", "start", digest, "-s", ana)
    good("person", "add", "rev", "-s", bank)
    policy = bank / "policy.toml"
    policy.write_text(policy.read_text().replace("reviewers = 0", "reviewers = 1", 1))
    good("review", "show", town.submit(), "-s", bank)
    good("review", "revoke", digest, "--reason", "enough", "-s", bank)
    columns = ("--key", "person", "--split", "split", "--label", "churned")
    good("block", "add", folder / "bank.csv", "--name", "customers", *columns, "--replace", "-s", bank)
    keys = folder / "keys.txt"
    keys.write_text("PERSON-C07\n")
    good("block", "erase", "customers", "--key-file", keys, "-s", bank)
    good("person", "remove", "rev", "-s", bank)
    good("user", "reset", "ana", "--out", folder / "new-login.json", "-s", bank)
    good("user", "remove", "ana", "-s", bank)
    good("peer", "remove", "ana", "-s", bank)
    good("audit", "show", "-s", bank)
    bad("audit", "prune", "--before", "2999-01-01", "-s", bank)
    days = ("--from", "2020-01-01", "--to", "2099-12-31")
    good("audit", "export", *days, "--out", folder / "export", "-s", bank)
    return digest


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[Entry]]:
    """The bank's folder, the request's digest, and the log of the day."""
    folder = tmp_path_factory.mktemp("day")
    with patch("parties.home.state._warnings", lambda folder: ()), running_town(folder, "quick") as town:
        digest = spend(town, folder)
    return town.bank, digest, list(AuditLog(town.bank / "audit.jsonl", "bank").entries())


REQUEST, NEXT = "request of the day", "next request"
EXPECTED = [
    ("peer_added", "ok", "owner", "party shop"),
    ("block_registered", "ok", "owner", "block customers"),
    ("server_started", "ok", "supervisor", "datasite bank"),
    ("peer_added", "ok", "owner", "analyst ana"),
    ("user_added", "ok", "owner", "analyst ana"),
    ("login", "ok", "ana", "datasite bank"),
    ("login", "refused", "unknown account", "datasite bank"),
    ("submitted", "ok", "ana", REQUEST),
    ("viewed", "ok", "owner", REQUEST),
    ("denied", "ok", "owner", REQUEST),
    ("approved", "ok", "owner", REQUEST),
    ("countersigned", "ok", "supervisor", REQUEST),
    ("started", "ok", "ana", REQUEST),
    ("psi_started", "ok", "ana", REQUEST),
    ("result_released", "ok", "ana", REQUEST),
    ("start_refused", "refused", "ana", REQUEST),
    ("config_changed", "ok", "owner", "person rev"),
    ("config_changed", "ok", "owner", "policy"),
    ("submitted", "ok", "ana", NEXT),
    ("viewed", "ok", "owner", NEXT),
    ("revoked", "ok", "owner", REQUEST),
    ("block_replaced", "ok", "owner", "block customers"),
    ("people_erased", "ok", "owner", "block customers"),
    ("person_removed", "ok", "owner", "person rev"),
    ("user_changed", "ok", "owner", "analyst ana"),
    ("user_removed", "ok", "owner", "analyst ana"),
    ("peer_removed", "ok", "owner", "analyst ana"),
    ("log_read", "ok", "owner", "audit log"),
    ("log_pruned", "refused", "owner", "audit log"),
    ("log_exported", "ok", "owner", "audit log"),
    ("server_stopped", "ok", "supervisor", "datasite bank"),
]
"""What the run's worker writes (handshake, heads, messages, the end) is in tests/parties/running: here it is played."""


def test_P2_a_scripted_day_gives_exactly_the_expected_entries(day: tuple[Path, str, list[Entry]]) -> None:
    _, digest, entries = day
    names = {f"request {digest}": REQUEST}
    found = [
        (
            e.event.value,
            e.result.value,
            e.who,
            names.get(e.object, NEXT if e.object.startswith("request ") else e.object),
        )
        for e in entries
    ]
    assert found == EXPECTED


def test_P1_every_entry_says_who_what_when_from_where_and_how_it_ended(
    day: tuple[Path, str, list[Entry]],
) -> None:
    roles = {"owner": "owner", "supervisor": "program", "ana": "analyst", "unknown account": "analyst"}
    for entry in day[2]:
        assert entry.role == roles[entry.who], entry
        assert entry.time.endswith("Z"), entry
        assert entry.origin in ("command line", "socket", "syft", "serve", "policy.toml"), entry
        assert all((entry.organisation, entry.object, entry.party == "bank")), entry


def test_P3_refused_attempts_are_logged_with_their_reason(day: tuple[Path, str, list[Entry]]) -> None:
    refused = {e.event.value: str(dict(e.detail)["reason"]) for e in day[2] if e.result is Result.REFUSED}
    assert refused["start_refused"] == "used 1 of 1"
    assert refused["login"] == "wrong password or no such account"
    assert "kept for 12 months" in refused["log_pruned"]


def test_P4_one_changed_entry_of_the_day_is_found(day: tuple[Path, str, list[Entry]], tmp_path: Path) -> None:
    folder, _, entries = day
    state = open_state(folder, test_mode=True)
    assert verify_log(state, ())[0]["entries"] == len(entries)
    lines = state.audit_path.read_bytes().splitlines(keepends=True)
    lines[9] = lines[9].replace(b"not yet", b"not now")
    copy = tmp_path / "audit.jsonl"
    copy.write_bytes(b"".join(lines))
    with pytest.raises(AuditError, match="entry 10 was altered"):
        verify(copy)


def test_P5_no_key_and_no_cell_is_in_the_log(day: tuple[Path, str, list[Entry]]) -> None:
    folder, _, _ = day
    log = (folder / "audit.jsonl").read_text()
    keys = [f"PERSON-{kind}{n:02d}" for kind in "CBS" for n in range(40)]
    for secret in (*SECRETS, *keys, *(hashlib.sha256(key.encode()).hexdigest() for key in keys)):
        assert secret not in log


def test_P6_an_owner_s_acts_are_logged_like_anybody_s(day: tuple[Path, str, list[Entry]]) -> None:
    owned = [entry for entry in day[2] if entry.who == "owner"]
    assert len(owned) == sum(1 for row in EXPECTED if row[2] == "owner")
    assert {"approved", "people_erased", "log_read"} <= {entry.event.value for entry in owned}


def test_P7_each_party_has_its_own_log_and_the_shared_parts_agree(day: tuple[Path, str, list[Entry]]) -> None:
    folder, digest, entries = day
    shop = list(AuditLog(folder.parent / "shop" / "audit.jsonl", "shop").entries())
    assert {entry.party for entry in shop} == {"shop"}

    def shared(log: list[Entry]) -> list[tuple[str, object]]:
        wanted = ("submitted", "countersigned", "started")
        return [
            (e.event.value, dict(e.detail).get("run"))
            for e in log
            if e.object == f"request {digest}" and e.event.value in wanted
        ]

    assert shared(entries) == shared(shop) != []
