"""The owner's commands outside a run: what they make, and what they say of what can't be made."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parties.blocks.columns import ColumnKind
from parties.blocks.store import Store
from parties.home.state import open_state
from protocols.audit import AuditEvent, read
from tests.parties.commands.town import EMAIL, bad, fingerprint, good, init

NONE = "0000-" * 15 + "0000"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders bank, shop and ana, and the bank's file."""
    folder = tmp_path_factory.mktemp("owner")
    init(folder, "bank", "--link", "127.0.0.1:7400-7403")
    init(folder, "shop")
    init(folder, "ana", "--analyst")
    rows = [f"PERSON-{n:02d};{n},5;{'sentinel' if n == 7 else n % 3};999;x{n}" for n in range(40)]
    (folder / "odd.csv").write_text("\n".join(["who;height;town;rank;note", *rows]), encoding="utf-16")
    return folder


def test_init_says_what_to_hand_over(tmp_path: Path) -> None:
    said = good("init", tmp_path / "x", "--name", "bank", "--organisation", "Example Bank").out
    assert "card.json" in said
    assert fingerprint(tmp_path / "x") in said
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--name", "B a n k"), "is not usable"),
        (("--name", "bank", "--link", "7400"), "is not host:first-last"),
        (("--name", "bank", "--port", "70000"), "port 70000"),
        (("--name", "bank", "--owner", "../x"), "is not usable"),
        (("--name", "ana", "--analyst", "--port", "8081"), "--link and --port are a party's"),
        (("--name", "ana", "--analyst", "--link", "127.0.0.1:1-2"), "--link and --port are a party's"),
    ],
)
def test_init_refuses_what_it_cannot_use(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    assert told in bad("init", tmp_path / "x", "--organisation", "Example", *words)


def test_only_init_warns_of_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parties.home.state._warnings", lambda folder: (f"{folder} may vanish",))
    folder = tmp_path / "x"
    said = good("init", folder, "--name", "bank", "--organisation", "Example Bank")
    assert said.err == f"warning: {folder} may vanish\n"
    assert good("peer", "list", "-s", folder).err == ""


def test_init_never_overwrites(folders: Path) -> None:
    assert "is not empty" in bad("init", folders / "bank", "--name", "bank", "--organisation", "Example Bank")


@pytest.mark.parametrize(
    "words",
    [
        ("block", "show"),
        ("serve",),
        ("review", "list"),
        ("audit", "verify"),
        ("person", "list"),
        ("user", "add", "card.json", "--fingerprint", "x", "--email", "a@b", "--out", "x"),
    ],
    ids=" ".join,
)
def test_an_analysts_folder_is_not_taken_for_a_partys(folders: Path, words: tuple[str, ...]) -> None:
    assert "is the folder of an analyst" in bad(*words, "-s", folders / "ana")


@pytest.mark.parametrize("words", [("datasite", "show"), ("request", "status", "ab")], ids=" ".join)
def test_a_partys_folder_is_not_taken_for_an_analysts(folders: Path, words: tuple[str, ...]) -> None:
    assert "is the folder of a party" in bad(*words, "-s", folders / "bank")


@pytest.mark.parametrize("kind", ["missing", "empty", "a file", "open to others", "without a kind"])
def test_a_folder_that_is_no_state_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "x"
    if kind == "a file":
        folder.write_text("x")
        folder.chmod(0o600)
    elif kind == "without a kind":
        init(tmp_path, "bank")
        folder = tmp_path / "bank"
        text = (folder / "party.toml").read_text().replace('"party"', '"shop"')
        (folder / "party.toml").write_text(text)
    elif kind != "missing":
        folder.mkdir(mode=0o755 if kind == "open to others" else 0o700)
    before = sorted(tmp_path.rglob("*"))
    said = bad("peer", "list", "-s", folder)
    assert str(folder) in said
    assert "chmod" not in said
    if kind in ("empty", "open to others"):
        assert f"{folder} is no state folder: it has no party.toml" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_peers_are_added_by_fingerprint_only(folders: Path) -> None:
    card = folders / "shop" / "card.json"
    said = bad("peer", "add", card, "--fingerprint", NONE, "-s", folders / "bank")
    assert "another fingerprint than the one you gave" in said
    for short in (NONE[:-1], fingerprint(folders / "shop").replace("-", "")[:16], "x"):
        said = bad("peer", "add", card, "--fingerprint", short, "-s", folders / "bank")
        assert "is no fingerprint: it has 64 hexadecimal digits" in said
    good("peer", "add", card, "--fingerprint", fingerprint(folders / "shop"), "-s", folders / "bank")
    listed = good("peer", "list", "-s", folders / "bank").out
    assert [line.split()[1] for line in listed.splitlines()] == ["bank", "shop"]
    assert [e.event for e in read(folders / "bank" / "audit.jsonl")][-1] is AuditEvent.PEER_ADDED


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: folder / "missing", "No such file"),
        (lambda folder: folder, "Is a directory"),
        (lambda folder: _written(folder, b"\xff\xfe\x00"), "not JSON"),
        (lambda folder: _written(folder, b"{}"), "has exactly the fields"),
        (lambda folder: _written(folder, b"[" * 10_000), "not JSON"),
        (lambda folder: _written(folder, b"x" * 20_000), "at most"),
    ],
    ids=["missing", "folder", "bytes", "empty", "deep", "long"],
)
def test_a_card_that_is_none_is_refused(
    folders: Path, tmp_path: Path, make: Callable[[Path], Path], told: str
) -> None:
    assert told in bad("peer", "add", make(tmp_path), "--fingerprint", NONE, "-s", folders / "bank")


