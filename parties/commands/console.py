"""The command that serves the review console to a browser on this machine."""

from typing import Annotated

import typer

from parties.commands.options import PassphraseOption, StateOption, example, party, passphrase


def register(app: typer.Typer) -> None:
    """Adds this command to the application."""
    app.command(epilog=example("fedaccord console --state bank"))(console)


def console(
    state: StateOption,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    person: Annotated[
        str,
        typer.Option(
            "--as", help="Unlock this person's key here and print a link that logs the person in, once."
        ),
    ] = "",
    passphrase_file: PassphraseOption = None,
) -> None:
    """Review in a browser: requests, decisions, runs, blocks, models, audit log, policy. `serve` must be running.

    It answers on this machine only. People log in with their name and the passphrase of their own key; a key without a
    passphrase logs in with --as alone.
    """
    from parties.console.serving import run_console
    from parties.roles.signer import key_path, unlock

    here = party(state)
    signer = unlock(here, person, passphrase(passphrase_file, key_path(here, person))) if person else None
    run_console(here, port=port, signer=signer, tell=typer.echo)
