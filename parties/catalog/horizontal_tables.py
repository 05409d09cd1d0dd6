"""From a client's block to the rows of a horizontal training, and from what all clients publish to rules for them."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from horizontal.local import Examples
from horizontal.public_rules import LevelRule, NumberRule, Rule, check_columns, rules_text
from horizontal.table_task import TableTask
from parties.blocks.columns import ColumnKind
from parties.blocks.schema import BlockSchema, PublicColumn
from protocols.errors import BlockError, RequestError
from vertical.table import CategoricalColumn, Column, NumericColumn, PartyData, Split, Table


def features(table: Table, rules: Sequence[Rule]) -> NDArray[np.float32]:
    """The table's columns under the rules, float32 (rows, width). BlockError naming a column that doesn't fit."""
    check_columns(rules, table.names)
    by_name = {column.name: column for column in table.columns}
    return np.concatenate([_apply(rule, by_name[rule.name]) for rule in rules], axis=1).astype(np.float32)


def _apply(rule: Rule, column: Column) -> NDArray[np.float64]:
    match rule, column:
        case NumberRule(), NumericColumn():
            return rule.apply(column.values)
        case LevelRule(), CategoricalColumn():
            return rule.apply(column.codes, column.levels)
    kinds = ("numbers", "categories") if isinstance(rule, NumberRule) else ("categories", "numbers")
    raise BlockError(
        f"column {rule.name!r}: the request reads {kinds[0]}, the block holds {kinds[1]}",
        remedy="add the block again with the other kind for this column",
    )


def client_rows(data: PartyData, task: TableTask) -> tuple[Examples, Examples | None, Examples | None]:
    """Training, validation and test rows (None where there are none); rows without a label are left out.

    BlockError for a block without labels, or with a class that the task doesn't have.
    """
    if data.labels is None:
        raise BlockError("the block has no labels to train on", remedy="add it with --label")
    if strange := sorted(set(data.classes) - set(task.classes)):
        raise BlockError(
            f"the block has {len(strange)} classes that the request doesn't list",
            remedy="ask with all classes that any client has",
        )
    code_of = np.array([*(task.classes.index(name) for name in data.classes), -1], np.int64)
    x, y = torch.from_numpy(features(data.table, task.rules)), torch.from_numpy(code_of[data.labels])

    def of(split: Split) -> Examples:
        rows = torch.from_numpy(data.rows_of(split))
        rows = rows[y[rows] >= 0]
        return Examples(x[rows], y[rows])

    training, validation, test = of(Split.TRAIN), of(Split.VALIDATION), of(Split.TEST)
    return training, validation if len(validation) else None, test if len(test) else None


def labelled_rows(data: PartyData) -> dict[str, NDArray[np.int64]]:
    """The rows that `client_rows` takes, by what a report counts them as."""
    known = np.zeros(len(data.keys), bool) if data.labels is None else data.labels >= 0
    splits = {"training": Split.TRAIN, "validation": Split.VALIDATION, "test": Split.TEST}
    return {f"people.{name}": np.flatnonzero(known & (data.split == split)) for name, split in splits.items()}


def class_counts(rows: Examples, task: TableTask) -> dict[str, int]:
    """How many of the rows are of each class that occurs."""
    counts = torch.bincount(rows.labels, minlength=len(task.classes)).tolist()
    return {name: count for name, count in zip(task.classes, counts, strict=True) if count}


def published_task(schemas: Mapping[str, BlockSchema], given: Collection[str]) -> dict[str, object]:
    """Features and classes from what the blocks publish, where they aren't given: all of it is known before a request.

    A number's range goes from the lowest to the highest quantile that any client publishes, a category has every listed
    level, classes are those of all. RequestError naming what a client lacks.
    """
    found: dict[str, object] = {}
    if "classes" not in given:
        for role, schema in schemas.items():
            if not schema.label:
                raise RequestError(f"block {schema.block} of {role} has no label to train on")
        found["classes"] = sorted({name for schema in schemas.values() for name in schema.classes})
    if "features" not in given:
        first = next(iter(schemas.values()))
        for role, schema in schemas.items():
            if schema.names != first.names:
                other = sorted(set(schema.names) ^ set(first.names)) or ["another order"]
                raise RequestError(
                    f"the columns of {role} differ from the first client's: {', '.join(other[:5])}",
                    remedy="name the same columns, in the same order, of every client",
                )
        columns = zip(*(schema.columns for schema in schemas.values()), strict=True)
        found["features"] = rules_text([_published_rule(same) for same in columns])
    return found


def _published_rule(columns: Sequence[PublicColumn]) -> Rule:
    name = columns[0].name
    if len({column.kind is ColumnKind.CATEGORICAL for column in columns}) > 1:
        raise RequestError(f"column {name!r} holds numbers at one client and categories at another")
    if columns[0].kind is ColumnKind.CATEGORICAL:
        levels = sorted({level for column in columns for level in column.levels})
        if levels:
            return LevelRule(name, tuple(levels))
    values = [quantile.value for column in columns for quantile in column.quantiles]
    if not values:
        raise RequestError(
            f"column {name!r}: no client publishes a level or quantile of it",
            remedy="leave it out of the columns, or give the features in the parameters",
        )
    low, high = min(values), max(values)
    return NumberRule(name, low, high if high > low else low + 1.0)
