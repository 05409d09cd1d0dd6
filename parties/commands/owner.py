"""Commands of the owner of a datasite: the state folder, peers, people, blocks, analysts' accounts, and `serve`."""

from pathlib import Path
from typing import Annotated

import typer
from click import Choice

from parties.commands.options import JsonOption, PassphraseOption, StateOption, opened, passphrase, show

peer = typer.Typer(
    help="The address book: whose requests and links this party accepts.", no_args_is_help=True
)
person = typer.Typer(help="Our own people who may approve.", no_args_is_help=True)
block = typer.Typer(help="Feature blocks: this party's data and its mock twin.", no_args_is_help=True)
user = typer.Typer(help="Analysts' accounts on this party's datasite.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command(
        epilog="fedaccord init bank --name bank --organisation 'Example Bank' --link 127.0.0.1:7400-7409"
    )(init)
    app.command(epilog="fedaccord serve --state bank")(serve)
    for name, group in (("peer", peer), ("person", person), ("block", block), ("user", user)):
        app.add_typer(group, name=name)


def init(
    folder: Annotated[Path, typer.Argument(help="New folder for keys, blocks, approvals and the audit log.")],
    name: Annotated[str, typer.Option(help="Short name, for example bank.")],
    organisation: Annotated[str, typer.Option(help="Full name of the organisation.")],
    link: Annotated[
        str,
        typer.Option(
            help="host:first-last where this party's workers listen; empty: they dial the other party."
        ),
    ] = "",
    port: Annotated[int, typer.Option(help="Port of the syft server on 127.0.0.1.")] = 8081,
    owner: Annotated[str, typer.Option(help="Name of the first person who may approve.")] = "owner",
    analyst: Annotated[
        bool, typer.Option("--analyst", help="Make an analyst's folder instead of a party's.")
    ] = False,
    passphrase_file: PassphraseOption = None,
) -> None:
    """Create a state folder with its keys and its public card."""
    from parties.home.cards import card_fingerprint
    from parties.home.state import init_analyst, init_party

    secret = passphrase(passphrase_file)
    if analyst:
        state = init_analyst(folder, name=name, organisation=organisation, passphrase=secret)
    else:
        state = init_party(
            folder,
            name=name,
            organisation=organisation,
            address=link,
            port=port,
            owner=owner,
            passphrase=secret,
        )
    typer.echo(f"state folder {state.folder} is ready")
    typer.echo(f"card         {state.folder / 'card.json'}  (give it to the others; it holds no secret)")
    typer.echo(f"fingerprint  {card_fingerprint(state.card())}  (read it to them over another channel)")


@peer.command("add", epilog="fedaccord peer add retailer-card.json --fingerprint 1a2b-... --state bank")
def peer_add(
    card: Annotated[Path, typer.Argument(help="The card.json of the other party or analyst.")],
    fingerprint: Annotated[str, typer.Option(help="The card's fingerprint, told to you out of band.")],
    state: StateOption,
) -> None:
    """Accept a party or an analyst whose fingerprint you have compared."""
    from parties.roles.owner import add_peer

    added = add_peer(opened(state), card, fingerprint)
    typer.echo(f"{added.kind} {added.name} ({added.organisation}) is in the address book")


@peer.command("list", epilog="fedaccord peer list --state bank")
def peer_list(state: StateOption, as_json: JsonOption = False) -> None:
    """Show the address book with fingerprints, our own card first."""
    from parties.home.cards import card_fingerprint

    here = opened(state)
    cards = [here.card(), *here.address_book().cards()]
    rows = [
        {"kind": c.kind, "name": c.name, "organisation": c.organisation, "fingerprint": card_fingerprint(c)}
        for c in cards
    ]
    text = "\n".join(f"{r['kind']:<8} {r['name']:<16} {r['fingerprint']}  {r['organisation']}" for r in rows)
    show({"cards": rows}, as_json, text)


