"""Row R9 of the review list: a release that tells a difference to an earlier one is held back, whoever made either."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from parties.home.documents import Documents
from parties.roles.history import history_section
from parties.running.earlier import (
    BLOCK,
    GROUP,
    MODEL,
    PEER,
    RELEASED,
    VOTES,
    EarlierReleases,
    Held,
    Release,
    votes_in,
)
from protocols.disclosure import releasable
from protocols.held_back import held_number
from protocols.program import Json, Outcome, simulate
from protocols.request import parse_signed
from tests.parties.control.offices import Offices
from tests.parties.running import wards
from tests.review_rows.test_disclosure_rows import data_of, group, numbers, outcome_of, reason
from tests.vertical.runs import SMALL, run, two_parties
from tests.vertical.uses import trained, use
from vertical.align import align_terms, complete, pairs_program, size_program
from vertical.table import PartyData, Split

K = 10
TRAINING = replace(SMALL, folds=2, linear_views=2, steps=12, final_vote=True)
SIZES = {"aligned": 60, "test": 40, "active_only": 90, "passive_only": 80}


def release(name: str, block: str = "customers", *, model: str = "", alone: bool = False) -> Release:
    facts: Mapping[str, str | int] = {"analyst": "ana", "request": name.rpartition("-")[0]}
    return Release(block=block, name=name, facts=facts, model=model, alone=alone)


def shown(
    releases: EarlierReleases, of: Release, data: PartyData, outcome: Outcome
) -> tuple[dict[str, Json], Held]:
    """What of the outcome is told, as the worker does it, when the other parties hold nothing back."""
    told = releasable(outcome.report, K)
    held = releases.compare(of, data.keys, outcome.people, K, votes_in(told))
    return held.of(told, outcome.report, K), held


def without(data: PartyData, keys: Collection[bytes]) -> PartyData:
    return data.take(np.array([row for row, key in enumerate(data.keys) if key not in keys], np.int64))


def whole_numbers(value: Json) -> list[int]:
    if isinstance(value, Mapping):
        return [
            number for name, part in value.items() if name != "settings" for number in whole_numbers(part)
        ]
    return [value] if type(value) is int else []


@pytest.mark.parametrize(("gone", "suppressed"), [(0, False), (1, True), (9, True), (10, False)])
def test_R9_a_description_that_differs_by_few_people_is_suppressed(
    tmp_path: Path, gone: int, suppressed: bool
) -> None:
    """As after an erasure and a rerun: the second block has another order and fewer people."""
    before = data_of(numbers([float(x) for x in range(50)]))
    rows = range(49, gone - 1, -1)
    after = data_of(numbers([float(x) for x in rows]), keys=[f"person {r}" for r in rows])
    releases = EarlierReleases(tmp_path / "released")
    first, _ = shown(releases, release("a-1", alone=True), before, outcome_of(before))
    second, _ = shown(releases, release("b-1", alone=True), after, outcome_of(after))
    assert group(first)["people"] == 50
    for value in (second["people"], *(group(second)[name] for name in ("people", "mean"))):
        assert (value == held_number(K)) is suppressed
        if suppressed:
            assert reason(value) == "may differ from an earlier release by fewer than 10 people"


def test_R9_columns_that_nobody_described_before_are_no_way_round(tmp_path: Path) -> None:
    """Of the first block one column was told, of the next version, without a person, the other one is asked for."""
    spend, age = numbers([1.0] * 50), numbers([2.0] * 50, "age")
    releases = EarlierReleases(tmp_path / "released")
    first = data_of(spend)
    second = data_of(age.take(np.arange(1, 50)), keys=[f"person {row}" for row in range(1, 50)])
    shown(releases, release("a-1", alone=True), first, outcome_of(first))
    found, _ = shown(releases, release("b-1", alone=True), second, outcome_of(second))
    assert whole_numbers(found) == []


def test_R9_of_one_party_only_the_column_that_differs_is_suppressed(tmp_path: Path) -> None:
    """The same block; of one column 30 cells are missing, and of the same column corrected 27."""
    cells = np.array([1.0] * 70 + [np.nan] * 30)
    corrected = np.array([1.0] * 73 + [np.nan] * 27)
    releases = EarlierReleases(tmp_path / "released")
    age = numbers([2.0] * 100, "age")
    first, second = (data_of(numbers(list(each)), age) for each in (cells, corrected))
    shown(releases, release("a-1", alone=True), first, outcome_of(first))
    found, held = shown(releases, release("b-1", alone=True), second, outcome_of(second))
    assert held == Held(groups=frozenset({"column spend"}))
    assert found["column spend"] == held_number(K)
    assert group(found, "age")["people"] == found["people"] == 100


def everybody() -> tuple[PartyData, PartyData]:
    """Two parties before anybody was erased."""
    return two_parties(**SIZES, classes=("low", "middle", "high"))


@cache
def after(what: str, gone: frozenset[bytes] = frozenset()) -> tuple[PartyData, tuple[Outcome, Outcome]]:
    """The active party's data without these people, and a run of the computation on it."""
    active, passive = everybody()
    rest = without(active, gone)
    return rest, outcomes(what, rest, passive)


