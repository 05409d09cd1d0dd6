"""How the command line ends: one line, a remedy, a status; never a traceback, and no text that may be private."""

from pathlib import Path

import pytest

from protocols.errors import AuditError, FedaccordError
from tests.parties.commands.town import fedaccord, good, init

PRIVATE = "PERSON-0001 earns 12"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A party's folder."""
    return init(tmp_path_factory.mktemp("cli"), "bank")


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("parties.roles.auditing.verify_log", broken)


def test_one_of_our_errors_is_told_with_its_remedy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, AuditError("entry 7 was altered", remedy="restore it from a backup"))
    said = fedaccord("audit", "verify", "-s", state)
    assert (said.status, said.out) == (1, "")
    assert said.err == "error: entry 7 was altered\n       restore it from a backup\n"


def test_no_remedy_is_no_empty_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, FedaccordError("it broke"))
    assert fedaccord("audit", "verify", "-s", state).err == "error: it broke\n"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(PRIVATE),
        TypeError(PRIVATE),
        KeyError(PRIVATE),
        RecursionError(PRIVATE),
        AssertionError(PRIVATE),
    ],
)
def test_of_an_error_that_is_not_ours_only_the_kind_is_told(
    state: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _raise(monkeypatch, error)
    said = fedaccord("audit", "verify", "-s", state)
    assert (said.status, said.out) == (1, "")
    assert f"internal error ({type(error).__name__})" in said.err
    assert "FEDACCORD_TRACEBACK=1" in said.err


def test_a_traceback_comes_only_when_asked_for(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, ValueError("not private"))
    monkeypatch.setenv("FEDACCORD_TRACEBACK", "1")
    with pytest.raises(
        AssertionError, match="a traceback was shown"
    ):  # else `fedaccord` refuses one for all tests
        fedaccord("audit", "verify", "-s", state)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "/data/x.csv"), "/data/x.csv: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ModuleNotFoundError("No module named 'syft'", name="syft"), "the package syft isn't installed"),
    ],
    ids=["rights", "disk", "package"],
)
def test_what_the_machine_lacks_is_named(
    state: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    _raise(monkeypatch, error)
    said = fedaccord("audit", "verify", "-s", state)
    assert said.status == 1
    assert said.err.startswith(f"error: {told}")


def test_ctrl_c_is_told_apart(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, KeyboardInterrupt())
    assert fedaccord("audit", "verify", "-s", state).status == 130


def test_the_state_folder_may_come_from_the_environment(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDACCORD_STATE", str(state))
    assert "bank" in good("peer", "list").out
