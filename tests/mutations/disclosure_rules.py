"""Rules about what is told of people: smallest groups and their rest, one person's part, the overlap."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from protocols.contributors import around_quantile, dominated
from protocols.disclosure import coarse_overlap, releasable
from protocols.errors import OverlapError
from protocols.program import Json
from protocols.psi import PsiTerms
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.protocols.psi.sets import people, play
from tests.vertical.runs import SMALL
from vertical.groups import Groups, check_overlap

RULES_OF = "protocols.disclosure."
K = 10


def told(report: Mapping[str, Json], place: Place) -> None:
    """The analyst is told the report's last number."""
    shown = releasable(report, K)
    last = list(_numbers(shown))[-1]
    if isinstance(last, Mapping):
        raise Stopped(f"{last['suppressed']}: {last['reason']}")


def _numbers(value: Json) -> list[Json]:
    """The leaves of a report in order: numbers, and what stands for a suppressed one."""
    if isinstance(value, Mapping) and "suppressed" not in value:
        return [leaf for each in value.values() for leaf in _numbers(each)]
    return [value]


def a_curve_of_single_people(place: Place) -> None:
    """Each point of a curve stands on one person."""
    curve: dict[str, Json] = {"people": 30, "values": [float(n) for n in range(30)], "people_per_value": 1}
    shown = releasable({"loss": curve}, K)["loss"]
    assert isinstance(shown, Mapping)
    if len(list(shown["points"])) < 30:  # type: ignore[arg-type]
        raise Stopped(f"{len(list(shown['points']))} points of 30 values")  # type: ignore[arg-type]


def an_overlap(common: int, sets: tuple[int, ...], place: Place) -> None:
    size, hidden = coarse_overlap(common, sets, K)
    if hidden or size != common:
        raise Stopped(f"{hidden.name} {size}")


def one_persons_sum(place: Place) -> None:
    if dominated(np.array([900.0, 50, 50, *[1.0] * 9]), 1, 85):
        raise Stopped("one person has more than 85 % of the sum")


def near_the_largest(place: Place) -> None:
    """A quantile above which only three people lie."""
    if around_quantile(np.arange(12.0), 0.75, K) is None:
        raise Stopped("too few people lie on one side")


def aligned(terms: PsiTerms, place: Place) -> None:
    """Two parties with five common people."""
    for end in play(people(20), people(20, start=15), terms):
        if end is not None:
            raise end


def trained(place: Place) -> None:
    """A training on three people, where the request asks for ten."""
    few, none = np.arange(3), np.arange(0)
    groups = Groups(
        aligned_train=few, aligned_test=none, alone=none, common=3, split_differs=0, per_split={}, tag="tag"
    )
    check_overlap(groups, replace(SMALL, minimum_overlap=10))


def suppressed(name: str, saying: str, attempt: Callable[[Place], None], *off: Cut) -> Rule:
    return Rule(name=name, off=off, attempt=attempt, stopped=Stopped, saying=saying)


