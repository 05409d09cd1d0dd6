"""Commands on feature blocks: add one from a file, show what is published of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from click import Choice

from parties.commands.options import JsonOption, StateOption, example, party, show

if TYPE_CHECKING:
    from parties.blocks.columns import CellRules, ColumnKind
    from parties.blocks.csv_format import CsvFormat

block = typer.Typer(
    help="Feature blocks: this party's data and its mock twin.",
    epilog=example("fedaccord block show --state bank"),
    no_args_is_help=True,
)
Columns = list[str] | None
KeyOption = Annotated[
    str,
    typer.Option(
        help="Column that identifies people; always read as text. Several with commas between, for a rule of several "
        "parts."
    ),
]
KeyRuleOption = Annotated[
    str,
    typer.Option(
        help="How keys are compared: text, text:trim, digits:WIDTH, code, name, email, email:gmail, phone:REGION, "
        "date, date:DD.MM.YYYY; for several columns joined by +, as in name+name+date. See docs/keys.md."
    ),
]
KeyMissingOption = Annotated[
    Columns, typer.Option(help="A further text that means 'no key', such as 999; may be repeated; published.")
]
KeyPresentOption = Annotated[
    Columns,
    typer.Option(
        help="A text that usually means 'no key' and is one here, such as the name Na; may be repeated."
    ),
]
DuplicatesOption = Annotated[
    str,
    typer.Option(
        help="Rows that share a key: refuse the file, keep the first, or drop them all.",
        click_type=Choice(["error", "first", "drop"]),
    ),
]
DelimiterOption = Annotated[
    str, typer.Option(help="Delimiter of a CSV file; found out by the key columns unless given.")
]
EncodingOption = Annotated[
    str,
    typer.Option(help="Text encoding of a CSV file; UTF-8, or what a byte order mark says, unless given."),
]


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.add_typer(block, name="block")


@block.command(
    "add",
    epilog=example(
        "fedaccord block add bank.csv --name customers --key customer --label income --split split -s bank"
    ),
)
def block_add(
    file: Annotated[Path, typer.Argument(help="CSV or parquet file.")],
    name: Annotated[str, typer.Option(help="Name of the block.")],
    key: KeyOption,
    state: StateOption,
    label: Annotated[str, typer.Option(help="Label column (the active party's).")] = "",
    split: Annotated[
        str, typer.Option(help="Column with train, validation or test; without it all rows train.")
    ] = "",
    key_rule: KeyRuleOption = "text",
    key_missing: KeyMissingOption = None,
    key_present: KeyPresentOption = None,
    duplicates: DuplicatesOption = "error",
    allow_unusable: Annotated[
        bool,
        typer.Option(
            "--allow-unusable", help="Leave rows out whose key doesn't fit the rule, even more than 5 %."
        ),
    ] = False,
    ignore: Annotated[Columns, typer.Option(help="Column to leave out; may be repeated.")] = None,
    numeric: Annotated[Columns, typer.Option(help="Column to read as numbers; may be repeated.")] = None,
    categorical: Annotated[Columns, typer.Option(help="Column to read as levels; may be repeated.")] = None,
    date: Annotated[Columns, typer.Option(help="Column to read as dates; may be repeated.")] = None,
    date_order: Annotated[
        str | None,
        typer.Option(
            help="What stands first in dates such as 1/2/2020.",
            click_type=Choice(["day-first", "month-first"]),
        ),
    ] = None,
    missing: Annotated[
        Columns, typer.Option(help="A further text that means 'missing', such as 999; may be repeated.")
    ] = None,
    decimal: Annotated[str, typer.Option(help="Decimal mark.", click_type=Choice([".", ","]))] = ".",
    infinite: Annotated[
        str,
        typer.Option(
            help="Infinite numbers: refuse the file, or take them as missing.",
            click_type=Choice(["refuse", "missing"]),
        ),
    ] = "refuse",
    delimiter: DelimiterOption = "",
    encoding: EncodingOption = "",
    mock: Annotated[Path | None, typer.Option(help="Your own mock file instead of a generated one.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Store a new version of an existing block.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check only; store nothing.")] = False,
) -> None:
    """Read a file, check it, make its mock twin and store it as a feature block."""
    from parties.blocks.block import BlockSpec
    from parties.blocks.keys.reading import Duplicates
    from parties.blocks.missing import key_tokens
    from parties.roles.owner import add_block

    spec = BlockSpec(
        name=name,
        subject_key=key,
        label=label,
        split=split,
        key_rule=key_rule,
        duplicates=Duplicates(duplicates),
        key_missing=key_tokens(key_missing or (), key_present or ()),
        allow_unusable=allow_unusable,
        kinds=_kinds(numeric=numeric or [], categorical=categorical or [], date=date or []),
        ignore=tuple(ignore or ()),
        cells=_cells(missing or [], decimal, infinite, date_order),
        csv=_csv(delimiter, encoding),
    )
    typer.echo(add_block(party(state), file, spec, mock=mock, replace=replace, dry_run=dry_run))


@block.command(
    "check",
    epilog=example(
        "fedaccord block check shop.csv --key surname,birth_date,postcode --key-rule name+date:DD.MM.YYYY+code"
    ),
)
def block_check(
    file: Annotated[Path, typer.Argument(help="CSV or parquet file.")],
    key: KeyOption,
    key_rule: KeyRuleOption = "text",
    key_missing: KeyMissingOption = None,
    key_present: KeyPresentOption = None,
    duplicates: DuplicatesOption = "error",
    delimiter: DelimiterOption = "",
    encoding: EncodingOption = "",
    as_json: JsonOption = False,
) -> None:
    """Tell what exact matching by these keys would lose, in counts; nothing is stored and no key is shown.

    The last tables tell how many keys would become equal to another one with another rule, or without a column: keys of
    one person written in two ways, or of two people whom the key then no longer tells apart.
    """
    from parties.blocks.block import BlockSpec
    from parties.blocks.keys.reading import Duplicates
    from parties.blocks.missing import key_tokens
    from parties.roles.checking import check_file

    spec = BlockSpec(
        name="check",
        subject_key=key,
        key_rule=key_rule,
        key_missing=key_tokens(key_missing or (), key_present or ()),
        duplicates=Duplicates(duplicates),
        csv=_csv(delimiter, encoding),
    )
    document, text = check_file(file, spec)
    show(document, as_json, text)


@block.command("list", epilog=example("fedaccord block list --state bank"))
def block_list(state: StateOption, as_json: JsonOption = False) -> None:
    """List the blocks: version, rows and number of columns of each."""
    from parties.roles.owner import describe_blocks

    document, text = describe_blocks(party(state), "")
    show(document, as_json, text)


@block.command("show", epilog=example("fedaccord block show customers --state bank"))
def block_show(
    state: StateOption,
    name: Annotated[str, typer.Argument(help="Block; without it all are listed.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Show what is published of the blocks: schema, commitment and mock rows; never a private row."""
    from parties.roles.owner import describe_blocks

    document, text = describe_blocks(party(state), name)
    show(document, as_json, text)


