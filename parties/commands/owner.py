"""Commands of the owner of a datasite: the state folder, peers, people, analysts' accounts, and `serve`."""

from pathlib import Path
from typing import Annotated

import typer
from click import Choice

from parties.commands.options import (
    JsonOption,
    StateOption,
    anybody,
    example,
    new_passphrase,
    party,
    show,
)

USER_SECONDS = 20.0
"""How long `user add` waits until syft has the account."""

peer = typer.Typer(
    help="The address book: whose requests and links this party accepts.",
    epilog=example("fedaccord peer list --state bank"),
    no_args_is_help=True,
)
person = typer.Typer(
    help="Our own people who may approve.",
    epilog=example("fedaccord person list --state bank"),
    no_args_is_help=True,
)
user = typer.Typer(
    help="Analysts' accounts on this party's datasite.",
    epilog=example(
        "fedaccord user add ana.json --fingerprint 1a2b-... --email ana@lab.example --out login.json"
    ),
    no_args_is_help=True,
)
AskPassphrase = Annotated[
    bool, typer.Option("--ask-passphrase", help="Ask for the new key's passphrase on the terminal.")
]
NewPassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="File with the new key's passphrase; without one it has none."),
]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command(
        epilog=example(
            "fedaccord init bank --name bank --organisation 'Example Bank' --link 127.0.0.1:7400-7409"
        )
    )(init)
    app.command(epilog=example("fedaccord serve --state bank"))(serve)
    for name, group in (("peer", peer), ("person", person), ("user", user)):
        app.add_typer(group, name=name)


def init(
    folder: Annotated[Path, typer.Argument(help="New folder for keys, blocks, approvals and the audit log.")],
    name: Annotated[str, typer.Option(help="Short name, for example bank.")],
    organisation: Annotated[str, typer.Option(help="Full name of the organisation.")],
    link: Annotated[
        str,
        typer.Option(
            help="host:first-last where this party's workers listen; without it they dial the other party."
        ),
    ] = "",
    port: Annotated[
        int | None, typer.Option(help="Port of the syft server on 127.0.0.1; 8081 unless given.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Name of the first person who may approve.")] = "owner",
    analyst: Annotated[
        bool, typer.Option("--analyst", help="Make an analyst's folder instead of a party's.")
    ] = False,
    passphrase_file: NewPassphraseFile = None,
    ask_passphrase: AskPassphrase = False,
) -> None:
    """Create a state folder with its keys and its public card.

    The passphrase protects the key of the analyst, or of the party's first person. The party's own key has none: its
    supervisor runs unattended.
    """
    from parties.home.cards import card_fingerprint
    from parties.home.state import init_analyst, init_party, open_state
    from protocols.errors import StateError

    if analyst and (link or port is not None):
        raise StateError(
            "--link and --port are a party's: an analyst runs no server and no link",
            remedy="leave them out, or leave out --analyst",
        )
    secret = new_passphrase(passphrase_file, ask_passphrase)
    if analyst:
        state = init_analyst(folder, name=name, organisation=organisation, passphrase=secret)
    else:
        state = init_party(
            folder,
            name=name,
            organisation=organisation,
            address=link,
            port=8081 if port is None else port,
            owner=owner,
            passphrase=secret,
        )
    for warning in open_state(folder).warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"state folder {state.folder} is ready")
    typer.echo(f"card         {state.folder / 'card.json'}  (give it to the others; it holds no secret)")
    typer.echo(f"fingerprint  {card_fingerprint(state.card())}  (read it to them over another channel)")


@peer.command(
    "add", epilog=example("fedaccord peer add retailer-card.json --fingerprint 1a2b-... --state bank")
)
def peer_add(
    card: Annotated[Path, typer.Argument(help="The card.json of the other party or analyst.")],
    fingerprint: Annotated[str, typer.Option(help="The card's fingerprint, told to you out of band.")],
    state: StateOption,
) -> None:
    """Accept a party or an analyst whose fingerprint you have compared."""
    from parties.roles.owner import add_peer

    added = add_peer(anybody(state), card, fingerprint)
    typer.echo(f"{added.kind} {added.name} ({added.organisation}) is in the address book")


@peer.command("list", epilog=example("fedaccord peer list --state bank"))
def peer_list(state: StateOption, as_json: JsonOption = False) -> None:
    """Show the address book with fingerprints, our own card first."""
    from parties.home.cards import card_fingerprint

    here = anybody(state)
    cards = [here.card(), *here.address_book().cards()]
    rows = [
        {"kind": c.kind, "name": c.name, "organisation": c.organisation, "fingerprint": card_fingerprint(c)}
        for c in cards
    ]
    text = "\n".join(f"{r['kind']:<8} {r['name']:<16} {r['fingerprint']}  {r['organisation']}" for r in rows)
    show({"cards": rows}, as_json, text)


@peer.command("remove", epilog=example("fedaccord peer remove retailer --state bank"))
def peer_remove(
    name: Annotated[str, typer.Argument(help="Name of the party or analyst.")], state: StateOption
) -> None:
    """Take a party or an analyst out: no request that names it can be submitted or started any more."""
    from parties.roles.removing import drop_peer

    typer.echo(drop_peer(anybody(state), name))


