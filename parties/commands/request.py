"""Commands of the analyst: datasites, rehearsal, submission, start, status, cancel, result."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import (
    DigestArgument,
    JsonOption,
    PassphraseOption,
    SkipRehearsalOption,
    StateOption,
    analyst,
    example,
    show,
    signing_key,
    teller,
)

request = typer.Typer(
    help="Ask for a computation, run it, read its result.",
    epilog=example("fedaccord request submit plan.toml --state analyst"),
    no_args_is_help=True,
)
datasite = typer.Typer(
    help="The datasites where this analyst has an account.",
    epilog=example("fedaccord datasite show --state analyst"),
    no_args_is_help=True,
)
PlanArgument = Annotated[Path, typer.Argument(help="The plan, a TOML file.")]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Also write the JSON document into this file; a rehearsal's is named MOCK-..."),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(help="Draw the scores into this file: .svg, .png or .pdf; a rehearsal's is named MOCK-..."),
]
WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Show progress until the run ends; exit status 1 unless it is DONE at every party then.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(request, name="request")
    app.add_typer(datasite, name="datasite")


@datasite.command("add", epilog=example("fedaccord datasite add bank-login.json --state analyst"))
def datasite_add(
    login: Annotated[Path, typer.Argument(help="The login file that the party's owner handed over.")],
    state: StateOption,
) -> None:
    """Remember the login to a party's datasite."""
    from parties.roles.sites import add_login

    site = add_login(analyst(state), login)
    typer.echo(f"datasite of {site.party} at {site.url} as {site.email}")


@datasite.command("show", epilog=example("fedaccord datasite show --state analyst"))
def datasite_show(state: StateOption, as_json: JsonOption = False) -> None:
    """Show what the datasites publish: blocks, columns, rounded counts, mock rows."""
    from parties.roles.requesting import offers_text
    from parties.roles.sites import connect_all, login_cards, read_offers

    here = analyst(state)
    document, text = offers_text(read_offers(connect_all(here), login_cards(here)))
    show(document, as_json, text)


@request.command(
    "rehearse", epilog=example("fedaccord request rehearse plan.toml --plot scores.svg --state analyst")
)
def rehearse(
    plan: PlanArgument,
    state: StateOption,
    out: OutOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the whole plan on the mock twins, with nobody's approval and nobody's data; check the manifest's bounds.

    The report is that of a run, and says MOCK in every line, file name and plot: its numbers are about nobody.
    """
    from parties.roles.reports import check_files
    from parties.roles.requesting import rehearse_plan

    check_files(out, plot)
    document, text = rehearse_plan(analyst(state), plan, tell=teller(as_json))
    show(document, as_json, text)
    _write(document, out, plot, as_json)


@request.command("submit", epilog=example("fedaccord request submit plan.toml --state analyst"))
def submit(
    plan: PlanArgument,
    state: StateOption,
    skip_rehearsal: SkipRehearsalOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rehearse the plan, then submit the complete request to every party of it."""
    from parties.roles.requesting import submit_plan

    here = analyst(state)
    key = signing_key(here, passphrase_file)
    document, text = submit_plan(here, plan, rehearsed=not skip_rehearsal, key=key, tell=teller(as_json))
    show(document, as_json, text)


@request.command("start", epilog=example("fedaccord request start 3fa9c1 --watch --state analyst"))
def start(
    digest: DigestArgument, state: StateOption, watch: WatchOption = False, as_json: JsonOption = False
) -> None:
    """Start the run at every party once all have approved, or take up an interrupted one."""
    from parties.roles.requesting import start_request

    document, text = start_request(analyst(state), digest, watch=watch, tell=teller(as_json))
    show(document, as_json, text)
    if watch:
        _exit_unless_done(document)


@request.command("status", epilog=example("fedaccord request status 3fa9c1 --watch --state analyst"))
def status(
    digest: DigestArgument, state: StateOption, watch: WatchOption = False, as_json: JsonOption = False
) -> None:
    """Show how the request stands at every party, what is missing, and what to do next."""
    from parties.roles.requesting import show_status

    document, text = show_status(analyst(state), digest, watch=watch, tell=teller(as_json))
    show(document, as_json, text)
    if watch:
        _exit_unless_done(document)


def _exit_unless_done(document: Mapping[str, object]) -> None:
    """A script that waits for a run learns from the exit status how it ended."""
    from parties.roles.standing import DONE

    parties = document["parties"]
    assert isinstance(parties, dict)
    if any(party["state"] != DONE for party in parties.values()):
        raise typer.Exit(1)


@request.command("cancel", epilog=example("fedaccord request cancel 3fa9c1 --state analyst"))
def cancel(digest: DigestArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Stop the run at every party that can be reached."""
    from parties.roles.requesting import cancel_request

    document, text = cancel_request(analyst(state), digest)
    show(document, as_json, text)


@request.command(
    "result", epilog=example("fedaccord request result 3fa9c1 --out result.json --state analyst")
)
def result(
    digest: DigestArgument,
    state: StateOption,
    out: OutOption = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read what the parties release of a finished run."""
    from parties.roles.reports import check_files
    from parties.roles.requesting import read_result

    check_files(out, plot)
    document, text = read_result(analyst(state), digest)
    show(document, as_json, text)
    _write(document, out, plot, as_json)


def _write(document: Mapping[str, object], out: Path | None, plot: Path | None, as_json: bool) -> None:
    from parties.roles.reports import write_files

    for path in write_files(document, out, plot):
        typer.echo(f"written to {path}", err=as_json)