@block.command("erase", epilog=example("fedaccord block erase customers --key-file erase.txt --state bank"))
def block_erase(
    name: Annotated[str, typer.Argument(help="Block.")],
    key_file: Annotated[
        Path,
        typer.Option(
            help="Text file with one key a line; for a key of several columns a CSV line. Keys are given in no other "
            "way: a command line can be read by others."
        ),
    ],
    state: StateOption,
    as_json: JsonOption = False,
) -> None:
    """Take people out of a block: a new version without them, and a list of the models that learnt from it before."""
    from parties.roles.erasing import erase

    document, text = erase(party(state), name, key_file)
    show(document, as_json, text)


def _csv(delimiter: str, encoding: str) -> "CsvFormat":
    """How the CSV file is written, as far as it was said."""
    from parties.blocks.csv_format import CsvFormat

    return CsvFormat(delimiter={r"\t": "\t"}.get(delimiter, delimiter), encoding=encoding)


def _kinds(**named: list[str]) -> "dict[str, ColumnKind]":
    """The kind of each named column, from the columns of each kind; BlockError when one is named as two kinds."""
    from parties.blocks.columns import ColumnKind
    from protocols.errors import BlockError

    kinds: dict[str, ColumnKind] = {}
    for kind, columns in named.items():
        for column in columns:
            if kinds.setdefault(column, ColumnKind(kind)) != kind:
                raise BlockError(
                    f"column {column!r} is named as {kinds[column]} and as {kind}",
                    remedy=f"give --{kinds[column]} or --{kind}",
                )
    return kinds


def _cells(missing: list[str], decimal: str, infinite: str, date_order: str | None) -> "CellRules":
    """How cells are read; the further missing texts come after the usual ones, compared without case."""
    from parties.blocks.columns import CellRules, Infinite
    from parties.blocks.dates import DateOrder
    from parties.blocks.missing import MISSING_TOKENS

    further = [token.strip().lower() for token in missing]
    tokens = tuple(dict.fromkeys([*MISSING_TOKENS, *further]))
    order = DateOrder(date_order) if date_order else None
    return CellRules(decimal=decimal, date_order=order, missing=tokens, infinite=Infinite(infinite))
