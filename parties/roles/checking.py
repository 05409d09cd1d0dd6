"""What an owner is shown of a file's keys before it becomes a block: counts in tables, never a key."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from parties.blocks.block import BlockSpec, read_source
from parties.blocks.columns import is_free_text
from parties.blocks.counts import plural
from parties.blocks.keys.check import KeyCheck, check_keys
from parties.blocks.keys.reading import Duplicates
from parties.blocks.keys.rule import identifier
from parties.blocks.parquet_file import plain_table
from protocols.errors import BlockError


def check_file(file: Path, spec: BlockSpec) -> tuple[dict[str, object], str]:
    """The check of the file's key columns, as a document and as text; of the other columns it names free text only.

    Raises BlockError or SubjectKeyError for a file that can't be read or a column without any usable key.
    """
    table, form = read_source(file, keys=spec.key_columns, form=spec.csv)
    if not table.num_rows:
        raise BlockError(f"{file.name} has a header and no rows")
    chosen = plain_table(table.select(list(spec.key_columns)))
    columns: dict[str, pa.ChunkedArray] = {name: chosen.column(name) for name in spec.key_columns}
    check = check_keys(columns, spec.recipe, spec.key_missing)
    read_as = form.describe() if form.encoding else "parquet"
    document: dict[str, object] = {
        "file": file.name,
        "read_as": read_as,
        "key_columns": list(spec.key_columns),
        "key_rule": spec.recipe.identifier,
        "certainly_lost": _certain(check, spec.duplicates),
        "perhaps_lost": check.odd,
        **{name: value for name, value in asdict(check).items() if name != "odd"},
    }
    free = [
        name
        for name in table.column_names
        if name not in spec.key_columns and is_free_text(table.column(name), spec.cells)
    ]
    document["free_text"] = free
    warnings = [
        f"column {name!r} is free text: `block add` refuses it, give --ignore {name!r}" for name in free
    ]
    return document, "\n".join([f"{file.name}: {read_as}", check_text(check, spec), *warnings])


def check_text(check: KeyCheck, spec: BlockSpec) -> str:
    """The check as tables."""
    sections = [
        _columns(check, spec),
        _blanks(check),
        "\n".join(_summary(check, spec.duplicates)),
        _table(
            ("written with", "rows", "keys equal without it"),
            [(w.name, w.rows, w.merged) for w in check.ways],
        ),
        _table(
            ("column", "with rule", "usable rows", "cells rewritten", "more keys equal"),
            [(a.column, a.rule, a.usable, a.rewritten, a.merged) for a in check.alternatives],
        ),
        _table(
            ("without column", "usable rows", "more keys equal"),
            [(w.column, w.usable, w.merged) for w in check.without],
        ),
    ]
    return "\n\n".join(section for section in sections if section)


def _columns(check: KeyCheck, spec: BlockSpec) -> str:
    rows = [
        (part.column, identifier(rule), part.blank, part.unusable, part.spaced, form.describe())
        for part, rule, form in zip(check.report.parts, spec.recipe.parts, check.forms, strict=True)
    ]
    return _table(("key column", "rule", "blank", "unusable", "blanks around", "keys look like"), rows)


def _blanks(check: KeyCheck) -> str:
    """Which texts count as no key, and what to do where one of them is somebody's name."""
    rows = [(blank.column, blank.text or "(empty)", blank.rows) for blank in check.blanks]
    texts = dict.fromkeys(blank.text for blank in check.blanks if blank.text)
    table = _table(("key column", "counts as no key", "rows"), rows)
    if not texts:
        return table
    return f"{table}\na text that is a key here, such as the name Na: --key-present {next(iter(texts))!r}"


def _certain(check: KeyCheck, policy: Duplicates) -> int:
    return check.report.blank + check.report.unusable + check.left_out(policy)


def _summary(check: KeyCheck, policy: Duplicates) -> list[str]:
    report = check.report
    keys = f"{report.usable} different keys in {report.rows} rows"
    repeated = report.duplicate_rows_left_out + report.duplicated_keys
    if repeated:
        keys += f"; {plural(report.duplicated_keys, 'key')} repeated, in {plural(repeated, 'row')}"
        if policy is Duplicates.ERROR:
            keys += ": `block add` refuses the file unless --duplicates first or drop is given"
    certain = _certain(check, policy)
    lines = [
        keys,
        f"certainly lost by exact matching: {certain} rows ({certain / report.rows:.1%}): {report.blank} blank, "
        f"{report.unusable} unusable, {check.left_out(policy)} with repeated keys",
    ]
    if check.ways:
        lines.append(
            f"perhaps lost: {check.odd} rows ({check.odd / report.rows:.1%}) are written unlike most; they match only "
            "where the other party writes them the same way"
        )
    return lines


def _table(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Columns of text to the left, of numbers to the right; "" without rows."""
    if not rows:
        return ""
    lines = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    right = [isinstance(cell, int) for cell in rows[0]]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [head, *lines]
    )
