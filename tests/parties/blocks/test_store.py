"""The store: whole versions or none, opened by commitment and column, every change noticed."""

import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace as altered

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parties.blocks.store
from parties.blocks.block import block_from_table, read_block
from parties.blocks.block_files import part_digest, read_content
from parties.blocks.registration import register
from parties.blocks.schema import schema_text
from parties.blocks.store import Store
from protocols.errors import BlockError, DataMissingError, FedaccordError
from protocols.records import encode_record
from tests.parties.blocks.block_samples import BANK, bank_block, made_mock, spec, written

SALT = bytes(range(32))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "blocks")


def add(store, folder, **more):
    block = bank_block(folder)
    return store.add(block, made_mock(block), **more)


def test_what_was_added_comes_back(store, tmp_path):
    schema = add(store, tmp_path)
    data = store.open(schema.commitment, ("job", "age"), "y")
    block = bank_block(tmp_path)
    assert data.keys == tuple(key.encode() for key in block.keys.texts.to_pylist())
    assert data.table.names == ("job", "age")
    np.testing.assert_array_equal(data.table.columns[1].values, block.table.columns[0].values)
    np.testing.assert_array_equal(data.table.columns[0].codes, block.table.columns[1].codes)
    assert data.table.columns[0].levels == ("clerk", "nurse", "rare")
    np.testing.assert_array_equal(data.labels, block.labels)
    np.testing.assert_array_equal(data.split, block.split)
    assert data.classes == ("no", "yes")


def test_arrays_are_mapped_and_read_only(store, tmp_path):
    data = store.open(add(store, tmp_path).commitment, ("age",), "y")
    for array in (data.table.columns[0].values, data.split, data.labels):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable


def test_labels_are_opened_only_when_named(store, tmp_path):
    schema = add(store, tmp_path)
    data = store.open(schema.commitment, ("age",))
    assert (data.labels, data.classes) == (None, ())


def test_keys_of_any_text_come_back(store, tmp_path):
    keys = ["Zoë", "长城", " a ", "x" * 300, "-1"]
    text = "cust_id,a\n" + "".join(f"{key},{i}\n" for i, key in enumerate(keys))
    block = read_block(written(tmp_path, text), spec())
    schema = store.add(block, made_mock(block))
    assert store.open(schema.commitment, ("a",)).keys == tuple(key.encode() for key in keys)


def test_schema_list_and_mock(store, tmp_path):
    schema = add(store, tmp_path)
    assert store.list() == (schema,)
    assert store.describe("bank") == schema
    assert (schema.version, schema.rows, len(schema.commitment)) == (1, 60, 64)
    assert store.mock("bank").equals(made_mock(bank_block(tmp_path)))
    for name in ("none", "../bank", ""):
        with pytest.raises(DataMissingError):
            store.describe(name)


def test_files_belong_to_their_owner_only(store, tmp_path):
    add(store, tmp_path)
    store.open(store.describe("bank").commitment, ("age",))
    for folder, names, files in os.walk(store.folder):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(os.path.join(folder, file)).st_mode) == 0o600 for file in files)
        assert not any(name.startswith(".incoming") for name in names)


def test_the_same_name_needs_replace_and_gives_version_two(store, tmp_path):
    first = add(store, tmp_path)
    with pytest.raises(BlockError, match="'bank' exists already"):
        add(store, tmp_path)
    second = add(store, tmp_path, replace=True)
    assert (second.version, store.list()) == (2, (second,))
    assert second.commitment != first.commitment
    with pytest.raises(BlockError, match="version 1 was replaced by version 2"):
        store.open(first.commitment, ("age",))
    assert store.open(second.commitment, ("age",)).table.rows == 60
    assert [path.name for path in (store.folder / "bank" / "v1").iterdir()] == ["schema.json"]


def test_replacing_nothing_is_an_error(store, tmp_path):
    with pytest.raises(BlockError, match="no block 'bank' to replace"):
        add(store, tmp_path, replace=True)


def test_the_commitment_depends_on_salt_and_content(tmp_path):
    def commitment(number, text, salt):
        store = Store(tmp_path / f"s{number}")
        block = read_block(written(tmp_path, text), spec(label="y", split="part"))
        return store.add(block, made_mock(block), salt=salt).commitment

    base = commitment(1, BANK, SALT)
    assert commitment(2, BANK, SALT) == base
    assert commitment(3, BANK, bytes(32)) != base
    assert commitment(4, BANK.replace("B001,21", "B001,22"), SALT) != base
    assert commitment(5, BANK.replace("B001", "B999"), SALT) != base
    assert commitment(6, BANK.replace("B001,21,nurse,no", "B001,21,nurse,yes"), SALT) != base
    with pytest.raises(BlockError, match="salt has 3 bytes"):
        commitment(7, BANK, b"abc")