def outcomes(what: str, active: PartyData, passive: PartyData) -> tuple[Outcome, Outcome]:
    """A run of the computation, active party first."""
    if what == "train":
        return run(active, passive, TRAINING)
    if what in ("fill", "vote", "predict"):
        return use(what, (active, passive), max_common=200, max_passive_only=200)
    made = {}
    for role, data in (("active", active), ("passive", passive)):
        terms = align_terms(complete({"size_bucket": (0, 0, 10), "max_common": (500, 1, 500)}, {}), {})
        if what == "align.size":
            made[role] = size_program(role, data.keys, role.encode() * 8, terms, group=K)
        else:
            made[role] = pairs_program(role, data.keys, role.encode() * 8, terms, group=K, least=K)
    found = simulate(made)
    both = found["active"], found["passive"]
    assert isinstance(both[0], Outcome)
    assert isinstance(both[1], Outcome)
    return both


TWO_PARTIES = ("train", "fill", "vote", "predict", "align.size", "align.pairs")


def people(data: PartyData, split: Split, *, common_with: PartyData, common: bool) -> list[bytes]:
    other = set(common_with.keys)
    return [
        key
        for key, code in zip(data.keys, data.split, strict=True)
        if code == split and (key in other) is common
    ]


@pytest.mark.parametrize("second", TWO_PARTIES)
@pytest.mark.parametrize("first", ["train", "align.size"])
@pytest.mark.parametrize("who", ["common", "alone"])
def test_R9_after_an_erasure_no_number_of_any_computation_is_exact_wherever_the_person_was(
    tmp_path: Path, first: str, second: str, who: str
) -> None:
    """Run, erase one person at the active party, run again: nothing tells in which group the person was."""
    releases = EarlierReleases(tmp_path / "released")
    active, runs = after(first)
    before, _ = shown(releases, release("a-1"), active, runs[0])
    assert whole_numbers(before)
    _, passive = everybody()
    gone = people(active, Split.TRAIN, common_with=passive, common=who == "common")[0]
    rest, again = after(second, frozenset({gone}))
    told, held = shown(releases, release("b-1"), rest, again[0])
    assert held.everything == BLOCK
    assert whole_numbers(told) == []


@pytest.mark.parametrize("what", TWO_PARTIES)
def test_R9_the_same_people_and_ten_others_are_told_again(tmp_path: Path, what: str) -> None:
    (active, runs), (_, passive) = after(what), everybody()
    for role, data in enumerate((active, passive)):
        releases = EarlierReleases(tmp_path / str(role))
        first, _ = shown(releases, release("a-1"), data, runs[role])
        again, held = shown(releases, release("b-1"), data, runs[role])
        assert held == Held()
        assert again == first
    gone = people(active, Split.TRAIN, common_with=passive, common=False)[:12]
    rest, fewer = after(what, frozenset(gone))
    _, held = shown(EarlierReleases(tmp_path / "0"), release("c-1"), rest, fewer[0])
    assert held == Held()


