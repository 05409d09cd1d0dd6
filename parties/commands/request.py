"""Commands of the analyst: datasites, rehearsal, submission, start, status, cancel, result."""

from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import JsonOption, PassphraseOption, StateOption, opened, passphrase, show

request = typer.Typer(help="Ask for a computation, run it, read its result.", no_args_is_help=True)
datasite = typer.Typer(help="The datasites where this analyst has an account.", no_args_is_help=True)
DigestArgument = Annotated[str, typer.Argument(help="The request's digest, or its first characters.")]
PlanArgument = Annotated[Path, typer.Argument(help="The plan, a TOML file.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(request, name="request")
    app.add_typer(datasite, name="datasite")


@datasite.command("add", epilog="fedaccord datasite add bank-login.json --state analyst")
def datasite_add(
    login: Annotated[Path, typer.Argument(help="The login file that the party's owner handed over.")],
    state: StateOption,
) -> None:
    """Remember the login to a party's datasite."""
    from parties.roles.analyst import add_login

    site = add_login(opened(state), login)
    typer.echo(f"datasite of {site.party} at {site.url} as {site.email}")


@datasite.command("show", epilog="fedaccord datasite show --state analyst")
def datasite_show(state: StateOption, as_json: JsonOption = False) -> None:
    """Show what the datasites publish: blocks, columns, rounded counts, mock rows."""
    from parties.roles.analyst import connect_all, read_offers
    from parties.roles.requesting import offers_text

    document, text = offers_text(read_offers(connect_all(opened(state))))
    show(document, as_json, text)


@request.command("rehearse", epilog="fedaccord request rehearse plan.toml --state analyst")
def rehearse(plan: PlanArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Run the whole plan on the mock twins, with nobody's approval and nobody's data; check the manifest's bounds."""
    from parties.roles.requesting import rehearse_plan

    document, text = rehearse_plan(opened(state), plan, quiet=as_json)
    show(document, as_json, text)


@request.command("submit", epilog="fedaccord request submit plan.toml --state analyst")
def submit(
    plan: PlanArgument,
    state: StateOption,
    skip_rehearsal: Annotated[
        bool, typer.Option("--skip-rehearsal", help="Submit without the rehearsal.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rehearse the plan, then submit the complete request to every party of it."""
    from parties.roles.requesting import submit_plan

    document, text = submit_plan(
        opened(state),
        plan,
        rehearsed=not skip_rehearsal,
        passphrase=passphrase(passphrase_file),
        quiet=as_json,
    )
    show(document, as_json, text)


@request.command("start", epilog="fedaccord request start 3fa9c1 --watch --state analyst")
def start(
    digest: DigestArgument,
    state: StateOption,
    watch: Annotated[bool, typer.Option("--watch", help="Show progress until the run ends.")] = False,
) -> None:
    """Start the run at every party, once all have approved."""
    from parties.roles.requesting import start_request

    start_request(opened(state), digest, watch=watch)


@request.command("status", epilog="fedaccord request status 3fa9c1 --watch --state analyst")
def status(
    digest: DigestArgument,
    state: StateOption,
    watch: Annotated[bool, typer.Option("--watch", help="Show progress until the run ends.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how the request stands at every party, and what is missing."""
    from parties.roles.requesting import show_status

    document, text = show_status(opened(state), digest, watch=watch)
    show(document, as_json, text)


@request.command("cancel", epilog="fedaccord request cancel 3fa9c1 --state analyst")
def cancel(digest: DigestArgument, state: StateOption) -> None:
    """Stop the run at every party."""
    from parties.roles.requesting import cancel_request

    typer.echo(cancel_request(opened(state), digest))


@request.command("result", epilog="fedaccord request result 3fa9c1 --json --state analyst > result.json")
def result(digest: DigestArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Read what the parties release of a finished run."""
    from parties.roles.requesting import read_result

    document, text = read_result(opened(state), digest)
    show(document, as_json, text)