def _written(folder: Path, content: bytes) -> Path:
    (folder / "file").write_bytes(content)
    return folder / "file"


def test_all_that_a_block_can_be_told_about_its_file(folders: Path) -> None:
    odd = ("--name", "odd", "--key", "who", "--delimiter", ";", "--encoding", "utf-16", "--decimal", ",")
    more = (
        "--ignore",
        "note",
        "--categorical",
        "town",
        "--numeric",
        "rank",
        "--missing",
        "999",
        "--missing",
        "Sentinel",
    )
    said = good("block", "add", folders / "odd.csv", *odd, *more, "-s", folders / "bank").out
    assert "40 of 40 rows have a usable key" in said
    schema = Store(open_state(folders / "bank").blocks).describe("odd")
    assert {column.name: column.kind for column in schema.columns} == {
        "height": ColumnKind.NUMERIC,
        "town": ColumnKind.CATEGORICAL,
        "rank": ColumnKind.NUMERIC,
    }
    assert next(column for column in schema.columns if column.name == "town").levels == ("0", "1", "2")
    shown = good("block", "show", "odd", "-s", folders / "bank").out
    assert "MOCK rows (nobody's)" in shown
    assert "odd" in good("block", "show", "-s", folders / "bank").out
    assert json.loads(good("block", "show", "odd", "--json", "-s", folders / "bank").out)["block"] == "odd"


def test_a_block_with_dates(folders: Path, tmp_path: Path) -> None:
    file = tmp_path / "since.csv"
    file.write_text(
        "who,since\n" + "".join(f"PERSON-{i},{1 + i % 9}/{1 + i % 9}/20{i + 10}\n" for i in range(40))
    )
    add = ("block", "add", file, "--name", "since", "--key", "who", "--date", "since")
    good(*add, "--date-order", "month-first", "-s", folders / "bank")
    (column,) = Store(open_state(folders / "bank").blocks).describe("since").columns
    assert column.kind is ColumnKind.DATE
    shown = good("block", "show", "since", "-s", folders / "bank").out
    assert "date" in shown
    assert "25%: 20" in shown


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("who,a\nPERSON-1,1\nPERSON-2\n", (), "line 3"),
        ("who,a\nPERSON-1,1\nPERSON-1,2\n", (), "'who'"),
        ("who,a\nPERSON-1,sentinel\nPERSON-2,1\n", ("--numeric", "a"), "'a'"),
        ("who,a\nPERSON-1,1\n", ("--key", "nobody"), "'nobody'"),
        ("who,a\nPERSON-1,1\n", ("--label", "b"), "'b'"),
        ("who,a\nPERSON-1,1\n", ("--numeric", "a", "--categorical", "a"), "as numeric and as categorical"),
        ("who,a\nPERSON-1,1\n", ("--numeric", "a", "--date", "a"), "as numeric and as date"),
        ("who,a\nPERSON-1,3/4/2020\n", (), "can't be told apart"),
        ("who,a\nPERSON-1,sentinel\n", ("--date", "a"), "1 of 1 cells are not dates"),
        ("who,a\nPERSON-1,1\n", ("--key-rule", "magic"), "unknown key rule"),
        ("who,a\nPERSON-1,1\n", ("--delimiter", "::"), "delimiter"),
        ("who,a\nPERSON-1,1\n", ("--encoding", "klingon"), "unknown text encoding"),
        ("who,a\nPERSON-1,1\n", ("--name", "No Name"), "block name"),
        ("who,a\nPERSON-1,1\n", ("--mock", "nowhere.csv"), "nowhere.csv"),
        ("", (), "is empty"),
    ],
    ids=lambda value: " ".join(value)[:24] if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["add", "dry run"])