def test_the_salt_is_drawn_anew_and_stays_private(store, tmp_path):
    schema = add(store, tmp_path)
    second = add(store, tmp_path, replace=True)
    content = read_content((store.folder / "bank" / "v2" / "content.json").read_bytes())
    assert len(bytes.fromhex(content.salt)) == 32
    assert schema.commitment != second.commitment
    assert content.salt not in schema_text(second)


PRIVATE_FILES = [
    "keys.bin",
    "key_offsets.npy",
    "split.npy",
    "labels.npy",
    "column-0.npy",
    "column-1.npy",
    "column-1.json",
]


def damaged(path, how):
    data = path.read_bytes()
    if how == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif how == "cut":
        path.write_bytes(data[:-1])
    elif how == "longer":
        path.write_bytes(data + b" ")
    elif how == "linked":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "cut", "longer", "linked", "gone"])
@pytest.mark.parametrize("file", PRIVATE_FILES)
def test_a_changed_file_is_noticed(store, tmp_path, file, how):
    schema = add(store, tmp_path)
    damaged(store.folder / "bank" / "v1" / file, how)
    with pytest.raises(BlockError, match=f"content changed: {file}"):
        store.open(schema.commitment, ("age", "job"), "y")


def test_only_asked_columns_are_opened(store, tmp_path):
    schema = add(store, tmp_path)
    for file in ("column-1.npy", "column-1.json", "labels.npy"):
        (store.folder / "bank" / "v1" / file).unlink()
    assert store.open(schema.commitment, ("age",)).table.rows == 60


def test_swapped_columns_are_noticed(store, tmp_path):
    text = "cust_id,a,b\n1,5,7\n2,6,8\n"
    block = read_block(written(tmp_path, text), spec())
    schema = store.add(block, made_mock(block))
    first, second = (store.folder / "bank" / "v1" / f"column-{i}.npy" for i in range(2))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    with pytest.raises(BlockError, match="content changed"):
        store.open(schema.commitment, ("a", "b"))


def test_a_changed_list_of_contents_or_schema_is_noticed(store, tmp_path):
    schema = add(store, tmp_path)
    folder = store.folder / "bank" / "v1"
    content = folder / "content.json"
    good = content.read_bytes()
    for bad in (good.replace(b'"salt":"', b'"salt":"00'), b"{}", b"", good[:-2]):
        content.write_bytes(bad)
        with pytest.raises(BlockError):
            store.open(schema.commitment, ("age",))
    content.write_bytes(good)
    renamed = altered(schema, columns=(altered(schema.columns[0], name="wage"), schema.columns[1]))
    (folder / "schema.json").write_text(schema_text(renamed))
    with pytest.raises(BlockError, match=r"content changed: schema\.json"):
        store.open(schema.commitment, ("wage",))
    (folder / "schema.json").write_text("{")
    with pytest.raises(BlockError, match="content changed: the schema of block 'bank'"):
        store.list()


def test_a_consistent_forgery_of_file_and_digest_is_noticed(store, tmp_path):
    schema = add(store, tmp_path)
    folder = store.folder / "bank" / "v1"
    content = read_content((folder / "content.json").read_bytes())
    data = (folder / "column-0.npy").read_bytes()
    forged = data[:-1] + bytes([data[-1] ^ 1])
    digest = part_digest(bytes.fromhex(content.salt), "column-0.npy", forged)
    parts = tuple(
        altered(part, digest=digest) if part.file == "column-0.npy" else part for part in content.parts
    )
    (folder / "column-0.npy").write_bytes(forged)
    (folder / "content.json").write_bytes(encode_record(altered(content, parts=parts)))
    with pytest.raises(BlockError, match=r"content changed: content\.json"):
        store.open(schema.commitment, ("age",))


def test_openings_are_counted_and_refusals_are_not(store, tmp_path):
    schema = add(store, tmp_path)
    assert store.opens("bank") == 0
    store.open(schema.commitment, ("age",))
    assert store.opens("bank") == 1
    for commitment, columns, label in [
        ("0" * 64, ("age",), ""),
        (schema.commitment, ("wage",), ""),
        (schema.commitment, ("age", "age"), ""),
        (schema.commitment, ("age",), "age"),
        (schema.commitment, ("y",), ""),
    ]:
        with pytest.raises(DataMissingError):
            store.open(commitment, columns, label)
    store.list(), store.mock("bank")
    assert store.opens("bank") == 1
    store.open(schema.commitment, ("age",))
    assert store.opens("bank") == 2


def test_an_alignment_opens_keys_and_split_and_no_column(store, tmp_path):
    schema = add(store, tmp_path)
    whole, keys_only = store.open(schema.commitment, ("age",)), store.open(schema.commitment, ())
    assert keys_only.keys == whole.keys
    assert keys_only.table.columns == ()
    assert keys_only.table.rows == whole.table.rows
    assert keys_only.split.tolist() == whole.split.tolist()
    assert keys_only.labels is None


