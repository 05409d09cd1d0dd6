"""Thousands of pairs of tables in every form that files and frames have: the overlap is the plain intersection of the
keys after the rule, in one order at both sides, or the refusal names the column; and nothing ever shows a key.

Each example is a seed: a failure is replayed by it alone.
"""

import csv
import io
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.blocks.block import BlockSpec, block_from_frame, describe_block, read_block
from parties.blocks.keys.agreement import check_agreement
from parties.blocks.keys.reading import Duplicates
from parties.blocks.schema import schema_text
from parties.roles.checking import check_file
from protocols.errors import FedaccordError, SubjectKeyError
from protocols.psi import align_in_clear

TOKENS = ["", " ", "NA", "n/a", "None", "-", "NULL", "999x"]
MARK = "zqx"
"""In each text key, so that a key that leaks is seen; numeric keys are long enough to be seen themselves."""
Cells = list[object]


@dataclass(frozen=True)
class Kind:
    """A key rule, and how the people 0..29 are written so that each is one key under it."""

    rule: str
    columns: tuple[str, ...]
    write: Callable[[random.Random, int], tuple[str, ...]]
    numeric: bool = False


def _digits(chance, person):
    text = str(73510000 + person * 37)
    return (chance.choice([text, text.zfill(10), f" {text}", f"{text} ", f"0{text}"]),)


def _name(chance, person):
    name = f"{MARK}-{'äöéßøłñ'[person % 7]}{person}"
    return chance.choice([name, name.upper(), f" {name}", name.replace("-", " "), name.replace("-", "")])


def _day(chance, person):
    year, month, day = 1950 + person, 1 + person % 12, 1 + person % 28
    return chance.choice(
        [
            f"{year}-{month:02}-{day:02}",
            f"{year}{month:02}{day:02}",
            f"{day}.{month}.{year}",
            f"{day:02}.{month:02}.{year}",
        ]
    )


def _mail(chance, person):
    mail = f"{MARK}.{person}@Example.org"
    return (chance.choice([mail, mail.upper(), f" {mail}", mail.lower()]),)


def _phone(chance, person):
    number = 7351000 + person
    return (
        chance.choice(
            [f"+49 30 {number}", f"030/{number}", f"(030) {number}", f"0049 30{number}", f"+4930{number}"]
        ),
    )


KINDS = [
    Kind("text", ("id",), lambda chance, person: (f"{MARK}{person}{';,|' if person % 5 == 0 else ''}é",)),
    Kind("text", ("id",), lambda chance, person: (str(73510000 + person),), numeric=True),
    Kind("text:trim", ("id",), lambda chance, person: (chance.choice(["", " ", "\t"]) + f"{MARK}{person}",)),
    Kind("digits:10", ("id",), _digits, numeric=True),
    Kind("code", ("id",), lambda chance, person: (chance.choice(["", "-", " "]).join(f"{MARK}{person:04}"),)),
    Kind("email", ("id",), _mail),
    Kind("phone:DE", ("id",), _phone),
    Kind("date:DD.MM.YYYY", ("id",), lambda chance, person: (_day(chance, person),)),
    Kind(
        "name+date:DD.MM.YYYY",
        ("id", "born"),
        lambda chance, person: (_name(chance, person), _day(chance, person)),
    ),
    Kind(
        "name+code+digits:10",
        ("id", "zip", "nr"),
        lambda chance, person: (
            _name(chance, person // 2),
            f"{'AB'[person % 2]}-1",
            *_digits(chance, person // 3),
        ),
    ),
]


@dataclass
class Side:
    """A party's table: each row's person (None where the key is blank), its written key and its number."""

    people: list[int | None]
    cells: list[tuple[str, ...]]

    def expected(self, policy):
        """Person -> the row that stands for them."""
        counts = Counter(person for person in self.people if person is not None)
        rows = {}
        for row, person in enumerate(self.people):
            if person is not None and (counts[person] == 1 or policy is Duplicates.FIRST):
                rows.setdefault(person, row)
        return rows


def a_side(chance, kind, duplicates):
    people = chance.sample(range(30), chance.randint(1, 12))
    if duplicates:
        people += chance.choices(people, k=chance.randint(0, 3))
    people += [None] * chance.randint(0, 3)
    chance.shuffle(people)
    cells = []
    for person in people:
        written = kind.write(chance, 0 if person is None else person)
        if person is None:
            blank = chance.randrange(len(written))
            token = chance.choice(TOKENS)
            written = (*written[:blank], token, *written[blank + 1 :])
        cells.append(written)
    return Side(people, cells)


def as_csv(chance, folder, kind, side):
    mark = chance.choice([",", ";", "\t", "|", ":", "^"])
    text = io.StringIO(newline="")
    quoting = chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(text, delimiter=mark, quoting=quoting, lineterminator=chance.choice(["\n", "\r\n"]))
    writer.writerows([("row", *kind.columns), *((row, *cells) for row, cells in enumerate(side.cells))])
    path = folder / "data.csv"
    path.write_bytes(text.getvalue().encode(chance.choice(["utf-8", "utf-8-sig", "utf-16", "utf-32"])))
    return path


NUMBERS = [
    pa.int64(),
    pa.uint64(),
    pa.float64(),
    pa.decimal128(25, 0),
    pa.decimal128(25, 3),
    pa.large_string(),
]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())]
FRAMES = ["object", "string", "string[pyarrow]", "category"]
NUMBER_FRAMES = ["Int64", "float64", "Float64", "object", "int64[pyarrow]", "category"]