def test_a_bad_file_is_refused_without_showing_a_cell_and_nothing_is_stored(
    folders: Path, tmp_path: Path, text: str, words: tuple[str, ...], told: str, dry: tuple[str, ...]
) -> None:
    file = tmp_path / "f.csv"
    file.write_text(text)
    given = dict(zip(("--name", "--key"), ("bad", "who"), strict=True)) | dict(
        zip(words[::2], words[1::2], strict=True)
    )
    if dry and "--mock" in given:
        pytest.skip("a dry run makes no mock")
    said = bad(
        "block",
        "add",
        file,
        *(x for pair in given.items() for x in pair),
        *words,
        *dry,
        "-s",
        folders / "bank",
    )
    assert told in said
    assert "bad" not in good("block", "show", "-s", folders / "bank").out


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_a_file_that_cannot_be_read_is_named(folders: Path, tmp_path: Path, name: str) -> None:
    said = bad("block", "add", tmp_path / name, "--name", "x", "--key", "who", "-s", folders / "bank")
    assert (tmp_path / name).name in said


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_named(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("who,a\n")
    (tmp_path / "f.csv").chmod(0)
    said = bad("block", "add", tmp_path / "f.csv", "--name", "x", "--key", "who", "-s", folders / "bank")
    assert "Permission denied" in said


def test_many_keys_that_do_not_fit_the_rule_refuse_the_file(folders: Path, tmp_path: Path) -> None:
    rows = ["who,town,a", *(f"PERSON-{n},{'town ' + 'x' * 20}{n % 9},{n}" for n in range(3))]
    rows += [f"{n},{'town ' + 'x' * 20}{n % 6}," for n in range(37)]
    (tmp_path / "f.csv").write_text("\n".join(rows) + "\n")
    words = ("block", "add", tmp_path / "f.csv", "--name", "many", "--key", "who", "--key-rule", "digits:7")
    said = bad(*words, "-s", folders / "bank")
    assert "3 of 40 keys that don't fit the rule digits:7@1" in said
    assert "--allow-unusable" in said
    assert "many" not in good("block", "show", "-s", folders / "bank").out
    assert "3 unusable" in good(*words, "--allow-unusable", "--categorical", "a", "-s", folders / "bank").out


PEOPLE = "surname|born|zip|a\n" + "".join(
    f"{'Ö' if n % 9 else 'o'}zil {n % 38}|{1 + n % 28}.3.19{50 + n % 38}|{n % 38:05d}|{n}\n"
    for n in range(40)
)


def test_a_key_of_several_columns_is_checked_and_added(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(PEOPLE)
    key = ("--key", "surname,born,zip", "--key-rule", "name+date:DD.MM.YYYY+code")
    said = good("block", "check", tmp_path / "f.csv", *key).out
    assert "f.csv: utf-8 text separated by '|'" in said
    assert "40 different keys in 40 rows" in said
    told = json.loads(good("block", "check", tmp_path / "f.csv", *key, "--json").out)
    assert told["key_columns"] == ["surname", "born", "zip"]
    assert {each["column"]: each["merged"] for each in told["without"]} == {"surname": 0, "born": 2, "zip": 0}
    assert "zil" not in said + json.dumps(told)
    added = good("block", "add", tmp_path / "f.csv", "--name", "people", *key, "-s", folders / "bank").out
    assert "40 of 40 rows have a usable key" in added
    shown = good("block", "show", "people", "-s", folders / "bank").out
    assert "subject key surname,born,zip (rule composite@1(name@1+date:DD.MM.YYYY@1+code@1))" in shown
    assert "digits, fixed width 5, with leading zeros" in shown


def test_texts_for_no_key_can_be_added_and_taken_out(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("who,a\nNa,1\n 999 ,2\nPERSON-3,3\n-,4\n")
    words = (tmp_path / "f.csv", "--key", "who", "--key-missing", "999", "--key-present", "NA")
    assert "2 different keys in 4 rows" in good("block", "check", *words).out
    good("block", "add", *words, "--name", "tokens", "-s", folders / "bank")
    shown = good("block", "show", "tokens", "-s", folders / "bank").out
    assert (
        "no key      #n/a, -, 999, <na>, ?, n/a, nan, nat, none, null, unknown; rows that share a key: error"
        in shown
    )


def test_levels_are_shown_whole_and_blank_cells_as_missing(folders: Path, tmp_path: Path) -> None:
    towns = [f"town {'x' * 20}{n}" for n in range(6)]
    rows = ["who,town,a", *(f"PERSON-{n},{towns[n % 6]}," for n in range(120))]
    (tmp_path / "f.csv").write_text("\n".join(rows) + "\n")
    words = ("block", "add", tmp_path / "f.csv", "--name", "wide", "--key", "who", "--categorical", "a")
    good(*words, "-s", folders / "bank")
    said = good("block", "show", "wide", "-s", folders / "bank").out
    assert f"{towns[0]}, {towns[1]}, {towns[2]}, ...\n" in said
    assert "(missing)" in said


def test_a_dry_run_stores_nothing(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("who,a\nPERSON-1,1\nPERSON-2,2\n,3\n")
    words = (
        "block",
        "add",
        tmp_path / "f.csv",
        "--name",
        "dry",
        "--key",
        "who",
        "--dry-run",
        "-s",
        folders / "bank",
    )
    assert good(*words).out == (
        "dry run, nothing stored: 2 of 3 rows have a usable key, 1 blank\nread as     utf-8 text separated by ','\n"
    )
    assert "dry" not in good("block", "show", "-s", folders / "bank").out


def _user(folders: Path, out: Path, card: str = "ana", **changes: str) -> tuple[object, ...]:
    given = {"fingerprint": fingerprint(folders / card), "email": EMAIL} | changes
    options = ("--fingerprint", given["fingerprint"], "--email", given["email"], "--out", out)
    return ("user", "add", folders / card / "card.json", *options, "-s", folders / "bank")


def test_an_account_needs_a_supervisor(folders: Path, tmp_path: Path) -> None:
    said = bad(*_user(folders, tmp_path / "login.json"))
    assert "no supervisor runs" in said
    assert f"fedaccord serve --state {folders / 'bank'}" in said
    assert not (tmp_path / "login.json").exists()
    assert not (folders / "bank" / "peers" / "ana.json").exists()


def test_a_login_never_overwrites_a_file(folders: Path, tmp_path: Path) -> None:
    (tmp_path / "login.json").write_text("mine")
    assert "exists already" in bad(*_user(folders, tmp_path / "login.json"))
    assert (tmp_path / "login.json").read_text() == "mine"
    assert not (folders / "bank" / "peers" / "ana.json").exists()


def test_an_account_is_for_an_analyst(folders: Path, tmp_path: Path) -> None:
    assert "is the card of a party" in bad(*_user(folders, tmp_path / "login.json", "shop"))


def test_a_login_that_could_not_be_written_opens_no_account(folders: Path, tmp_path: Path) -> None:
    said = bad(*_user(folders, tmp_path / "nowhere" / "login.json"))
    assert "can't be written" in said
    assert "can't be written" in bad(*_user(folders, tmp_path))


@pytest.mark.parametrize(
    "action",
    [("review", "list"), ("review", "show", "ab"), ("review", "approve", "ab", "--reason", "x")],
    ids=" ".join,
)
def test_a_review_needs_a_supervisor(folders: Path, action: tuple[str, ...]) -> None:
    assert "no supervisor runs" in bad(*action, "-s", folders / "bank")
