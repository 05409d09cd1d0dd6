"""Commands on the audit log: verify it, alone or against the heads that others hold of it; show it; hand heads over."""

from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import JsonOption, StateOption, example, party, show

audit = typer.Typer(
    help="The hash-chained audit log of this party.",
    epilog=example("fedaccord audit verify --state bank"),
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(audit, name="audit")


@audit.command(
    "verify", epilog=example("fedaccord audit verify --state bank --head bank-head-from-retailer.json")
)
def verify(
    state: StateOption,
    head: Annotated[
        list[Path] | None,
        typer.Option(help="A signed head of this log that another party holds; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every entry of the log, and that nothing was cut off since a head was signed."""
    from parties.roles.auditing import verify_log

    document, text = verify_log(party(state), tuple(head or ()))
    show(document, as_json, text)


@audit.command("show", epilog=example("fedaccord audit show --state bank --last 20"))
def show_log(
    state: StateOption,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest entries.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the newest entries, one line each."""
    from parties.roles.auditing import entries

    document, text = entries(party(state), last)
    show(document, as_json, text)


@audit.command("heads", epilog=example("fedaccord audit heads --state retailer --out heads/"))
def heads(
    state: StateOption,
    out: Annotated[Path, typer.Option(help="Folder for one file per peer.")],
) -> None:
    """Write the signed heads of other parties' logs that this party received, for them to verify against."""
    from parties.roles.auditing import write_peer_heads

    paths = write_peer_heads(party(state), out)
    for path in paths:
        typer.echo(str(path))
    if not paths:
        typer.echo("no heads of other parties yet: they come with a run's last message", err=True)