def _numbers(side, row_cells):
    """The numbers of a key column, None where blank."""
    return [
        None if person is None else int(cell) for person, cell in zip(side.people, row_cells, strict=True)
    ]


def as_parquet(chance, folder, kind, side):
    columns = {"row": pa.array(range(len(side.cells)))}
    for name, cells in zip(kind.columns, zip(*side.cells, strict=True), strict=True):
        if kind.numeric and (form := chance.choice(NUMBERS)) != pa.large_string():
            columns[name] = pa.array(_numbers(side, cells), pa.int64()).cast(form)
        else:
            form = chance.choice(TEXTS)
            plain = pa.array([cell or None for cell in cells], pa.string())
            columns[name] = plain.dictionary_encode() if pa.types.is_dictionary(form) else plain.cast(form)
    path = folder / "data.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=chance.randint(1, 8))
    return path


def as_frame(chance, kind, side):
    columns = {"row": range(len(side.cells))}
    for name, cells in zip(kind.columns, zip(*side.cells, strict=True), strict=True):
        if kind.numeric and chance.random() < 0.7:
            columns[name] = pd.Series(_numbers(side, cells), dtype=object).astype(
                chance.choice(NUMBER_FRAMES)
            )
        elif kind.numeric:
            forms = [str, int, float, Decimal, lambda number: str(number).encode()]
            columns[name] = pd.Series(
                [None if n is None else chance.choice(forms)(n) for n in _numbers(side, cells)], dtype=object
            )
        else:
            columns[name] = pd.Series([cell or None for cell in cells], dtype=chance.choice(FRAMES))
    return pd.DataFrame(columns)


def spec(kind, policy):
    return BlockSpec(
        name="any",
        subject_key=",".join(kind.columns),
        key_rule=kind.rule,
        duplicates=policy,
        key_missing=("-", "999x", "n/a", "na", "none", "null"),
    )


def a_block(chance, folder, kind, side, policy):
    form = chance.randrange(3)
    if form == 2:
        return block_from_frame(as_frame(chance, kind, side), spec(kind, policy))
    path = as_csv(chance, folder, kind, side) if form else as_parquet(chance, folder, kind, side)
    return read_block(path, spec(kind, policy))


def secrets(side):
    return {cell.strip().lower() for cells in side.cells for cell in cells if len(cell.strip()) > 5} | {
        MARK,
        "7351",
    }


def shown(error):
    text = error.remedy + "".join(traceback.format_exception(error))
    hidden: BaseException | None = error
    while hidden is not None:
        text += str(hidden) + repr(hidden)
        hidden = hidden.__context__
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("any")