@person.command("add", epilog=example("fedaccord person add rev1 --role reviewer --state bank"))
def person_add(
    name: Annotated[str, typer.Argument(help="Short name of the person.")],
    state: StateOption,
    role: Annotated[
        str,
        typer.Option(
            help="What the person decides as; an auditor only reads.",
            click_type=Choice(["owner", "reviewer", "auditor"]),
        ),
    ] = "reviewer",
    organisation: Annotated[
        str, typer.Option(help="The person's organisation; without it this party's.")
    ] = "",
    passphrase_file: NewPassphraseFile = None,
    ask_passphrase: AskPassphrase = False,
) -> None:
    """Add a person who may approve (or, as an auditor, read the audit log), with a key of their own."""
    from parties.roles.owner import add_person

    here = party(state)
    added = add_person(
        here,
        name=name,
        role=role,
        organisation=organisation,
        passphrase=new_passphrase(passphrase_file, ask_passphrase),
    )
    may = "read the audit log" if added.role == "auditor" else "approve"
    typer.echo(
        f"{added.role} {added.name} may {may}; key in {here.folder / 'keys' / 'people' / (name + '.pem')}"
    )


@person.command("list", epilog=example("fedaccord person list --state bank"))
def person_list(state: StateOption, as_json: JsonOption = False) -> None:
    """Show who may approve, and who may read the audit log as an auditor."""
    from parties.home.people import read_people

    people = read_people(party(state).folder)
    rows = [{"name": p.name, "role": p.role, "organisation": p.organisation, "key": p.key} for p in people]
    text = "\n".join(f"{p.role:<9} {p.name:<16} {p.key[:16]}...  {p.organisation}" for p in people)
    show({"people": rows}, as_json, text)


@person.command("remove", epilog=example("fedaccord person remove rev1 --state bank"))
def person_remove(
    name: Annotated[str, typer.Argument(help="Short name of the person.")], state: StateOption
) -> None:
    """Take a person away with the key: what the person has approved no longer counts."""
    from parties.roles.removing import drop_person

    typer.echo(drop_person(party(state), name))


@user.command("list", epilog=example("fedaccord user list --state bank"))
def user_list(state: StateOption, as_json: JsonOption = False) -> None:
    """Show which analysts have an account on the datasite."""
    from parties.roles.removing import list_users

    document, text = list_users(party(state))
    show(document, as_json, text)


@user.command("reset", epilog=example("fedaccord user reset ana --out login.json --state bank"))
def user_reset(
    name: Annotated[str, typer.Argument(help="Name of the analyst.")],
    out: Annotated[Path, typer.Option(help="File for the new login, to be handed to the analyst.")],
    state: StateOption,
) -> None:
    """Give an analyst's account a new password; `serve` must be running."""
    from parties.roles.removing import reset_user

    typer.echo(reset_user(party(state), name, out, wait=USER_SECONDS))


@user.command("remove", epilog=example("fedaccord user remove ana --state bank"))
def user_remove(
    name: Annotated[str, typer.Argument(help="Name of the analyst.")], state: StateOption
) -> None:
    """Close an analyst's account: nothing is taken or answered from it any more; `serve` must be running."""
    from parties.roles.removing import drop_user

    typer.echo(drop_user(party(state), name, wait=USER_SECONDS))


@user.command(
    "add",
    epilog=example(
        "fedaccord user add ana.json --fingerprint 1a2b-... --email ana@lab.example --out login.json"
    ),
)
def user_add(
    card: Annotated[Path, typer.Argument(help="The analyst's card.json.")],
    fingerprint: Annotated[str, typer.Option(help="The card's fingerprint, told to you out of band.")],
    email: Annotated[str, typer.Option(help="Login name on the datasite.")],
    out: Annotated[Path, typer.Option(help="File for the login, to be handed to the analyst.")],
    state: StateOption,
) -> None:
    """Accept an analyst and open an account on the datasite; `serve` must be running."""
    from parties.roles.owner import add_user

    typer.echo(add_user(party(state), card, fingerprint, email, out, wait=USER_SECONDS))


def serve(
    state: StateOption,
    inject_private_seed: Annotated[
        int | None,
        typer.Option(
            help="For tests and comparisons only: private seeds that everybody can compute. Logged."
        ),
    ] = None,
    bind: Annotated[str, typer.Option(help="Host the link binds, when it isn't the one in the card.")] = "",
    until_stdin_ends: Annotated[
        bool,
        typer.Option(
            "--until-stdin-ends", help="Also stop when standard input ends: for programs that start it."
        ),
    ] = False,
) -> None:
    """Run the datasite: supervisor, syft server, and one worker process per approved run. Ctrl-C stops all of it."""
    from parties.control.supervise import run_datasite
    from parties.home.policy import read_policy
    from parties.roles.policy_check import warnings_of

    here = party(state)
    for warning in warnings_of(here, read_policy(here.folder)):
        typer.echo(f"warning: policy.toml: {warning}", err=True)
    run_datasite(here, injected_seed=inject_private_seed, bind=bind, until_stdin_ends=until_stdin_ends)
