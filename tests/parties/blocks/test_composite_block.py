"""A block whose key is several columns: stored, opened, published with a mock twin, and planned as any other."""

import numpy as np
import pandas as pd
import pytest

from parties.blocks.block import BlockSpec, describe_block, read_block
from parties.blocks.mock import CANONICAL, checked_mock, free_prefix, make_mock, mock_table
from parties.blocks.registration import register
from parties.blocks.schema import parse_schema, schema_text
from parties.blocks.store import Store
from protocols.errors import BlockError, SubjectKeyError
from tests.parties.blocks.block_samples import written

ROWS = "".join(f"Lang {n};{1 + n % 28}.{1 + n % 12}.1980;{n};{'ab'[n % 2]}\n" for n in range(40))
TEXT = "surname;born;amt;town\n" + ROWS
SPEC = BlockSpec(name="shop", subject_key="surname, born", key_rule="name+date:DD.MM.YYYY")


def test_key_columns_are_no_features_and_are_published(tmp_path):
    block = read_block(written(tmp_path, TEXT), SPEC)
    assert block.table.names == ("amt", "town")
    assert block.keys.texts[0].as_py() == "5:lang010:1980-01-01"
    schema = describe_block(block)
    assert (schema.subject_key, schema.key_columns) == ("surname, born", ("surname", "born"))
    assert schema.key_rule == "composite@1(name@1+date:DD.MM.YYYY@1)"
    assert [form.width for form in schema.key_formats] == [0, 10]
    assert schema.all_names == ("surname", "born", "amt", "town")
    assert parse_schema(schema_text(schema)) == schema


def test_what_is_stored_is_opened(tmp_path):
    store = Store(tmp_path / "store")
    done = register(store, written(tmp_path, TEXT), SPEC, generator=np.random.default_rng(0))
    assert (done.keys.usable, done.source) == (40, "utf-8 text separated by ';'")
    data = store.open(done.schema.commitment, ("amt",))
    assert data.keys[1] == b"5:lang110:1980-02-02"
    mock = store.mock("shop")
    assert list(mock.columns) == ["surname", "born", "amt", "town"]
    assert mock["surname"][0] == mock["born"][0] == "MOCK-000001"
    assert mock_table(done.schema, mock)[0].rows == len(mock)


def test_a_mock_of_the_owner_may_hold_no_private_key(tmp_path):
    block = read_block(written(tmp_path, TEXT), SPEC)
    invented = pd.DataFrame({"surname": ["LANG 1"], "born": ["1980-01-01"], "amt": ["9"], "town": ["a"]})
    assert len(checked_mock(block, invented)) == 1  # Lang 1 was born on another day
    with pytest.raises(BlockError, match="mock holds 1 private key") as caught:
        checked_mock(block, invented.assign(born="1980-02-02"))
    assert "1980" not in str(caught.value)
    with pytest.raises(BlockError, match="missing born"):
        checked_mock(block, invented.drop(columns="born"))


@pytest.mark.parametrize("rule", ["name", "code", "text"])
def test_mock_keys_are_nobodys_under_any_rule(tmp_path, rule):
    text = "id,amt\nmock 000001,1\nMock-X-7,2\n"
    spec = BlockSpec(name="shop", subject_key="id", key_rule=rule)
    block = read_block(written(tmp_path, text), spec)
    assert free_prefix(block) == "MOCK-X-X-"
    made = make_mock(
        describe_block(block), rows=9, generator=np.random.default_rng(0), prefix=free_prefix(block)
    )
    assert len(checked_mock(block, made, CANONICAL)) == 9


@pytest.mark.parametrize(
    ("key", "rule", "told"),
    [
        ("surname", "name+date", "has 2 parts; 'surname'"),
        ("surname,born,town", "name+date", "has 2 parts"),
        ("surname,surname", "name+name", "not as many different columns"),
    ],
)
def test_columns_and_parts_must_be_as_many(key, rule, told):
    with pytest.raises(SubjectKeyError, match=told):
        BlockSpec(name="shop", subject_key=key, key_rule=rule)


def test_a_key_column_is_nothing_else(tmp_path):
    for more in ({"label": "born"}, {"split": "surname"}, {"ignore": ("born",)}):
        with pytest.raises(BlockError, match=r"born|different columns"):
            BlockSpec(name="shop", subject_key="surname,born", key_rule="name+date", **more)
    with pytest.raises(BlockError, match="no column 'born'"):
        read_block(written(tmp_path, "surname;amt\nLang;1\n"), SPEC)


def test_a_schema_whose_formats_do_not_fit_its_rule_is_refused(tmp_path):
    text = schema_text(describe_block(read_block(written(tmp_path, TEXT), SPEC)))
    with pytest.raises(SubjectKeyError, match="has 2 parts"):
        parse_schema(text.replace("surname, born", "surname"))
    with pytest.raises(BlockError, match="key_formats: 2 for 1 key column"):
        parse_schema(text.replace("composite@1(name@1+date:DD.MM.YYYY@1)", "name@1"))
