"""What the commands share: the state folder option, passphrases, and output for people or programs."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from protocols.errors import KeyFileError

if TYPE_CHECKING:
    from parties.home.state import State

PASSPHRASE_VARIABLE = "FEDACCORD_PASSPHRASE"

StateOption = Annotated[
    Path,
    typer.Option("--state", "-s", envvar="FEDACCORD_STATE", help="The state folder.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", help=f"File with the key's passphrase (else ${PASSPHRASE_VARIABLE}, else none)."
    ),
]


def opened(folder: Path) -> "State":
    """The state in the folder, its warnings shown."""
    from parties.home.state import open_state

    state = open_state(folder)
    for warning in state.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return state


def passphrase(file: Path | None) -> bytes | None:
    """The passphrase from the file or the environment; None when neither is given."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise KeyFileError(f"passphrase file {file}: {error.strerror}") from error
        if not text:
            raise KeyFileError(f"passphrase file {file} is empty")
        return text.encode()
    text = os.environ.get(PASSPHRASE_VARIABLE, "")
    return text.encode() if text else None


def show(document: Mapping[str, object], as_json: bool, text: str) -> None:
    """Prints the document as JSON, or the text that says the same to a person."""
    typer.echo(json.dumps(document, indent=2, sort_keys=True) if as_json else text)
