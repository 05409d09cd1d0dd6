"""What the commands share: folders, passphrases, examples in the help, and output for people or for programs."""

import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protocols.errors import KeyFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from parties.home.state import State

PASSPHRASE_VARIABLE = "FEDACCORD_PASSPHRASE"
Tell = Callable[[str], None]
"""Takes one line about what is going on."""

StateOption = Annotated[
    Path,
    typer.Option("--state", "-s", envvar="FEDACCORD_STATE", help="The state folder.", show_default=False),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document to standard output, all else to standard error."),
]
DigestArgument = Annotated[str, typer.Argument(help="The request's digest, or its first characters.")]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help=f"File with the key's passphrase; else ${PASSPHRASE_VARIABLE}; else it is asked for on a terminal.",
    ),
]
PurposeOption = Annotated[str, typer.Option(help="What for, in a word or two.")]
PurposeTextOption = Annotated[str, typer.Option(help="What for, at more length.")]
DaysOption = Annotated[int, typer.Option(min=1, help="Until the request expires.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the request and rehearse it on mock people; submit nothing.")
]
SkipRehearsalOption = Annotated[bool, typer.Option("--skip-rehearsal", help="Submit without the rehearsal.")]


def example(command: str) -> str:
    """The end of a command's help: how it is typed."""
    return f"\b\nExample:\n  {command}"


def party(folder: Path) -> "State":
    """The party's state in the folder; StateError when it is missing or an analyst's."""
    return _opened(folder, "party")


def analyst(folder: Path) -> "State":
    """The analyst's state in the folder; StateError when it is missing or a party's."""
    return _opened(folder, "analyst")


def anybody(folder: Path) -> "State":
    """The state in the folder; StateError when it is missing."""
    return _opened(folder, "")


def _opened(folder: Path, kind: str) -> "State":
    from parties.home.state import open_state, require_kind

    state = open_state(folder)
    return require_kind(state, kind) if kind else state


def passphrase(file: Path | None, key: Path) -> bytes | None:
    """The passphrase of a key file: from the file, the environment or the terminal; None when the key has none.

    Raises KeyFileError when the key needs one and there is none of the three, or the key can't be read.
    """
    from protocols.keys import needs_passphrase

    if not needs_passphrase(key):
        return None
    given = _given(file)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise KeyFileError(
            f"{key} needs its passphrase", remedy=f"--passphrase-file FILE, or set {PASSPHRASE_VARIABLE}"
        )
    return _asked(f"passphrase of {key.name}: ")


def signing_key(here: "State", file: Path | None) -> "Ed25519PrivateKey":
    """The analyst's own key, opened with its passphrase. Raises like `passphrase`."""
    return here.signing_key(passphrase(file, here.folder / "keys" / "signing.pem"))


def new_passphrase(file: Path | None, ask: bool) -> bytes | None:
    """The passphrase of a key that is about to be made: from the file, asked for twice, or from the environment."""
    if file is not None or not ask:
        return _given(file)
    first = _asked("new passphrase: ")
    if _asked("once more: ") != first:
        raise KeyFileError("the two passphrases differ", remedy="try again; nothing was made")
    return first


def _asked(prompt: str) -> bytes:
    try:
        text = getpass.getpass(prompt)
    except EOFError:
        text = ""
    if not text:
        raise KeyFileError("no passphrase was typed")
    return text.encode()


def _given(file: Path | None) -> bytes | None:
    if file is None:
        return os.environ.get(PASSPHRASE_VARIABLE, "").encode() or None
    try:
        content = file.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise KeyFileError(f"passphrase file {file}: {error.strerror}") from error
    if not content:
        raise KeyFileError(f"passphrase file {file} is empty")
    return content


def show(document: Mapping[str, object], as_json: bool, text: str) -> None:
    """Prints the document as JSON, or the text that says the same to a person."""
    typer.echo(json.dumps(document, indent=2, sort_keys=True, allow_nan=False) if as_json else text)


def teller(as_json: bool) -> Tell:
    """Where progress goes: standard output, or standard error when that is kept for a JSON document."""

    def tell(line: str) -> None:
        typer.echo(line, err=as_json)

    return tell