@settings(max_examples=1000, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_the_overlap_is_the_plain_intersection_in_one_order(folder, seed):
    chance = random.Random(seed)
    kind, policy = chance.choice(KINDS), chance.choice(list(Duplicates))
    sides, blocks = [], []
    for _ in range(2):
        side = a_side(chance, kind, duplicates=policy is not Duplicates.ERROR)
        if not side.expected(policy):
            return
        sides.append(side)
        blocks.append(a_block(chance, folder, kind, side, policy))
    expected = [side.expected(policy) for side in sides]
    if not _may_match(*blocks):
        assert not set(expected[0]) & set(expected[1])
        return
    keys = [[text.encode() for text in block.keys.texts.to_pylist()] for block in blocks]
    aligned = align_in_clear(*keys, b"s" * 32)
    rows = [
        block.table.columns[0].values[a.rows].astype(int).tolist()
        for block, a in zip(blocks, aligned, strict=True)
    ]
    people = [[side.people[row] for row in own] for side, own in zip(sides, rows, strict=True)]
    assert people[0] == people[1]
    assert set(people[0]) == set(expected[0]) & set(expected[1])
    assert all(rows[i][at] == expected[i][p] for i in (0, 1) for at, p in enumerate(people[i]))
    assert aligned[0].tag == aligned[1].tag
    for side, block in zip(sides, blocks, strict=True):
        _counts_add_up(side, block)
        told = (repr(block) + repr(block.keys) + schema_text(describe_block(block))).lower()
        assert not any(secret in told for secret in secrets(side))


def _may_match(one, other):
    """Whether the parties go on; else the refusal names the columns."""
    refusal = ""
    try:
        check_agreement(one.key_offer("bank"), other.key_offer("shop"))
    except SubjectKeyError as error:
        refusal = str(error)
    assert not refusal or f"bank column {one.spec.subject_key!r} and shop column" in refusal
    return not refusal


def _counts_add_up(side, block):
    report = block.keys.report
    assert report.rows == len(side.people)
    assert report.blank == side.people.count(None)
    assert report.rows == report.usable + report.blank + report.unusable + report.duplicate_rows_left_out


BAD = [
    ("float of 2**53 or more", lambda cells: pd.Series([float(2**53 + 2 * i) for i in range(len(cells))])),
    ("float with a fraction", lambda cells: pd.Series([7351.5 + i for i in range(len(cells))])),
    ("true or false", lambda cells: pd.Series([True] * len(cells))),
    ("bytes that are no text", lambda cells: pd.Series([b"\xff" + str(cell).encode() for cell in cells])),
    ("lists", lambda cells: pd.Series([[cell] for cell in cells])),
    ("times of day", lambda cells: pd.Series(pd.date_range("1950-01-01 07:35:10", periods=len(cells)))),
    ("former floats", lambda cells: pd.Series([f"{7351 + i}.0" for i in range(len(cells))])),
    ("exponents", lambda cells: pd.Series([f"7.351{i}E+15" for i in range(len(cells))])),
    ("one of another type", lambda cells: pd.Series([*cells[1:], (1,)], dtype=object)),
]


@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_what_cannot_be_a_key_names_the_column_and_shows_nothing(folder, seed):
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    side = a_side(chance, kind, duplicates=False)
    frame = as_frame(chance, kind, side)
    column = chance.choice(kind.columns)
    what, spoil = chance.choice(BAD)
    frame[column] = spoil([cells[kind.columns.index(column)] for cells in side.cells])
    wanted = spec(kind, Duplicates.ERROR)
    with pytest.raises(FedaccordError) as caught:
        block_from_frame(frame, wanted)
    assert repr(column) in str(caught.value), what
    assert not any(secret in shown(caught.value).lower() for secret in secrets(side)), what


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_duplicates_are_refused_with_counts_and_the_check_tells_the_same(folder, seed):
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    side = a_side(chance, kind, duplicates=True)
    counts = Counter(person for person in side.people if person is not None)
    repeated = [count for count in counts.values() if count > 1]
    path = as_csv(chance, folder, kind, side)
    document, text = check_file(path, spec(kind, Duplicates.DROP))
    assert document["certainly_lost"] == side.people.count(None) + sum(repeated)
    assert not any(secret in (text + repr(document)).lower() for secret in secrets(side))
    if not repeated:
        return
    with pytest.raises(SubjectKeyError) as caught:
        read_block(path, spec(kind, Duplicates.ERROR))
    plural = "s" * (len(repeated) > 1)
    assert f"{len(repeated)} duplicated key{plural} in {sum(repeated)} rows" in str(caught.value)
    assert all(repr(column) in str(caught.value) for column in kind.columns)
    assert not any(secret in shown(caught.value).lower() for secret in secrets(side))
