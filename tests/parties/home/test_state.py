"""The state folder, cards and the address book."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from parties.home.cards import PartyCard, card_fingerprint, card_text, parse_address, parse_card
from parties.home.logins import KnownDatasite, add_datasite, known_datasites
from parties.home.people import create_person, find_person, read_people
from parties.home.private_files import write_json, write_private
from parties.home.state import init_analyst, init_party, open_state
from protocols import keys
from protocols.errors import ConfigError, KeyFileError, RosterError, StateError
from tests.parties.control.offices import make_offices


def party(folder: Path, name: str = "bank", **more: str) -> PartyCard:
    return init_party(folder / name, name=name, organisation=f"Example {name}", **more).card()  # type: ignore[arg-type]


def test_all_of_a_party_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", passphrase=b"secret")
    wrong = [
        path.name
        for path in (state.folder, *state.folder.rglob("*"))
        if path.stat().st_mode & 0o777 != (0o700 if path.is_dir() else 0o600)
    ]
    assert wrong == []
    secrets = state.secrets()
    assert set(secrets) == {"SERVER_PRIVATE_KEY", "DEFAULT_ROOT_PASSWORD"}
    assert len(bytes.fromhex(secrets["SERVER_PRIVATE_KEY"])) == 32


def test_a_card_shows_no_secret_and_matches_the_keys(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", address="127.0.0.1:7400-7409")
    card = state.card()
    assert card.signing_key == keys.public_hex(state.signing_key())
    assert card.link_certificate == (state.folder / "keys" / "link.crt").read_text()
    assert "PRIVATE" not in card_text(card)
    assert parse_card(card_text(card)) == card


def test_an_analyst_has_the_same_make(tmp_path: Path) -> None:
    state = init_analyst(tmp_path / "ana", name="ana", organisation="Lab", passphrase=b"secret")
    assert (state.kind, state.card().kind, state.card().address) == ("analyst", "analyst", "")
    with pytest.raises(KeyFileError):
        state.signing_key()
    assert keys.public_hex(state.signing_key(b"secret")) == state.card().signing_key
    site = KnownDatasite(party="bank", url="http://127.0.0.1:8081", email="ana@lab.example", password="pw")
    add_datasite(state, site)
    assert known_datasites(open_state(state.folder)) == {"bank": site}


@pytest.mark.parametrize("lost", ["url", "email", "password"])
@pytest.mark.parametrize("value", [None, 7])
def test_a_damaged_login_is_named_without_its_password(tmp_path: Path, lost: str, value: object) -> None:
    state = init_analyst(tmp_path / "ana", name="ana", organisation="Lab")
    login = {"url": "http://127.0.0.1:8081", "email": "ana@lab.example", "password": "secret-word"}
    login |= {} if value is None else {lost: value}  # type: ignore[dict-item]
    if value is None:
        del login[lost]
    write_json(state.folder / "datasites.json", {"bank": login})
    with pytest.raises(StateError, match=f"bank has no text for {lost}") as raised:
        known_datasites(state)
    assert "secret-word" not in str(raised.value)


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.json"
    write_private(path, "old")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, lambda *arguments: (_ for _ in ()).throw(OSError(28, "No space left")))
            with pytest.raises(OSError, match="No space"):
                write_private(path, "new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name",
    [
        ".", "party.toml", "secrets.json", "keys", "keys/signing.pem", "ledger.db", "audit.jsonl", "users.json",
        "datasites.json",
    ],
)  # fmt: skip
def test_a_folder_or_file_that_others_can_read_is_refused(tmp_path: Path, name: str) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank")
    for made_later in ("ledger.db", "audit.jsonl", "users.json", "datasites.json"):
        (state.folder / made_later).touch(0o600)
    path = state.folder / name
    path.chmod(path.stat().st_mode | 0o040)
    with pytest.raises(StateError, match="others could read it"):
        open_state(state.folder)


def test_an_existing_state_is_never_overwritten(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank")
    before = state.card()
    with pytest.raises(StateError, match="not empty"):
        init_party(tmp_path / "bank", name="bank", organisation="Bank")
    assert open_state(state.folder).card() == before


def test_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="does not exist") as caught:
        open_state(tmp_path / "nowhere")
    assert "init" in caught.value.remedy


@pytest.mark.parametrize("name", ["Bank", "b", "bank/..", "-bank", "bank-", "b" * 64, "bänk", "bank\n"])
def test_a_name_must_be_usable_as_file_and_host(tmp_path: Path, name: str) -> None:
    with pytest.raises(RosterError, match="not usable"):
        init_party(tmp_path / "x", name=name, organisation="Bank")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.0.1:7400", ":1-2", "h:2-1", "h:0-5", "h:1-70000", "h:1-2000"]
)
def test_an_address_is_a_host_and_a_short_port_range(address: str) -> None:
    with pytest.raises(RosterError):
        parse_address(address)


def test_the_system_temp_folder_is_warned_about_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank")
    assert open_state(state.folder).warnings == ()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (warning,) = open_state(state.folder).warnings
    assert str(state.folder) in warning
    assert open_state(state.folder, test_mode=True).warnings == ()


def test_the_mode_of_a_state_folder_is_mended_by_its_whole_path(tmp_path: Path) -> None:
    folder = init_party(tmp_path / "the bank", name="bank", organisation="Bank").folder
    folder.chmod(0o755)
    with pytest.raises(StateError, match="mode 0755") as caught:
        open_state(folder)
    assert caught.value.remedy.startswith(f"chmod 0700 '{folder}' ")


def test_a_damaged_party_toml_is_named(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank")
    path = state.folder / "party.toml"
    text = path.read_text()
    path.write_text(text.replace('name = "bank"', 'name = "shop"'))
    with pytest.raises(StateError, match="differ"):
        open_state(state.folder)
    path.write_text(text + "= nonsense")
    with pytest.raises(StateError, match=r"party\.toml"):
        open_state(state.folder)


def test_a_peer_enters_only_with_the_right_fingerprint(tmp_path: Path) -> None:
    bank = init_party(tmp_path / "bank", name="bank", organisation="Bank")
    shop = party(tmp_path, "shop")
    fake = replace(shop, signing_key=keys.public_hex(keys.generate_key()))
    book = bank.address_book()
    with pytest.raises(RosterError, match="fingerprint"):
        book.add_peer(card_text(fake), card_fingerprint(shop))
    assert book.cards() == ()
    assert book.add_peer(card_text(shop), card_fingerprint(shop).upper().replace("-", " ")) == shop
    assert open_state(bank.folder).address_book().find("shop", "party") == shop
    with pytest.raises(RosterError, match="another card"):
        book.add_peer(card_text(fake), card_fingerprint(fake))
    same_key = replace(shop, name="shop-two")
    with pytest.raises(RosterError, match="key of shop"):
        book.add_peer(card_text(same_key), card_fingerprint(same_key))
    with pytest.raises(RosterError, match="own name"):
        book.add_peer(card_text(bank.card()), card_fingerprint(bank.card()))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"name": 3}', "[" * 3000, "x" * 20_000, '{"kind":"party"}'], ids=range(7)
)
def test_a_malformed_card_is_refused(text: str) -> None:
    with pytest.raises(RosterError):
        parse_card(text)


def test_the_roster_must_be_as_in_the_address_book(tmp_path: Path) -> None:
    offices = make_offices(tmp_path)
    book = offices.bank.address_book()
    request = offices.request()
    assert book.check_roster(request).role == "active"
    bank, shop = request.parties
    stranger = party(tmp_path, "thief")
    changes = {
        "signing_key of shop": (bank, replace(shop, signing_key=stranger.signing_key)),
        "link_certificate of shop": (bank, replace(shop, link_certificate=stranger.link_certificate)),
        "address of bank": (replace(bank, address="10.0.0.1:1-2"), shop),
        "'thief' is not in the address book": (bank, replace(shop, name="thief")),
        "bank 0 times": (replace(bank, name="thief"), shop),
    }
    for expected, parties in changes.items():
        with pytest.raises(RosterError, match=expected):
            book.check_roster(offices.request(parties=parties))
    for field, value in {
        "name": "shop",
        "organisation": "Elsewhere",
        "key": keys.public_hex(keys.generate_key()),
    }.items():
        with pytest.raises(RosterError):
            book.check_roster(offices.request(analyst=replace(request.analyst, **{field: value})))


def test_people_have_keys_of_their_own(tmp_path: Path) -> None:
    state = init_party(tmp_path / "bank", name="bank", organisation="Bank", owner="olga", passphrase=b"pw")
    added = create_person(
        state.folder, name="rev1", role="reviewer", organisation="Board", passphrase=b"other"
    )
    assert [person.name for person in read_people(state.folder)] == ["olga", "rev1"]
    path = state.folder / "keys" / "people" / "rev1.pem"
    assert (
        keys.public_hex(keys.load_key(path, b"other")) == added.key == find_person(state.folder, "rev1").key
    )
    with pytest.raises(KeyFileError):
        keys.load_key(path, None)
    with pytest.raises(ConfigError, match="already"):
        create_person(state.folder, name="rev1", role="owner", organisation="Board", passphrase=None)
    with pytest.raises(ConfigError, match="role"):
        create_person(state.folder, name="rev2", role="boss", organisation="Board", passphrase=None)
    with pytest.raises(ConfigError, match="nobody"):
        find_person(state.folder, "nobody")
