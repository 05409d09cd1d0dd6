"""The command on a party's policy: show it, and warn of names in it that mean nothing here."""

import typer

from parties.commands.options import JsonOption, StateOption, example, party, show

policy = typer.Typer(
    help="The rules of this party, in policy.toml of its state folder.",
    epilog=example("fedaccord policy check --state bank"),
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(policy, name="policy")


@policy.callback()
def _group() -> None:
    """The rules of this party, in policy.toml of its state folder."""


@policy.command("check", epilog=example("fedaccord policy check --state bank"))
def check(state: StateOption, as_json: JsonOption = False) -> None:
    """Show the rules in force, and which of their names no block, card or computation here has."""
    from parties.roles.policy_check import check_policy

    document, text = check_policy(party(state))
    show(document, as_json, text)