@person.command("add", epilog="fedaccord person add rev1 --role reviewer --state bank")
def person_add(
    name: Annotated[str, typer.Argument(help="Short name of the person.")],
    state: StateOption,
    role: Annotated[str, typer.Option(help="owner or reviewer.")] = "reviewer",
    organisation: Annotated[
        str, typer.Option(help="The person's organisation (default: this party's).")
    ] = "",
    passphrase_file: PassphraseOption = None,
) -> None:
    """Add a person who may approve, with a key of their own under the passphrase."""
    from parties.home.people import create_person

    here = opened(state)
    added = create_person(
        here.folder,
        name=name,
        role=role,
        organisation=organisation or here.organisation,
        passphrase=passphrase(passphrase_file),
    )
    typer.echo(
        f"{added.role} {added.name} may approve; key in {here.folder / 'keys' / 'people' / (name + '.pem')}"
    )


@block.command(
    "add",
    epilog="fedaccord block add bank.csv --name customers --key customer --label income --split split --state bank",
)
def block_add(
    file: Annotated[Path, typer.Argument(help="CSV or parquet file.")],
    name: Annotated[str, typer.Option(help="Name of the block.")],
    key: Annotated[str, typer.Option(help="Column that identifies people; always read as text.")],
    state: StateOption,
    label: Annotated[str, typer.Option(help="Label column (the active party's).")] = "",
    split: Annotated[
        str, typer.Option(help="Column with train, validation or test; without it all rows train.")
    ] = "",
    key_rule: Annotated[str, typer.Option(help="How keys are compared: text, or digits:WIDTH.")] = "text",
    duplicates: Annotated[
        str, typer.Option(help="Repeated keys.", click_type=Choice(["error", "first", "drop"]))
    ] = "error",
    delimiter: Annotated[str, typer.Option(help="Delimiter of a CSV file.")] = ",",
    mock: Annotated[Path | None, typer.Option(help="Your own mock CSV instead of a generated one.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Store a new version of an existing block.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only; store nothing.")] = False,
) -> None:
    """Read a file, check it, make its mock twin and store it as a feature block."""
    from parties.blocks.block import BlockSpec
    from parties.blocks.csv_text import CsvFormat
    from parties.blocks.subject_key import Duplicates
    from parties.roles.owner import add_block

    spec = BlockSpec(
        name=name,
        subject_key=key,
        label=label,
        split=split,
        key_rule=key_rule,
        duplicates=Duplicates(duplicates),
        csv=CsvFormat(delimiter=delimiter),
    )
    typer.echo(add_block(opened(state), file, spec, mock=mock, replace=replace, dry_run=dry_run))


@block.command("show", epilog="fedaccord block show customers --state bank")
def block_show(
    state: StateOption,
    name: Annotated[str, typer.Argument(help="Block; without it all are listed.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show what is published of the blocks: schema, commitment and mock rows; never a private row."""
    from parties.roles.owner import describe_blocks

    document, text = describe_blocks(opened(state), name)
    show(document, as_json, text)


@user.command(
    "add",
    epilog="fedaccord user add ana.json --fingerprint 1a2b-... --email ana@lab.example --out login.json --state bank",
)
def user_add(
    card: Annotated[Path, typer.Argument(help="The analyst's card.json.")],
    fingerprint: Annotated[str, typer.Option(help="The card's fingerprint, told to you out of band.")],
    email: Annotated[str, typer.Option(help="Login name on the datasite.")],
    out: Annotated[Path, typer.Option(help="File for the login, to be handed to the analyst.")],
    state: StateOption,
) -> None:
    """Accept an analyst and open an account on the datasite (`serve` must be running)."""
    from parties.roles.owner import add_user

    add_user(opened(state), card, fingerprint, email, out)
    typer.echo(f"account {email} is open; login in {out} (mode 0600): hand it over and delete it")


def serve(
    state: StateOption,
    inject_private_seed: Annotated[
        int | None,
        typer.Option(
            help="For tests and comparisons only: private seeds that everybody can compute. Logged."
        ),
    ] = None,
    bind: Annotated[str, typer.Option(help="Host the link binds, when it isn't the one in the card.")] = "",
) -> None:
    """Run the datasite: supervisor, syft server, and one worker process per approved run. Ctrl-C stops all of it."""
    from parties.control.supervise import run_datasite

    run_datasite(opened(state), injected_seed=inject_private_seed, bind=bind)
