"""Rules about a release whose people nearly are those of an earlier one: what of it is held back."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parties.running.earlier import EarlierReleases, Held, Release
from parties.running.releasing import Releasing
from protocols.held_back import held_back
from protocols.program import Json, Outcome
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.protocols.psi.sets import people

K = 10
COMPARING = "parties.running.earlier."
NEAR = "parties.running.nearness."
HOLDING = "protocols.held_back."
KEYS = tuple(people(60))
ROWS = np.arange(60)
Groups = Mapping[str, NDArray[np.int64]]


def compared(
    place: Place, *runs: tuple[tuple[bytes, ...], Groups], model: str = "", alone: bool = False
) -> Held:
    """What is held back of the last of these runs, each of (keys of the block, rows behind its numbers)."""
    releases, held = EarlierReleases(place.folder / "released"), Held()
    for run, (keys, groups) in enumerate(runs):
        release = Release(block="customers", name=f"run-{run}", facts={}, model=model, alone=alone)
        held = releases.compare(release, keys, groups, K)
    return held


def stop_if_held(held: Held) -> None:
    if held.everything or held.groups:
        raise Stopped(held.everything or ", ".join(held.groups))


def an_erasure(place: Place) -> None:
    """The same computation before and after one person was taken out of the block, who counts in no number of it."""
    counted: Groups = {"people": ROWS[:40]}
    stop_if_held(compared(place, (KEYS, counted), (KEYS[:59], counted)))


def a_moved_person(place: Place) -> None:
    """The same block twice, of which another computation counts one person less."""
    runs = ((KEYS, {"people.common": ROWS[:40]}), (KEYS, {"people.aligned_train": ROWS[:39]}))
    stop_if_held(compared(place, *runs))


def a_corrected_column(place: Place) -> None:
    """A column of which another cell is known now; a description, of one party alone."""
    runs = ((KEYS, {"column age": ROWS[:40]}), (KEYS, {"column age": ROWS[:41]}))
    stop_if_held(compared(place, *runs, alone=True))


def a_sum(place: Place) -> None:
    """Two numbers of one run that together are one less than an earlier number."""
    parts = {"people.aligned_train": ROWS[:20], "people.active_only": ROWS[20:39]}
    stop_if_held(compared(place, (KEYS, {"people": ROWS[:40]}), (KEYS, parts)))


def other_thresholds(place: Place) -> None:
    """The same model votes on the same people, of whom one gets another label now."""
    releases = EarlierReleases(place.folder / "released")
    for run, low in enumerate((30, 31)):
        release = Release(block="customers", name=f"vote-{run}", facts={}, model="m")
        votes = {"pseudo_labels": {"people": 60, "class low": low, "class high": 60 - low}}
        stop_if_held(releases.compare(release, KEYS, {}, K, votes))


def a_use_of_a_held_training(place: Place) -> None:
    """A use of a model repeats how many people it was trained on."""
    releases = EarlierReleases(place.folder / "released")
    releases.hold(Release(block="customers", name="m-1", facts={"request": "m"}))
    stop_if_held(releases.compare(Release(block="customers", name="use-1", facts={}, model="m"), KEYS, {}, K))


def a_peers_people(place: Place) -> None:
    """This party's report counts people of a peer whose block differs by one person from that of an earlier release."""
    offices, releases = place.offices(), EarlierReleases(place.folder / "released")
    outcome = Outcome({"people": 50}, {})
    releasing = Releasing(outcome, KEYS, releases, offices.request(), "active", 1, offices.clock())
    shown = releasing.told(held_somewhere=True)["people"]
    if shown != 50:
        raise Stopped(str(shown))


def exact(released: Mapping[str, Json], report: Mapping[str, Json], place: Place) -> None:
    """A held-back report tells its first number as it is."""
    name, value = next(iter(released.items()))
    shown = held_back(released, report, K)[name]
    if shown != value:
        raise Stopped(str(shown))


def differing(name: str, saying: str, attempt: Callable[[Place], None], *off: Cut) -> Rule:
    return Rule(name=f"differencing: {name}", off=off, attempt=attempt, stopped=Stopped, saying=saying)


FEW = Cut(f"{NEAR}_differ_by_few", "0 < len(np.setxor1d(one, other, assume_unique=True)) < k")
RULES = (
    differing(
        "no number after an erasure, wherever the person was",
        "the block's people",
        an_erasure,
        Cut(f"{COMPARING}EarlierReleases.compare", "counted[EVERYBODY] = np.unique(tags)", "pass"),
    ),
    differing(
        "no number of a run whose people differ by few from those of another one",
        "people behind a number",
        a_moved_person,
        FEW,
    ),
    differing(
        "no number on a column whose people differ by few from the column's before",
        "column age",
        a_corrected_column,
        Cut(
            f"{NEAR}near",
            "not _counts_people(name) and name in earlier and _differ_by_few(earlier[name], tags, k)",
        ),
    ),
    differing(
        "no two numbers whose sum differs by few people from an earlier number",
        "people behind a number",
        a_sum,
        Cut(f"{NEAR}_Sums.together", "len(people) == self.sizes[names]", "len(names) == 1"),
    ),
    differing(
        "no votes of one model that differ by few",
        "the votes are nearly",
        other_thresholds,
        Cut(f"{COMPARING}_near_votes", "any(0 < abs(count - int(other)) < k for count, other in both)"),
    ),
    differing(
        "no use of a model whose training's numbers were held back",
        "the model's training",
        a_use_of_a_held_training,
        Cut(
            f"{COMPARING}EarlierReleases._why",
            'record.get("request") == release.model and record.get("held")',
        ),
    ),
    differing(
        "no number at this party either when a peer holds back",
        "may differ from an earlier release",
        a_peers_people,
        Cut("parties.running.releasing.Releasing.told", "held_somewhere and not self.held"),
    ),
    differing(
        "a run that is held back tells no exact score",
        "0.85",
        partial(exact, {"auc": 0.847}, {"people": 1000, "auc": 0.847}),
        Cut(f"{HOLDING}_score", "round_metric(round(value / step) * step)", "value"),
    ),
    differing(
        "a run that is held back tells no score of few people",
        "difference",
        partial(exact, {"auc": 1.0}, {"people": 40, "auc": 1.0}),
        Cut(f"{HOLDING}_score", "step > LARGEST_STEP"),
    ),
    differing(
        "a run that is held back doesn't say where it falls below the smallest group",
        "may differ from an earlier release",
        partial(
            exact,
            {"few": {"suppressed": "<10", "reason": "fewer than 10 people"}},
            {"few": {"suppressed": "<10", "reason": "fewer than 10 people"}},
        ),
        Cut(f"{HOLDING}_is_group", "value.keys() != SUPPRESSED", "True"),
    ),
)