@pytest.mark.parametrize("after", range(9))
def test_a_crash_while_writing_leaves_the_old_version(store, tmp_path, monkeypatch, after):
    first = add(store, tmp_path)
    writes = 0
    real = parties.blocks.store.write_private

    def crashing(path, data):
        nonlocal writes
        writes += 1
        if writes > after:
            raise OSError("disk full")
        real(path, data)

    monkeypatch.setattr(parties.blocks.store, "write_private", crashing)
    with pytest.raises(OSError, match="disk full"):
        add(store, tmp_path, replace=True)
    monkeypatch.undo()
    assert store.list() == (first,)
    assert store.open(first.commitment, ("age",), "y").table.rows == 60
    assert add(store, tmp_path, replace=True).version == 2
    assert sorted(path.name for path in (store.folder / "bank").iterdir()) == ["opens.log", "v1", "v2"]


def test_a_first_add_that_crashed_leaves_no_block(store, tmp_path, monkeypatch):
    monkeypatch.setattr(
        parties.blocks.store.os, "rename", lambda *_: (_ for _ in ()).throw(OSError("killed"))
    )
    with pytest.raises(OSError, match="killed"):
        add(store, tmp_path)
    monkeypatch.undo()
    assert store.list() == ()
    assert add(store, tmp_path).version == 1


def test_what_a_killed_add_left_goes_with_the_next_add_of_any_name(store, tmp_path):
    left = store.folder / "other" / ".incoming-4711"
    left.mkdir(parents=True)
    (left / "keys.bin").write_bytes(b"007")
    add(store, tmp_path)
    assert not left.exists()
    assert [schema.block for schema in store.list()] == ["bank"]


def test_two_writers_at_once(store, tmp_path):
    block = bank_block(tmp_path)
    mock = made_mock(block)
    results = []

    def work():
        try:
            results.append(Store(store.folder).add(block, mock).version)
        except BlockError:
            results.append("refused")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == [1, "refused", "refused", "refused"]


def test_private_values_are_in_private_files_only(store, tmp_path):
    add(store, tmp_path)
    folder = store.folder / "bank" / "v1"
    assert b"B001" in (folder / "keys.bin").read_bytes()
    for file in ("schema.json", "mock.csv", "content.json"):
        text = (folder / file).read_text()
        assert "B0" not in text
        assert "rare" not in text


def test_registration_of_the_acceptance_cases(store, tmp_path):
    private = "cust_id,amt\n007,1.0\n012,2.0\n"
    path = written(tmp_path, private, "private.csv")
    generator = np.random.default_rng(0)

    def registered(mock, file=path, **more):
        given = None if mock is None else written(tmp_path, mock, "mock.csv")
        return register(store, file, spec(name="shop"), generator=generator, mock=given, **more)

    with pytest.raises(BlockError, match="missing cust_id, amt; extra x"):
        registered("x\n1\n")
    with pytest.raises(BlockError, match="mock holds 2 private rows"):
        registered(private)
    with pytest.raises(BlockError, match="line 3: 1 field, header has 2"):
        registered(None, written(tmp_path, "cust_id,amt\n007,1.0\n012\n", "ragged.csv"))
    assert store.list() == ()
    assert not list(store.folder.glob("shop*"))
    done = registered("cust_id,amt\n000,0.0\n")
    assert (done.schema.version, done.schema.rows, done.keys.usable) == (1, 10, 2)
    assert [(column.name, column.dtype) for column in done.schema.columns] == [("amt", "float64")]
    with pytest.raises(BlockError, match="'shop' exists already"):
        registered(None)
    assert registered(None, replace=True).schema.version == 2


def test_another_process_reads_what_was_stored(store, tmp_path):
    schema = add(store, tmp_path)
    code = (
        "import sys, pathlib; from parties.blocks.store import Store;"
        "data = Store(pathlib.Path(sys.argv[1])).open(sys.argv[2], ('age',), 'y');"
        "print(data.table.rows, 'torch' in sys.modules, 'syft' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.folder), schema.commitment],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["60", "False", "False"]
    assert store.opens("bank") == 1


cell = st.one_of(st.none(), st.text(st.characters(blacklist_categories=("Cs",)), max_size=5))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=12))
def test_any_block_that_reads_comes_back(tmp_path_factory, rows):
    import pyarrow as pa

    table = pa.table(
        {
            "cust_id": pa.array([k for k, _ in rows], pa.string()),
            "a": pa.array([a for _, a in rows], pa.string()),
        }
    )
    try:
        block = block_from_table(table, spec())
    except FedaccordError:
        return
    store = Store(tmp_path_factory.mktemp("store") / "blocks")
    schema = store.add(block, made_mock(block))
    data = store.open(schema.commitment, ("a",))
    assert data.keys == tuple(key.encode() for key in block.keys.texts.to_pylist())
    assert json.loads(schema_text(schema))["key_rule"] == "text@1"
    mine, theirs = data.table.columns[0], block.table.columns[0]
    assert type(mine) is type(theirs)
