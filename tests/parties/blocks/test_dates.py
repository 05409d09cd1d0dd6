"""Dates of any usual spelling are days since 1970-01-01; what can be read in two ways is asked for."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.blocks.block import describe_block, read_block
from parties.blocks.columns import CellRules, ColumnKind, typed_column
from parties.blocks.dates import DateOrder, date_text
from parties.blocks.mock import checked_mock, mock_table
from parties.blocks.schema import public_column, schema_text
from parties.blocks.store import Store
from protocols.errors import BlockError
from tests.parties.blocks.block_samples import made_mock, spec, written
from vertical.table import CategoricalColumn, DateColumn

DAY = datetime.date(2020, 1, 31)  # 18292 days: 50 years of 365, 12 leap days (1972 to 2016), 30 days
NUMBER = 50 * 365 + 12 + 30


def typed(values, kind=None, arrow=None, **rules):
    cells = pa.chunked_array([pa.array(values, arrow or pa.large_string())])
    return typed_column("since", cells, kind, CellRules(**rules))


def days(values, *more, **rules):
    column = typed(values, *more, **rules)
    assert isinstance(column, DateColumn)
    return [None if np.isnan(value) else float(value) for value in column.values]


def test_dates_of_every_spelling_are_the_same_days():
    spellings = ["2020-01-31"], ["31.1.2020"], ["31/01/2020"], ["1/31/2020"], ["31-1-2020"]
    for text in spellings:
        assert days([*text, "", None, "?"]) == [NUMBER, None, None, None]
    assert days(["1969-12-31", "1970-01-01", "0001-01-01"]) == [-1, 0, -719162]


def test_the_time_of_day_is_a_fraction_in_utc():
    assert days(["2020-01-31T06:00"]) == [NUMBER + 0.25]
    assert days(["2020-01-31 18:00:00.5"]) == [pytest.approx(NUMBER + 0.75 + 0.5 / 86400, abs=1e-9)]
    assert days(["2020-01-31T00:00:00Z", "2020-01-31T12:00+12:00", "2020-01-30T13:30-10:30"]) == [NUMBER] * 3
    assert days(["31.1.2020 12:00"]) == [NUMBER + 0.5]


def test_dates_of_parquet():
    assert days([DAY, None], None, pa.date32()) == [NUMBER, None]
    noon = datetime.datetime(2020, 1, 31, 12)
    for unit in ("s", "ms", "us", "ns"):
        assert days([noon, None], None, pa.timestamp(unit)) == [NUMBER + 0.5, None]
    aware = noon.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=6)))
    assert days([aware], ColumnKind.DATE, pa.timestamp("us", "Europe/Berlin")) == [NUMBER + 0.25]


def test_numbers_are_no_dates():
    with pytest.raises(BlockError, match="2 of 2 cells are not dates"):
        typed([18262, 20200131], ColumnKind.DATE, pa.int64())


def test_days_and_months_that_the_column_does_not_tell_apart_are_asked_for():
    with pytest.raises(BlockError, match=r"'since': days and months.*can't be told apart") as caught:
        typed(["1/2/2020", "3/4/2020"])
    assert "--date-order day-first or month-first" in caught.value.remedy
    assert days(["1/2/1970"], date_order=DateOrder.DAY_FIRST) == [31]
    assert days(["1/2/1970"], date_order=DateOrder.MONTH_FIRST) == [1]
    assert days(["1/2/1970", "13/2/1970"]) == [31, 43]  # one row tells
    assert days(["1/2/1970", "1/13/1970"]) == [1, 12]
    assert days(["1.2.1970", "3.4.1970"]) == [31, 92]  # with points the day always stands first
    assert days(["5/5/1970"]) == [124]  # no matter


@pytest.mark.parametrize(
    "bad", ["2021-02-29", "2020-13-01", "2020-00-10", "2020-01-00", "0000-01-01", "2020-01-31T24:00", "today"]
)
def test_what_is_no_day_is_counted_and_not_quoted(bad):
    with pytest.raises(BlockError, match="'since': 1 of 2 cells are not dates") as caught:
        typed(["2020-01-31", bad], ColumnKind.DATE)
    assert bad not in f"{caught.value} {caught.value.remedy}"
    many = [str(DAY + datetime.timedelta(days=i)) for i in range(60)]
    with pytest.raises(BlockError, match="'since': 1 of 61 cells are not dates"):
        typed([*many, bad])


def test_few_days_and_other_words_are_levels():
    assert isinstance(typed(["2020-01-31", "2020-02-01", "later"]), CategoricalColumn)
    assert isinstance(typed(["1.2.20", "1.2.3", "0.1.0"]), CategoricalColumn)
    assert isinstance(typed(["2020-01-31"], ColumnKind.CATEGORICAL), CategoricalColumn)
    assert typed(["", None]).values.tolist() == pytest.approx([np.nan] * 2, nan_ok=True)


@given(st.lists(st.one_of(st.none(), st.datetimes(datetime.datetime(1, 1, 2))), min_size=1))
def test_text_and_binary_agree_and_come_back(values):
    values = [None if value is None else value.replace(microsecond=0) for value in values]
    text = days([value and value.isoformat() for value in values], ColumnKind.DATE)
    binary = days(values, ColumnKind.DATE, pa.timestamp("s"))
    assert text == pytest.approx(binary, abs=1e-9)
    again = [date_text(np.nan if day is None else day) for day in text]
    expected = [
        "" if v is None else str(v.date()) if v.time() == datetime.time() else v.isoformat() for v in values
    ]
    assert again == expected


def dated_block(folder):
    """60 people, a new one each day from 2020-01-01; row 7 has no date."""
    rows = [
        f"C{i:03d},{'' if i == 7 else datetime.date(2020, 1, 1) + datetime.timedelta(i)}" for i in range(60)
    ]
    return read_block(written(folder, "cust_id,since\n" + "\n".join(rows) + "\n"), spec())


def test_published_of_dates_are_quantiles_as_coarse_as_a_hundred_days(tmp_path):
    block = dated_block(tmp_path)
    (column,) = describe_block(block).columns
    assert (column.kind, column.dtype, column.whole_numbers) == (ColumnKind.DATE, "date", True)
    assert [(q.share, q.value) for q in column.quantiles] == [
        (0.25, 18300.0),
        (0.5, 18300.0),
        (0.75, 18300.0),
    ]
    assert "2020" not in schema_text(describe_block(block))
    near = DateColumn(name="since", values=np.arange(100.0))
    assert {q.value % 100 for q in public_column(near).quantiles} == {0.0}


def test_a_mock_holds_dates_and_is_read_as_such(tmp_path):
    block = dated_block(tmp_path)
    mock = made_mock(block)
    assert set(mock["since"]) <= {"2020-02-08", ""}  # day 18300
    table, _ = mock_table(describe_block(block), mock)
    assert isinstance(table.columns[0], DateColumn)
    own = pa.table({"cust_id": ["X1", "X2"], "since": ["2019-05-01", "2019-05-01T06:30"]})
    assert checked_mock(block, own)["since"].tolist() == ["2019-05-01", "2019-05-01T06:30:00"]


def test_a_stored_date_column_opens_as_dates(tmp_path):
    block = dated_block(tmp_path)
    store = Store(tmp_path / "blocks")
    schema = store.add(block, made_mock(block))
    (column,) = store.open(schema.commitment, ("since",)).table.columns
    assert isinstance(column, DateColumn)
    assert isinstance(column.take(np.array([7, 0])), DateColumn)
    assert column.take(np.array([7, 0])).values.tolist() == pytest.approx([np.nan, 18262.0], nan_ok=True)
