"""What an owner does outside a run stands in the audit log."""

from pathlib import Path

import pytest

from parties.blocks.block import BlockSpec
from parties.home.cards import card_fingerprint, card_text
from parties.home.people import find_person, read_people
from parties.home.state import State, init_party
from parties.roles.owner import add_block, add_peer, add_person
from protocols.audit import AuditEvent, read
from protocols.errors import AuditError, ConfigError, RosterError


def test_who_may_approve_is_in_the_log(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    added = add_person(bank, name="rev1", role="reviewer", organisation="", passphrase=None)
    assert added == find_person(bank.folder, "rev1")
    (entry,) = read(bank.audit_path)
    assert (entry.event, entry.object) == (AuditEvent.CONFIG_CHANGED, "person rev1")
    assert dict(entry.detail) == {"role": "reviewer", "organisation": "Bank", "key": added.key}


def test_a_person_who_is_refused_leaves_no_entry(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    with pytest.raises(ConfigError, match="already one of our people"):
        add_person(bank, name="owner", role="reviewer", organisation="", passphrase=None)
    assert not bank.audit_path.exists()


def without_log(state: State) -> None:
    """No entry can be written: a folder stands in the log's place."""
    state.audit_path.unlink(missing_ok=True)
    state.audit_path.mkdir()


def test_without_its_entry_nobody_may_approve_and_no_peer_is_known(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    shop = init_party(tmp_path / "shop", name="shop", organisation="Shop", port=1)
    without_log(bank)
    with pytest.raises(AuditError):
        add_person(bank, name="rev1", role="reviewer", organisation="", passphrase=None)
    assert [person.name for person in read_people(bank.folder)] == ["owner"]
    assert not (bank.folder / "keys" / "people" / "rev1.pem").exists()
    with pytest.raises(AuditError):
        add_peer(bank, shop.folder / "card.json", card_fingerprint(shop.card()))
    assert bank.address_book().cards() == ()


def test_a_peer_is_in_the_log_once_and_a_refused_card_is_not(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    shop = init_party(tmp_path / "shop", name="shop", organisation="Shop", port=1)
    with pytest.raises(RosterError, match="fingerprint"):
        add_peer(bank, shop.folder / "card.json", card_fingerprint(bank.card()))
    assert not bank.audit_path.exists()
    added = add_peer(bank, shop.folder / "card.json", card_fingerprint(shop.card()))
    assert card_text(added) == card_text(shop.card())
    (entry,) = read(bank.audit_path)
    assert (entry.event, entry.object) == (AuditEvent.PEER_ADDED, "party shop")


def test_a_replaced_block_is_in_the_log_as_one(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    for replace, income in ((False, 10), (True, 20)):
        rows = [f"p{number},{income + number % 7}" for number in range(40)]
        (tmp_path / "people.csv").write_text("\n".join(["person,income", *rows, ""]), encoding="utf-8")
        spec = BlockSpec(name="customers", subject_key="person")
        add_block(bank, tmp_path / "people.csv", spec, replace=replace)
    first, second = read(bank.audit_path)
    assert (first.event, dict(first.detail)["version"]) == (AuditEvent.BLOCK_REGISTERED, 1)
    assert (second.event, dict(second.detail)["version"]) == (AuditEvent.BLOCK_REPLACED, 2)
    assert first.object == second.object == "block customers"


def test_rare_classes_are_counted_for_the_owner(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank", port=1)
    file = tmp_path / "bank.csv"
    rows = [f"p{i:02d},{i},{'yes' if i < 10 else 'no' if i < 14 else 'maybe'}" for i in range(16)]
    file.write_text("\n".join(["person,age,churned", *rows]))
    spec = BlockSpec(name="people", subject_key="person", label="churned")
    warning = "classes with fewer than 10 people: 2; the name of every class is published"
    assert warning in add_block(bank, file, spec, dry_run=True)
    assert warning in add_block(bank, file, spec)
    spec = BlockSpec(name="ages", subject_key="person", ignore=("churned",))
    assert "fewer than" not in add_block(bank, file, spec)