def test_R9_people_who_moved_between_groups_are_a_difference_though_the_block_has_the_same(
    tmp_path: Path,
) -> None:
    active, passive = two_parties(**SIZES)
    releases = EarlierReleases(tmp_path / "released")
    shown(releases, release("a-1"), active, run(active, passive, TRAINING)[0])
    split = active.split.copy()
    split[np.flatnonzero(split == Split.TEST)[:2]] = Split.VALIDATION
    moved = replace(active, split=split)
    found, held = shown(releases, release("b-1"), moved, run(moved, passive, TRAINING)[0])
    assert held.everything == GROUP
    assert whole_numbers(found) == []


def test_R9_a_sum_of_numbers_is_compared_with_a_description(tmp_path: Path) -> None:
    """All 150 training people were described; 3 of the common ones are test people at the other party, so that a
    training counts 147 in two numbers: together they tell of the 3."""
    active, passive = two_parties(**SIZES)
    releases = EarlierReleases(tmp_path / "released")
    described = outcome_of(active, people="train")
    assert described.report["people"] == 150
    shown(releases, release("a-1", alone=True), active, described)
    split = passive.split.copy()
    common = set(active.keys)
    moved = [
        row for row, key in enumerate(passive.keys) if key in common and passive.split[row] == Split.TRAIN
    ]
    split[moved[:3]] = Split.TEST
    outcome, _ = run(active, replace(passive, split=split), TRAINING)
    counts = outcome.report["groups"]
    assert isinstance(counts, Mapping)
    assert (counts["aligned_train"], counts["active_only"]) == (57, 90)
    found, held = shown(releases, release("b-1"), active, outcome)
    assert held.everything == GROUP
    assert whole_numbers(found) == []


def test_R9_votes_with_slightly_other_thresholds_are_not_told_apart(tmp_path: Path) -> None:
    """A row of thresholds would tell how sure the model is of each person, one by one."""
    active, passive = two_parties(**SIZES, classes=("low", "middle", "high"))
    releases = EarlierReleases(tmp_path / "released")

    for name in ("a-1", "b-1"):
        outcome = outcomes("vote", active, passive)[0]
        assert shown(releases, release(name, model="one"), active, outcome)[1] == Held(), "nothing new"
    few = votes_in({"pseudo_labels": {"passive_only": {"people": 80, "classes": {"low": 50, "high": 30}}}})
    near = votes_in({"pseudo_labels": {"passive_only": {"people": 80, "classes": {"low": 49, "high": 31}}}})
    far = votes_in({"pseudo_labels": {"passive_only": {"people": 80, "classes": {"low": 40, "high": 40}}}})
    others = votes_in({"pseudo_labels": {"passive_only": {"people": 95, "classes": {"low": 49, "high": 46}}}})
    for name, model, votes, held in (
        ("c-1", "two", few, ""),
        ("d-1", "two", near, VOTES),
        ("e-1", "two", far, ""),
        ("f-1", "two", others, ""),
        ("g-1", "three", near, ""),
    ):
        assert releases.compare(release(name, model=model), active.keys, {}, K, votes).everything == held, (
            name
        )


def test_R9_a_use_does_not_repeat_what_its_training_was_not_to_tell(tmp_path: Path) -> None:
    """How many people the memory holds is the number of aligned training people."""
    releases = EarlierReleases(tmp_path / "released")
    active, (outcome, _) = after("fill")
    quality = outcome.report["quality"]
    assert isinstance(quality, Mapping)
    assert quality["people"] == len(trained()[0].memory.active_position)
    releases.hold(release("training-1"))
    found, held = shown(releases, release("a-1", model="training"), active, outcome)
    assert (held.everything, whole_numbers(found)) == (MODEL, [])
    _, other = shown(releases, release("b-1", model="another"), active, outcome)
    assert other == Held()


def test_R9_a_client_that_lost_one_person_tells_no_number_of_a_horizontal_run(tmp_path: Path) -> None:
    data = wards.DATA["client-1"]
    rest = data.take(np.arange(1, data.table.rows, dtype=np.int64))
    releases = EarlierReleases(tmp_path / "released")
    for name, own in (("a-1", data), ("b-1", rest)):
        outcome = wards.simulated(wards.parameters(), {"client-1": own})["client-1"]
        found, held = shown(releases, release(name), own, outcome)
        assert bool(whole_numbers(found)) is (name == "a-1")
    assert held.everything == BLOCK


