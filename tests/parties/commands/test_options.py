"""Where a passphrase comes from: a file, the environment, the terminal; and what happens when it comes from none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from parties.commands import options
from protocols import keys
from protocols.errors import KeyFileError
from tests.parties.commands.town import bad, fedaccord, good, init


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A key under the passphrase "open"."""
    keys.save_key(tmp_path / "locked.pem", keys.generate_key(), b"open")
    return tmp_path / "locked.pem"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A terminal at which these answers are typed; gives back the questions."""

    def make(*answers: str) -> list[str]:
        asked: list[str] = []
        left = list(answers)

        def getpass(prompt: str) -> str:
            asked.append(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr("getpass.getpass", getpass)
        monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
        return asked

    return make


def _file(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "passphrase").write_bytes(content)
    return tmp_path / "passphrase"


@pytest.mark.parametrize("content", [b"open", b"open\n", b"open\r\n"])
def test_from_a_file(tmp_path: Path, locked: Path, content: bytes) -> None:
    assert options.passphrase(_file(tmp_path, content), locked) == b"open"


def test_from_the_environment_after_the_file(
    tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDACCORD_PASSPHRASE", "other")
    assert options.passphrase(None, locked) == b"other"
    assert options.passphrase(_file(tmp_path, b"open"), locked) == b"open"


def test_asked_for_on_a_terminal_naming_the_key(locked: Path, terminal: Callable[..., list[str]]) -> None:
    asked = terminal("open")
    assert options.passphrase(None, locked) == b"open"
    assert asked == ["passphrase of locked.pem: "]


@pytest.mark.parametrize("answers", [(), ("",)], ids=["end of file", "nothing typed"])
def test_nothing_typed_is_no_passphrase(
    locked: Path, terminal: Callable[..., list[str]], answers: tuple[str, ...]
) -> None:
    terminal(*answers)
    with pytest.raises(KeyFileError, match="no passphrase was typed"):
        options.passphrase(None, locked)


def test_a_key_without_one_is_not_asked_about(
    tmp_path: Path, terminal: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.save_key(tmp_path / "plain.pem", keys.generate_key(), None)
    asked = terminal("x")
    monkeypatch.setenv("FEDACCORD_PASSPHRASE", "for another key")
    assert options.passphrase(None, tmp_path / "plain.pem") is None
    assert asked == []


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: folder / "missing", "No such file"),
        (lambda folder: folder, "Is a directory"),
        (lambda folder: _file(folder, b"\n"), "is empty"),
    ],
)
def test_a_file_that_is_none_is_named(
    tmp_path: Path, locked: Path, make: Callable[[Path], Path], told: str
) -> None:
    with pytest.raises(KeyFileError, match=told):
        options.passphrase(make(tmp_path), locked)


def test_a_new_passphrase_is_asked_for_twice(terminal: Callable[..., list[str]]) -> None:
    assert len(terminal("open", "open")) == 0
    assert options.new_passphrase(None, ask=True) == b"open"
    terminal("open", "opne")
    with pytest.raises(KeyFileError, match="differ"):
        options.new_passphrase(None, ask=True)
    assert options.new_passphrase(None, ask=False) is None


def test_without_any_of_them_the_command_says_how_to_give_it(
    tmp_path: Path, terminal: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _file(tmp_path, b"open")
    ana = init(tmp_path, "ana", "--analyst", "--passphrase-file", given)
    monkeypatch.setattr("sys.stdin", type("Pipe", (), {"isatty": lambda self: False})())
    said = bad("request", "submit", tmp_path / "plan.toml", "-s", ana)
    assert "signing.pem needs its passphrase" in said
    assert "--passphrase-file FILE, or set FEDACCORD_PASSPHRASE" in said
    wrong = bad(
        "request", "submit", tmp_path / "plan.toml", "-s", ana, "--passphrase-file", _file(tmp_path, b"no")
    )
    assert "not under this passphrase" in wrong
    right = bad(
        "request", "submit", tmp_path / "plan.toml", "-s", ana, "--passphrase-file", _file(tmp_path, b"open")
    )
    assert "plan.toml: No such file" in right


def test_a_person_gets_a_key_of_their_own_under_a_passphrase(tmp_path: Path) -> None:
    bank = init(tmp_path, "bank")
    good("person", "add", "rev1", "--passphrase-file", _file(tmp_path, b"open"), "-s", bank)
    assert keys.needs_passphrase(bank / "keys" / "people" / "rev1.pem")
    people = good("person", "list", "--json", "-s", bank).document["people"]
    assert isinstance(people, list)
    assert [(each["name"], each["role"]) for each in people] == [("owner", "owner"), ("rev1", "reviewer")]
    assert "already one of our people" in bad("person", "add", "rev1", "-s", bank)
    assert fedaccord("person", "add", "x2", "--role", "king", "-s", bank).status == 2
