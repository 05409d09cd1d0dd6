"""The analyst's command `describe`: counts, means and quantiles of one party's columns, with its own approval."""

from typing import Annotated

import typer

from parties.commands.options import (
    JsonOption,
    PassphraseOption,
    StateOption,
    analyst,
    example,
    passphrase,
    show,
    teller,
)


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(epilog=example("fedaccord describe bank/customers --columns income,age --state analyst"))(
        describe
    )


def describe(
    block: Annotated[str, typer.Argument(help="PARTY/BLOCK.")],
    state: StateOption,
    columns: Annotated[
        str, typer.Option(help="Columns with commas between; without it all of the block.")
    ] = "",
    people: Annotated[str, typer.Option(help="Whose rows: all, train, validation or test.")] = "all",
    quantiles: Annotated[int, typer.Option(min=0, help="Parts that quantiles cut: 4 quartiles, 0 none.")] = 4,
    purpose: Annotated[str, typer.Option(help="What for, in a word or two.")] = "feasibility check",
    purpose_text: Annotated[str, typer.Option(help="What for, at more length.")] = "",
    minimum_group: Annotated[int, typer.Option(min=2, help="Fewest people that a number may stand on.")] = 10,
    days: Annotated[int, typer.Option(min=1, help="Until the request expires.")] = 7,
    wait: Annotated[float, typer.Option(min=0, help="Minutes to wait for the approval.")] = 60,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the request and rehearse it on mock people; submit nothing."),
    ] = False,
    skip_rehearsal: Annotated[
        bool, typer.Option("--skip-rehearsal", help="Submit without the rehearsal.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask one party for counts, means and quantiles of its columns; numbers that could tell of somebody are hidden."""
    from parties.roles.aligning import rehearse_asked
    from parties.roles.describing import Wish
    from parties.roles.describing import describe as run

    wish = Wish(
        block=block,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        people=people,
        quantiles=quantiles,
        purpose=purpose,
        purpose_text=purpose_text,
        minimum_group=minimum_group,
        days=days,
    )
    here, tell = analyst(state), teller(as_json)
    if dry_run:
        document, text = rehearse_asked(here, wish.plan(), tell=tell)
    else:
        key = here.signing_key(passphrase(passphrase_file, here.folder / "keys" / "signing.pem"))
        document, text = run(here, wish, key=key, rehearsed=not skip_rehearsal, wait=60 * wait, tell=tell)
    show(document, as_json, text)
