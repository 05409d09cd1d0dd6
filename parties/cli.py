"""The command `fedaccord`: one group of commands per role, each importing what it needs only when it runs."""

import sys
from typing import Annotated

import typer

from parties.commands import audit as cli_audit
from parties.commands import demo as cli_demo
from parties.commands import owner as cli_owner
from parties.commands import request as cli_request
from parties.commands import review as cli_review
from protocols.errors import FedaccordError

app = typer.Typer(
    name="fedaccord",
    help="Vertical federated learning between PySyft datasites: approved, gated, audited.",
    epilog="Try it on public data, everything on this machine:  fedaccord demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
for group in (cli_owner, cli_request, cli_review, cli_audit, cli_demo):
    group.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fedaccord {version('fedaccord')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Vertical federated learning between PySyft datasites: approved, gated, audited."""


def main() -> None:
    """Runs the command line; one of our errors becomes one line with its remedy and exit status 1."""
    try:
        app()
    except FedaccordError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.remedy:
            print(f"       {error.remedy}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