RULES = (
    suppressed(
        "k-suppression: a count of people below the smallest group",
        "fewer than 10 people",
        partial(told, {"people": 9}),
        Cut(f"{RULES_OF}suppress_small", "count >= k", "True"),
    ),
    suppressed(
        "k-suppression: a metric that stands on fewer",
        "stands on fewer than 10 people",
        partial(told, {"people": 9, "auc": 0.5}),
        Cut(f"{RULES_OF}_refused", "group.people < k"),
    ),
    suppressed(
        "k-suppression: a metric of an unknown number of people",
        "unknown number of people",
        partial(told, {"auc": 0.5}),
        Cut(
            f"{RULES_OF}_refused",
            "if group.people is None:",
            "if group.people is None:\n        return {}\n    if False:",
        ),
    ),
    suppressed(
        "k-suppression: a metric that tells the size of a small class",
        "a class has fewer than 10 people",
        partial(told, {"people": 40, "classes": {"no": 31, "yes": 9}, "auc": 0.5}),
        Cut(f"{RULES_OF}_refused", "0 < group.smallest < k"),
    ),
    suppressed(
        "k-suppression: a curve's point stands on so many people",
        "3 points of 30 values",
        a_curve_of_single_people,
        Cut(f"{RULES_OF}bin_curve", "gathered >= k", "True"),
    ),
    suppressed(
        "k-suppression: single numbers in a list",
        "only as a curve",
        partial(told, {"people": 40, "scores": [0.5, 0.25]}),
        Cut(f"{RULES_OF}_release", "all(isinstance(item, str) for item in value)", "True"),
    ),
    suppressed(
        "complement: a count whose rest is a small group",
        "the rest would be fewer than 10 people",
        partial(told, {"people": 40, "right": 35}),
        Cut(f"{RULES_OF}_part", "count >= k and group.people is not None and 0 < group.people - count < k"),
    ),
    suppressed(
        "complement: a group that leaves a small one",
        "the rest would be fewer than 10 people",
        partial(told, {"people": 45, "column": {"within": 45, "people": 40}}),
        Cut(f"{RULES_OF}_Group.leaves_few", "0 < self.rest < k"),
    ),
    suppressed(
        "complement: a class that tells another one's size",
        "the total would tell",
        partial(told, {"people": 44, "classes": {"c": 4, "b": 20, "a": 20}}),
        Cut(
            f"{RULES_OF}suppress_counts",
            "not small or sum(counts[hidden] for hidden in [*small, *also]) >= k",
            "True",
        ),
    ),
    suppressed(
        "dominance: one person's part of a sum",
        "more than 85 %",
        one_persons_sum,
        Cut(
            "protocols.contributors.dominated",
            "total > 0 and float(sizes[:people].sum()) > percent / 100 * total",
        ),
    ),
    suppressed(
        "quantile: so many people on either side",
        "on one side",
        near_the_largest,
        Cut("protocols.contributors.around_quantile", "below < k or count - below < k"),
    ),
    suppressed(
        "overlap: a size below the smallest group",
        "SMALL",
        partial(an_overlap, 9, ()),
        Cut(f"{RULES_OF}coarse_overlap", "if common < k:", "if False:"),
        Cut(f"{RULES_OF}coarse_overlap", "common // k * k", "common"),
    ),
    suppressed(
        "overlap: nearly all of a set",
        "COMPLEMENT",
        partial(an_overlap, 40, (45, 90)),
        Cut(f"{RULES_OF}coarse_overlap", "size - common < k"),
    ),
    suppressed(
        "overlap: an exact size",
        "NOT 40",
        partial(an_overlap, 47, (90, 90)),
        Cut(f"{RULES_OF}coarse_overlap", "common // k * k", "common"),
    ),
    Rule(
        name="minimum overlap: too few common people end an alignment without a name",
        off=(
            Cut("protocols.psi.pairing.psi_client", "len(common) < terms.least"),
            Cut("protocols.psi.pairing.psi_server", "len(tags) < terms.least"),
        ),
        attempt=partial(aligned, PsiTerms(least=6)),
        stopped=OverlapError,
        saying="overlap 5",
    ),
    Rule(
        name="maximum overlap: more common people than the request bounds end an alignment",
        off=(
            Cut("protocols.psi.pairing.psi_client", "len(common) > terms.most"),
            Cut("protocols.psi.pairing.psi_server", "len(tags) > terms.most"),
        ),
        attempt=partial(aligned, PsiTerms(most=4)),
        stopped=OverlapError,
        saying="5 people are common",
    ),
    Rule(
        name="minimum overlap: too few people to train on end a training",
        off=(Cut("vertical.groups.check_overlap", "len(groups.aligned_train) < config.minimum_overlap"),),
        attempt=trained,
        stopped=OverlapError,
        saying="overlap 3, FedCVT needs at least 10",
    ),
)
