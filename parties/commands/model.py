"""Commands of owners on this party's parts of trained models."""

from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import (
    DigestArgument,
    JsonOption,
    PassphraseOption,
    StateOption,
    example,
    party,
    passphrase,
    show,
)

model = typer.Typer(
    help="This party's parts of trained models; each is known by the digest of its training's request.",
    epilog=example("fedaccord model list --state bank"),
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(model, name="model")


@model.command("list", epilog=example("fedaccord model list --block customers --version 1 --state bank"))
def list_all(
    state: StateOption,
    block: Annotated[str, typer.Option(help="Only models that learnt from this block.")] = "",
    version: Annotated[int, typer.Option(help="Only from this version of the block; 0: any.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the models with the data they learnt from, and whether consent to one was withdrawn."""
    from parties.roles.models import list_models

    document, text = list_models(party(state), block=block, version=version)
    show(document, as_json, text)


@model.command("show", epilog=example("fedaccord model show 3fa9c1 --state bank"))
def show_one(digest: DigestArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Show a model: data versions, approvals, code, settings, memory, and the requests that use it."""
    from parties.roles.models import show_model

    document, text = show_model(party(state), digest)
    show(document, as_json, text)


@model.command(
    "export",
    epilog=example(
        "fedaccord model export 3fa9c1 --out model-3fa9c1 --reason 'scoring at the branch' --state bank"
    ),
)
def export(
    digest: DigestArgument,
    out: Annotated[Path, typer.Option(help="New folder for model.pt and model.json.")],
    reason: Annotated[str, typer.Option(help="Why it may leave; logged, and kept with the model.")],
    state: StateOption,
    person: Annotated[str, typer.Option("--as", help="The owner who decides.")] = "owner",
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write this party's part as a torch state dict (model.pt) with a description (model.json), as an owner decides."""
    from parties.roles.models import export_model
    from parties.roles.signer import key_path

    here = party(state)
    words = passphrase(passphrase_file, key_path(here, person))
    document, text = export_model(here, digest, out, person=person, reason=reason, passphrase=words)
    show(document, as_json, text)


@model.command("forget-memory", epilog=example("fedaccord model forget-memory 3fa9c1 --state bank"))
def forget(digest: DigestArgument, state: StateOption) -> None:
    """Delete what a model remembers of the other party's people: missing views can't be filled any more."""
    from parties.roles.models import forget_memory

    typer.echo(forget_memory(party(state), digest))


@model.command(
    "predictions", epilog=example("fedaccord model predictions 7be2d0 --out scores.csv --state bank")
)
def predictions(
    run: Annotated[
        str, typer.Argument(help="Digest of the prediction's (or vote's) request, or its beginning.")
    ],
    out: Annotated[Path, typer.Option(help="New CSV file: one line per person, with this party's own keys.")],
    state: StateOption,
) -> None:
    """Write what a finished prediction or vote left about this party's own people, joined with their keys."""
    from parties.roles.own_rows import write_own_rows

    typer.echo(write_own_rows(party(state), run, out))
