"""The analyst's command `describe`: counts, means and quantiles of one party's columns, with its own approval."""

from typing import Annotated

import typer

from parties.commands.options import (
    DaysOption,
    DryRunOption,
    JsonOption,
    PassphraseOption,
    PurposeOption,
    PurposeTextOption,
    SkipRehearsalOption,
    StateOption,
    analyst,
    example,
    show,
    signing_key,
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
    purpose: PurposeOption = "feasibility check",
    purpose_text: PurposeTextOption = "",
    minimum_group: Annotated[int, typer.Option(min=2, help="Fewest people that a number may stand on.")] = 10,
    days: DaysOption = 7,
    wait: Annotated[float, typer.Option(min=0, help="Minutes to wait for the approval.")] = 60,
    dry_run: DryRunOption = False,
    skip_rehearsal: SkipRehearsalOption = False,
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
        key = signing_key(here, passphrase_file)
        document, text = run(here, wish, key=key, rehearsed=not skip_rehearsal, wait=60 * wait, tell=tell)
    show(document, as_json, text)
