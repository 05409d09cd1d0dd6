"""Commands of owners and reviewers: read a request, approve, deny, revoke."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from protocols.approval import Decision

review = typer.Typer(
    help="Read a request in full; approve, deny or revoke it.",
    epilog=example("fedaccord review list --state bank"),
    no_args_is_help=True,
)
PersonOption = Annotated[str, typer.Option("--as", help="Who decides: a person of `fedaccord person list`.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(review, name="review")


@review.command("list", epilog=example("fedaccord review list --state bank"))
def list_requests(state: StateOption, as_json: JsonOption = False) -> None:
    """List the requests of this party with what is missing, those refused when they came, and code that isn't ours."""
    from parties.control.asking import ask
    from parties.roles.reviewing import listing

    document = ask(party(state).folder, "requests")
    show(document, as_json, listing(document))


@review.command("show", epilog=example("fedaccord review show 3fa9c1 --state bank"))
def show_request(digest: DigestArgument, state: StateOption, as_json: JsonOption = False) -> None:
    """Show who asks for what, what would leave, who learns what, the limits, and what changed since the last time."""
    from parties.roles.reviewing import WAIT_SECONDS, page

    found = page(party(state), digest, wait=WAIT_SECONDS)
    show(found.document, as_json, found.text())


@review.command("dpia", epilog=example("fedaccord review dpia 3fa9c1 --out dpia.md --state bank"))
def impact(
    digest: DigestArgument,
    state: StateOption,
    out: Annotated[Path, typer.Option(help="New Markdown file.")],
) -> None:
    """Write a draft of the impact assessment (Art. 35(7) GDPR) from the request's facts; what is open stays visible."""
    from parties.home.documents import Documents
    from parties.home.policy import read_policy
    from parties.home.private_files import write_private
    from parties.roles.impact import impact_text
    from parties.roles.owner import check_new_file
    from parties.roles.reviewing import WAIT_SECONDS, page

    here = party(state)
    check_new_file(out)
    found = page(here, digest, wait=WAIT_SECONDS)
    request = Documents(here.folder).request(found.digest).request
    write_private(out, impact_text(here, request, read_policy(here.folder), found))
    typer.echo(f"draft written to {out}; read it, fill what is open, and judge it")


@review.command("code", epilog=example("fedaccord review code 1 --state bank"))
def show_code(
    number: Annotated[int, typer.Argument(min=1, help="The number in `fedaccord review list`.")],
    state: StateOption,
    as_json: JsonOption = False,
) -> None:
    """Show foreign code with what stands out in it; it is never run, and can't be approved through fedaccord."""
    from parties.roles.reviewing import foreign_code

    document, text = foreign_code(party(state), number)
    show(document, as_json, text)


@review.command(
    "approve",
    epilog=example(
        "fedaccord review approve 3fa9c1 --as owner --reason 'within the agreed purpose' --state bank"
    ),
)
def approve(
    digest: DigestArgument,
    state: StateOption,
    reason: Annotated[str, typer.Option(help="Why; kept with the decision.")],
    answer: Annotated[
        list[str] | None,
        typer.Option(help="ITEM=yes:WHY for an item of the policy's checklist; repeat it for each."),
    ] = None,
    person: PersonOption = "owner",
    passphrase_file: PassphraseOption = None,
) -> None:
    """Approve the request under your own key; where policy.toml has a [checklist], with an answer to each item."""
    from parties.home.checklist import parse_answer, with_answers
    from protocols.approval import Decision

    text = with_answers(reason, [parse_answer(each) for each in answer or ()])
    _decide(state, digest, person, Decision.APPROVE, text, passphrase_file)


@review.command(
    "deny", epilog=example("fedaccord review deny 3fa9c1 --as owner --reason 'too many columns' --state bank")
)
def deny(
    digest: DigestArgument,
    state: StateOption,
    reason: Annotated[str, typer.Option(help="Why; the analyst reads it.")],
    person: PersonOption = "owner",
    passphrase_file: PassphraseOption = None,
) -> None:
    """Deny the request; the analyst is told the reason."""
    from protocols.approval import Decision

    _decide(state, digest, person, Decision.DENY, reason, passphrase_file)


@review.command(
    "revoke",
    epilog=example("fedaccord review revoke 3fa9c1 --as owner --reason 'consent withdrawn' --state bank"),
)
def revoke(
    digest: DigestArgument,
    state: StateOption,
    reason: Annotated[str, typer.Option(help="Why; the analyst reads it.")],
    person: PersonOption = "owner",
    passphrase_file: PassphraseOption = None,
) -> None:
    """Take an approval back for good: a running training stops, its checkpoints are deleted."""
    from protocols.approval import Decision

    _decide(state, digest, person, Decision.REVOKE, reason, passphrase_file)


def _decide(
    state: Path, digest: str, person: str, decision: "Decision", reason: str, passphrase_file: Path | None
) -> None:
    from parties.roles.reviewing import WAIT_SECONDS, record
    from parties.roles.signer import key_path

    here = party(state)
    said = record(
        here,
        digest,
        person=person,
        decision=decision,
        reason=reason,
        passphrase=passphrase(passphrase_file, key_path(here, person)),
        wait=WAIT_SECONDS,
    )
    typer.echo(said)