@pytest.mark.parametrize("what", [*TWO_PARTIES, "horizontal"])
def test_R9_every_number_of_people_is_one_of_rows_that_are_compared(what: str) -> None:
    """A computation that tells a number of people whom no party compares would be a way round."""
    rounded = what.startswith("align")
    if what == "horizontal":
        both = tuple(wards.simulated(wards.parameters()).values())
    else:
        both = after(what)[1]
    sizes = {len(rows) for outcome in both for rows in outcome.people.values()}
    trained_on = len(trained()[0].memory.active_position) if what == "fill" else None
    told = [number for outcome in both for number in people_told(releasable(outcome.report, 1))]
    assert told
    assert rounded or set(told) <= sizes | {trained_on}, (what, told, sizes)


def people_told(value: Json) -> list[int]:
    """Each number of people in a report: those called so, and those of the groups' sizes."""
    found: list[int] = []
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name == "people" and isinstance(part, int):
                found.append(part)
            elif name == "groups" and isinstance(part, Mapping):
                found += [count for count in part.values() if isinstance(count, int)]
            else:
                found += people_told(part)
    return found


def test_R9_what_was_held_back_was_not_told_and_a_run_does_not_differ_from_itself(tmp_path: Path) -> None:
    releases = EarlierReleases(tmp_path / "released")
    keys = tuple(f"p{i}".encode() for i in range(60))
    rows = np.arange(60, dtype=np.int64)

    def differing(
        name: str, groups: Mapping[str, NDArray[np.int64]], block: str = "customers"
    ) -> frozenset[str]:
        return releases.compare(release(name, block, alone=True), keys, groups, K).groups

    assert differing("a-1", {"x": rows}) == frozenset()
    assert differing("b-1", {"x": rows[5:]}) == {"x"}
    assert differing("a-1", {"x": rows[3:]}) == frozenset()  # taken up again
    assert differing("c-1", {"y": rows[1:]}) == frozenset()  # says something else
    assert differing("d-1", {"x": rows[1:]}, "other") == frozenset()
    releases.hold(release("e-1"))
    assert releases.compare(release("e-1"), keys, {"people": rows}, K) == Held()


def test_R9_the_review_says_which_earlier_numbers_were_held_back_and_why(offices: Offices) -> None:
    state = offices.bank
    earlier = [offices.request(nonce=f"{number:032x}") for number in range(4)]
    releases = EarlierReleases(state.folder / RELEASED)
    digests = [Documents(state.folder).save_request(parse_signed(offices.signed(each))) for each in earlier]
    keys = tuple(str(row).encode() for row in range(40))
    groups = {"column age": np.arange(40)}
    releases.compare(release(f"{digests[0]}-1", alone=True), keys, groups, K)
    releases.compare(release(f"{digests[1]}-1", alone=True), keys, {"column age": np.arange(38)}, K)
    releases.compare(
        release(f"{digests[2]}-1", alone=True), keys[:39], groups | {"column age": np.arange(39)}, K
    )
    rows = [{"digest": each, "used": 1} for each in digests]
    lines = [str(note) for note in history_section(state, earlier[3], digests[3], rows).contents]
    assert [line for line in lines if digests[0][:12] in line and "held back" not in line]
    assert [line for line in lines if digests[1][:12] in line and "1 groups suppressed" in line]
    assert [line for line in lines if digests[2][:12] in line and f"exact numbers held back: {BLOCK}" in line]


def test_R9_no_key_is_kept(tmp_path: Path) -> None:
    keys = tuple(f"sentinel-{i}".encode() for i in range(20))
    EarlierReleases(tmp_path / "released").compare(
        release("a-1"), keys, {"x": np.arange(20, dtype=np.int64)}, K
    )
    files = [path for path in (tmp_path / "released").rglob("*") if path.is_file()]
    assert files
    assert all(b"sentinel" not in path.read_bytes() for path in files)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


def test_R9_another_partys_word_is_enough() -> None:
    found = Held(everything=PEER).of({"people": 50}, {"people": 50}, K)
    assert found == {"people": held_number(K)}


def test_R9_a_group_that_the_report_does_not_name_holds_all_its_numbers_back() -> None:
    report = {"people": 50, "column spend": 50}
    found = Held(groups=frozenset({"people.test"})).of(report, report, K)
    assert found == {"people": held_number(K), "column spend": held_number(K)}
