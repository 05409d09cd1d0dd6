"""A person is taken out of a block: later alignments don't find the person, and nothing that was only theirs stays."""

from pathlib import Path

import numpy as np
import pytest

from parties.blocks.block import BlockSpec
from parties.blocks.erasure import erase_people
from parties.blocks.registration import register
from parties.blocks.store import Store
from protocols.errors import BlockError, DataMissingError, FedaccordError, SubjectKeyError
from tests.parties.blocks.block_samples import BANK
from tests.protocols.psi.sets import align
from vertical.table import CategoricalColumn

BANK_AC_05 = "cust_id,y,amt\nc3,0,30\na1,1,10\nb2,0,20\nd4,1,40\n"
SHOP_AC_05 = "cust_id,spend\nb2,200\nz9,900\na1,100\nd4,400\n"
PEOPLE = "surname,born,amt\nAda,1815-12-10,1\nBo,1990-01-02,2\nCy,1991-03-04,3\n"


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def stored(folder: Path, text: str, **spec: str) -> Store:
    folder.mkdir(exist_ok=True)
    (folder / "data.csv").write_text(text)
    store = Store(folder / "blocks")
    named = {"name": "people", "subject_key": "cust_id"} | spec
    register(store, folder / "data.csv", BlockSpec(**named), generator=generator())  # type: ignore[arg-type]
    return store


def key_file(folder: Path, text: str) -> Path:
    (folder / "keys.txt").write_text(text)
    return folder / "keys.txt"


def keys(store: Store) -> tuple[bytes, ...]:
    schema = store.describe("people")
    return store.open(schema.commitment, schema.names, schema.label).keys


def test_R16_an_erased_person_is_in_no_later_alignment(tmp_path: Path) -> None:
    bank = stored(tmp_path / "bank", BANK_AC_05, label="y")
    shop = stored(tmp_path / "shop", SHOP_AC_05)
    before = bank.describe("people").commitment
    assert len(align(keys(bank), keys(shop))[0].rows) == 3
    done = erase_people(bank, "people", key_file(tmp_path, "a1\n"), generator())
    assert (done.before, done.schema.version, done.people, done.absent) == (1, 2, 1, 0)
    left, _ = align(keys(bank), keys(shop))
    assert {keys(bank)[row] for row in left.rows} == {b"b2", b"d4"}
    schema = bank.describe("people")
    data = bank.open(schema.commitment, ("amt",), "y")
    amounts = dict(zip(data.keys, data.table.columns[0].values.tolist(), strict=True))  # type: ignore[union-attr]
    assert amounts == {b"c3": 30.0, b"b2": 20.0, b"d4": 40.0}
    assert data.labels is not None
    assert [data.classes[code] for code in data.labels] == ["0", "0", "1"]
    with pytest.raises(BlockError, match="replaced by version 2"):
        bank.open(before, ("amt",), "y")
    assert sorted(path.name for path in (bank.folder / "people" / "v1").iterdir()) == ["schema.json"]


def test_R16_of_two_erasures_at_once_neither_brings_the_other_ones_people_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = stored(tmp_path / "bank", BANK_AC_05, label="y")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    add = bank.add

    def after_the_other(*given: object, **named: object) -> object:
        """The store as the second owner finds it: the first was done between reading and storing."""
        erase_people(Store(bank.folder), "people", key_file(first, "a1\n"), generator())
        return add(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(bank, "add", after_the_other)
    with pytest.raises(BlockError, match="became version 2 while version 1 was being changed"):
        erase_people(bank, "people", key_file(second, "d4\n"), generator())
    monkeypatch.undo()
    assert set(keys(bank)) == {b"c3", b"b2", b"d4"}
    erase_people(bank, "people", key_file(second, "d4\n"), generator())
    assert set(keys(bank)) == {b"c3", b"b2"}


def test_R16_what_only_the_erased_had_goes_with_them(tmp_path: Path) -> None:
    """B007 alone is a "rare"; no file of the store may say so afterwards."""
    store = stored(tmp_path / "bank", BANK, label="y", split="part")
    assert any(b"rare" in path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    erase_people(store, "people", key_file(tmp_path, "B007\n"), generator())
    for path in store.folder.rglob("*"):
        if path.is_file():
            assert b"rare" not in path.read_bytes(), path
            assert b"B007" not in path.read_bytes(), path
    schema = store.describe("people")
    data = store.open(schema.commitment, schema.names, schema.label)
    assert len(data.keys) == 59
    jobs = next(column for column in data.table.columns if column.name == "job")
    assert isinstance(jobs, CategoricalColumn)
    lines = {line.split(",")[0]: line.split(",") for line in BANK.splitlines()[1:]}
    for key, code in zip(data.keys, jobs.codes, strict=True):
        assert jobs.levels[code] == lines[key.decode()][2]


def test_R16_keys_are_read_by_the_rule_of_the_block(tmp_path: Path) -> None:
    rule = {"subject_key": "surname,born", "key_rule": "name+date"}
    store = stored(tmp_path / "bank", PEOPLE, **rule)
    forms = store.describe("people").key_formats
    done = erase_people(store, "people", key_file(tmp_path, "  ADA ,1815-12-10\n"), generator())
    assert (done.people, done.schema.rows) == (1, store.describe("people").rows)
    assert len(keys(store)) == 2
    assert len(done.schema.key_formats) == len(forms)
    assert not any(b"ada" in key for key in keys(store))


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", SubjectKeyError, "is empty"),
        ("q8\nq9\n", BlockError, "none of the 2 keys"),
        ("c3\na1\nb2\nd4\n", BlockError, "nobody left"),
    ],
)
def test_R16_nothing_changes_when_it_cannot_be_done(
    tmp_path: Path, text: str, error: type[FedaccordError], words: str
) -> None:
    bank = stored(tmp_path / "bank", BANK_AC_05, label="y")
    with pytest.raises(error, match=words) as raised:
        erase_people(bank, "people", key_file(tmp_path, text), generator())
    assert not any(key in str(raised.value) for key in ("c3", "a1", "q8"))
    assert bank.describe("people").version == 1
    assert len(keys(bank)) == 4


def test_R16_a_line_that_is_no_key_stops_it_without_being_shown(tmp_path: Path) -> None:
    store = stored(tmp_path / "bank", PEOPLE, subject_key="surname,born", key_rule="name+date")
    for text, words in (("Ada\n", "1 line of 1"), ("Ada,soon\n", "no key|unusable|fit")):
        with pytest.raises(SubjectKeyError, match=words) as raised:
            erase_people(store, "people", key_file(tmp_path, text), generator())
        assert "Ada" not in str(raised.value)
        assert "soon" not in str(raised.value)
    assert len(keys(store)) == 3


def test_R16_an_unknown_block_or_file_is_named(tmp_path: Path) -> None:
    store = stored(tmp_path / "bank", BANK_AC_05)
    with pytest.raises(DataMissingError, match="no block 'others'"):
        erase_people(store, "others", key_file(tmp_path, "a1"), generator())
    with pytest.raises(BlockError, match=r"absent\.txt"):
        erase_people(store, "people", tmp_path / "absent.txt", generator())
