"""Commands on the audit log: verify it, show it, trace through it, export it; hand other parties' heads over.

Each of them is for the party's own people, who prove who they are by opening their own key; each is itself an entry of
the log.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.commands.options import JsonOption, StateOption, example, party, passphrase, show

if TYPE_CHECKING:
    from parties.home.state import State

audit = typer.Typer(
    help="The hash-chained audit log of this party. Reading it is logged too.",
    epilog=example("fedaccord audit verify --state bank"),
    no_args_is_help=True,
)
ReaderOption = Annotated[
    str, typer.Option("--as", help="Who reads: a person of `fedaccord person list`, whose key is opened.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--passphrase-file", help="File with the passphrase of that person's key.")
]
HeadOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--head", "--peer-head", help="A signed head of this log that another party holds; may be repeated."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(audit, name="audit")


@audit.command(
    "verify", epilog=example("fedaccord audit verify --state bank --head bank-head-from-retailer.json")
)
def verify(
    state: StateOption,
    head: HeadOption = None,
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every entry of the log, and that nothing was cut off or rewritten since a head was signed."""
    from parties.roles.auditing import verify_log
    from parties.roles.log_access import read_log

    here, heads = party(state), tuple(head or ())
    document, text = read_log(
        here, _proved(here, person, passphrase_file), "verification", lambda: verify_log(here, heads)
    )
    show(document, as_json, text)


@audit.command("show", epilog=example("fedaccord audit show --state bank --last 20"))
def show_log(
    state: StateOption,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest entries.")] = 20,
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the newest entries, one line each."""
    from parties.roles.auditing import entries
    from parties.roles.log_access import read_log

    here = party(state)
    document, text = read_log(
        here, _proved(here, person, passphrase_file), f"the last {last} entries", lambda: entries(here, last)
    )
    show(document, as_json, text)


@audit.command("trace", epilog=example("fedaccord audit trace customers:1 --state bank"))
def trace_one(
    what: Annotated[
        str,
        typer.Argument(help="A model's or request's digest, or its first characters; or BLOCK[:VERSION]."),
    ],
    state: StateOption,
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lead from a model to its data versions, approvals, code and agreement; from a data version to its models."""
    from parties.roles.log_access import read_log
    from parties.roles.tracing import trace

    here = party(state)
    document, text = read_log(
        here, _proved(here, person, passphrase_file), f"trace of {what[:80]}", lambda: trace(here, what)
    )
    show(document, as_json, text)


@audit.command(
    "export",
    epilog=example("fedaccord audit export --from 2026-01-01 --to 2026-06-30 --out export --state bank"),
)
def export(
    state: StateOption,
    since: Annotated[str, typer.Option("--from", help="First day, in UTC, as in 2026-01-31.")],
    until: Annotated[str, typer.Option("--to", help="Last day, in UTC.")],
    out: Annotated[Path, typer.Option(help="New folder for entries.jsonl, log.html and head.json.")],
    head: HeadOption = None,
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the entries of some days for an authority: as JSON Lines, and as a page with the log's verification."""
    from parties.roles.audit_export import export_log, parse_day

    here, days = party(state), (parse_day(since), parse_day(until))
    reader = _proved(here, person, passphrase_file, exporting=True)
    document, text = export_log(here, *days, out, heads=tuple(head or ()), person=reader)
    show(document, as_json, text)


@audit.command("prune", epilog=example("fedaccord audit prune --before 2026-01-01 --state bank"))
def prune(
    state: StateOption,
    before: Annotated[
        str, typer.Option(help="Delete the entries of before this day (UTC); without it all that may go.")
    ] = "",
    person: Annotated[
        str, typer.Option("--as", help="The owner who deletes, whose key is opened.")
    ] = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete entries that are older than the months for which the party keeps them; a stub stays in their place.

    party.toml says how many months: [audit] keep_months, 12 unless changed and at least 6. Export them first.
    """
    from parties.roles.audit_export import parse_day
    from parties.roles.pruning import prune_log

    here, day = party(state), parse_day(before) if before else None
    document, text = prune_log(here, day, _proved(here, person, passphrase_file, pruning=True))
    show(document, as_json, text)


@audit.command("sent", epilog=example("fedaccord audit sent --state bank"))
def sent(
    state: StateOption,
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what left this party: for each run kinds, counts and bytes to each party, and who read its result."""
    from parties.roles.log_access import read_log
    from parties.roles.what_left import what_left

    here = party(state)
    document, text = read_log(
        here, _proved(here, person, passphrase_file), "what left in each run", lambda: what_left(here)
    )
    show(document, as_json, text)


@audit.command("heads", epilog=example("fedaccord audit heads --state retailer --out heads/"))
def heads(
    state: StateOption,
    out: Annotated[Path, typer.Option(help="Folder for one file per peer.")],
    person: ReaderOption = "owner",
    passphrase_file: KeyOption = None,
) -> None:
    """Write the signed heads of other parties' logs that this party received, for them to verify against."""
    from parties.roles.auditing import newest_heads, write_heads
    from parties.roles.log_access import read_log

    here = party(state)
    paths = write_heads(
        read_log(
            here, _proved(here, person, passphrase_file), "heads of other parties", lambda: newest_heads(here)
        ),
        out,
    )
    for path in paths:
        typer.echo(str(path))
    if not paths:
        typer.echo("no heads of other parties yet: they come with a run's first message", err=True)


def _proved(
    here: "State",
    person: str,
    passphrase_file: Path | None,
    *,
    exporting: bool = False,
    pruning: bool = False,
) -> str:
    from parties.roles.log_access import prove
    from protocols.audit import AuditEvent

    event = (
        AuditEvent.LOG_EXPORTED if exporting else AuditEvent.LOG_PRUNED if pruning else AuditEvent.LOG_READ
    )
    return prove(here, person, lambda key: passphrase(passphrase_file, key), event=event)
