"""The analyst's command `align`: how many people two blocks have in common, or who they are, with its own approval."""

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
    app.command(
        epilog=example("fedaccord align bank/customers retailer/customers --bucket 1000 --state analyst")
    )(align)


def align(
    first: Annotated[str, typer.Argument(help="PARTY/BLOCK whose process learns the number first, exactly.")],
    second: Annotated[str, typer.Argument(help="The other PARTY/BLOCK.")],
    state: StateOption,
    full: Annotated[
        bool, typer.Option("--full", help="Both parties learn who is common, not only how many.")
    ] = False,
    purpose: PurposeOption = "feasibility check",
    purpose_text: PurposeTextOption = "",
    minimum_group: Annotated[
        int, typer.Option(min=2, help="Smallest number that is told; others are rounded down to a multiple.")
    ] = 10,
    minimum_overlap: Annotated[
        int, typer.Option(min=2, help="With --full: with fewer common people nobody is paired.")
    ] = 50,
    bucket: Annotated[
        int,
        typer.Option(min=0, help="Fill each set up with dummies to a multiple of this, to hide its size."),
    ] = 0,
    max_common: Annotated[
        int | None, typer.Option(min=1, help="With --full: the most people that may be paired.")
    ] = None,
    days: DaysOption = 7,
    wait: Annotated[float, typer.Option(min=0, help="Minutes to wait for both approvals.")] = 60,
    dry_run: DryRunOption = False,
    skip_rehearsal: SkipRehearsalOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the people that two blocks have in common, once both owners approve; with --full, pair them."""
    from parties.roles import aligning

    wish = aligning.Wish(
        blocks=(first, second),
        full=full,
        purpose=purpose,
        purpose_text=purpose_text,
        minimum_group=minimum_group,
        minimum_overlap=minimum_overlap,
        bucket=bucket,
        max_common=max_common,
        days=days,
    )
    here, tell = analyst(state), teller(as_json)
    if dry_run:
        document, text = aligning.rehearse_alignment(here, wish, tell=tell)
    else:
        key = signing_key(here, passphrase_file)
        document, text = aligning.align(
            here, wish, key=key, rehearsed=not skip_rehearsal, wait=60 * wait, tell=tell
        )
    show(document, as_json, text)
