"""Disclosure rules: what of a party's report may go to the analyst, and why the rest may not.

k is the smallest number of *people* (not rows or steps) that a released number may stand on. How a report
says it, by names:

- `people` in a group (a dict) is the number of people behind the group's numbers; groups inside inherit it.
  A metric without it is suppressed: an unknown number of people could be one.
- `within` beside `people` is how many the larger group has that these people are a part of, and whose number is
  released too. It isn't released here; where the rest is 1 to k - 1 people, the group's people and classes are
  suppressed, and so are its metrics unless it has so many people that a rounded fraction tells no denominator.
- any other whole number is a count of people. It is suppressed below k, and where the rest of the group's
  people is 1 to k - 1; that needs `people` in its group.
- `classes` is the group's people by class, suppressed by the complement rule; a class of 1 to k - 1 people
  suppresses the group's metrics too, since an accuracy or a majority rate tells that class's size.
- a fraction is a metric, released rounded.
- `values` with `people_per_value` (one number or a list) is a curve, released as means over bins of at least
  k people.
- a text or truth value, such as which of several is best, follows from numbers: in a group that says its
  people it is released where a metric would be, elsewhere as it is.
- `settings` holds what the request says already; it is passed on as it is, and so is None.

A suppressed number becomes {"suppressed": ..., "reason": ...}; one that the program suppressed itself stays as it is.
Nothing else is released: a list of numbers is no metric. The rules follow statistical disclosure control for outputs
(minimum group, secondary suppression, rounding).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from protocols.errors import ConfigError, ProtocolError
from protocols.program import Json
from protocols.suppressed import SUPPRESSED

CURVE_POINTS = 50
"""A released curve has at most about this many points."""
UNKNOWN = "unknown number of people"
METRIC_DIGITS = 3
"""Decimals of a released metric. A fraction rounded so fits every denominator of 10 ** METRIC_DIGITS or more."""
_CURVE = frozenset({"values", "people_per_value", "people"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The mean of a curve over the values first..last (both counted from 0)."""

    first: int
    last: int
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The people behind a number: how many (None unknown), the smallest class among them, and how many others
    there are in the group around them (0: none, or none that could be counted)."""

    people: int | None
    smallest: int
    rest: int = 0

    def leaves_few(self, k: int) -> bool:
        """Whether subtracting these people from the group around them would tell of fewer than k."""
        return 0 < self.rest < k


class Hidden(IntEnum):
    """Why an overlap isn't told: too few people are common, or too few of a whole set aren't."""

    NOT = 0
    SMALL = 1
    COMPLEMENT = 2


def coarse_overlap(common: int, sets: Sequence[int], k: int) -> tuple[int, Hidden]:
    """How many people two sets have in common, as others may know it: a multiple of k, rounded down, or 0 and why.

    Hidden below k, and where fewer than k people of one of the sets are *not* common: with (nearly) all of a set common
    the number would say of every person in it that the other side has them too. `sets` are the sizes of the sets, or
    fewer where they aren't known exactly.
    """
    _check_k(k)
    if common < k:
        return 0, Hidden.SMALL
    if any(size - common < k for size in sets):
        return 0, Hidden.COMPLEMENT
    return common // k * k, Hidden.NOT


def overlap_report(size: int, hidden: Hidden, k: int) -> dict[str, Json]:
    """What `coarse_overlap` found, as a group of a report."""
    if hidden is Hidden.SMALL:
        return _suppressed(f"<{k}", f"fewer than {k} people")
    if hidden is Hidden.COMPLEMENT:
        return _suppressed("complement", f"of one of the sets perhaps fewer than {k} people are not common")
    return {"people": size, "settings": {"rounded_down_to_a_multiple_of": k}}


def suppress_small(count: int | None, k: int) -> int | str:
    """The count of people, or "<10" (for k = 10) if it is smaller, or UNKNOWN for None.

    Raises ConfigError for k < 1.
    """
    _check_k(k)
    if count is None:
        return UNKNOWN
    return count if count >= k else f"<{k}"


def suppress_counts(counts: Mapping[str, int], k: int) -> dict[str, Json]:
    """Counts of people by class, suppressed so that the total doesn't give a small one away.

    If one class is below k the next smallest is suppressed too, until the suppressed ones together are k
    people or more; with two classes that suppresses both.
    """
    _check_k(k)
    by_size = sorted(counts, key=lambda name: (counts[name], name))
    small = [name for name in by_size if counts[name] < k]
    also: list[str] = []
    for name in by_size[len(small) :]:
        if not small or sum(counts[hidden] for hidden in [*small, *also]) >= k:
            break
        also.append(name)
    released: dict[str, Json] = {}
    for name, count in counts.items():
        if name in also:
            released[name] = _suppressed(
                "complement", "the total would tell the size of a class below the limit"
            )
        else:
            released[name] = _count(count, k)
    return released


def round_metric(x: float, digits: int = METRIC_DIGITS) -> float:
    """The metric with `digits` decimals; so a change by one person in a large group mostly doesn't show."""
    return round(x, digits) + 0.0


def bin_curve(values: Sequence[float], people: Sequence[int], k: int) -> tuple[CurvePoint, ...]:
    """The curve as means of consecutive values, each over at least k people and weighted by them.

    `people` says for each value how many different people it stands on; neighbouring values are taken as
    different people, as the batches of an epoch are. An incomplete last bin joins the one before; no bin at
    all if all together are below k. Raises ProtocolError if the lengths differ.
    """
    _check_k(k)
    if len(values) != len(people):
        raise ProtocolError(f"a curve has {len(values)} values, but numbers of people for {len(people)}")
    width = math.ceil(len(values) / CURVE_POINTS)
    edges, gathered = [0], 0
    for index, count in enumerate(people):
        gathered += count
        if gathered >= k and index + 1 - edges[-1] >= width:
            edges.append(index + 1)
            gathered = 0
    if len(edges) > 1:
        edges[-1] = len(values)
    return tuple(
        CurvePoint(first=a, last=b - 1, mean=_mean(values[a:b], people[a:b])) for a, b in pairwise(edges)
    )


def releasable(report: Mapping[str, Json], k: int) -> dict[str, Json]:
    """The report as the analyst may have it, under the rules of this module. Raises ConfigError for k < 1.

    Raises ProtocolError for a report that isn't made by these rules (a `people` that is no number).
    """
    _check_k(k)
    return _release_group(report, _Group(people=None, smallest=0), k)


def _release_group(report: Mapping[str, Json], outer: _Group, k: int) -> dict[str, Json]:
    group = _describe(report, outer)
    released: dict[str, Json] = {}
    for name, value in report.items():
        if name == "settings":
            released[name] = value
        elif name == "within":
            continue
        elif name == "people":
            released[name] = _rest_told(k) if group.leaves_few(k) else _count(group.people, k)
        elif name == "classes":
            released[name] = _classes(_class_counts(value), group, k)
        else:
            released[name] = _release(value, group, k)
    return released


def _describe(report: Mapping[str, Json], outer: _Group) -> _Group:
    """The people behind the group's numbers, by its own words or else by those of the group around it."""
    people = report.get("people", outer.people)
    if people is not None and (type(people) is not int or people < 0):
        raise ProtocolError("people: expected a whole number, 0 or more")
    rest = _rest(report, people) if "within" in report else 0 if "people" in report else outer.rest
    if "classes" not in report:
        return _Group(people=people, smallest=outer.smallest, rest=rest)
    present = [count for count in _class_counts(report["classes"]).values() if count > 0]
    return _Group(people=people, smallest=min(present, default=0), rest=rest)


def _rest(report: Mapping[str, Json], people: int | None) -> int:
    """How many people of the group around are not among these."""
    within = report["within"]
    if type(within) is not int or people is None or within < people:
        raise ProtocolError("within: expected a whole number, not below that of people beside it")
    return within - people


def _release(value: Json, group: _Group, k: int) -> Json:
    if value is None:
        return value
    if isinstance(value, str | bool):
        return value if group.people is None else _refused("text", group, k) or value
    if isinstance(value, int):
        return _part(value, group, k)
    if isinstance(value, float):
        return _metric(value, group, k)
    if isinstance(value, Mapping):
        if value.keys() == SUPPRESSED:
            # Of unknown people it stands on none: the program's own reason is all that it tells.
            return dict(value) if group.people is None else _refused("metric", group, k) or dict(value)
        curve = "values" in value and "people_per_value" in value
        return _curve(value, group, k) if curve else _release_group(value, group, k)
    if all(isinstance(item, str) for item in value):
        return list(value) if group.people is None else _refused("text", group, k) or list(value)
    return _suppressed("list", "a list of numbers is released only as a curve with its numbers of people")


def _count(count: int | None, k: int) -> Json:
    shown = suppress_small(count, k)
    if isinstance(shown, int):
        return shown
    return _suppressed(shown, UNKNOWN if count is None else f"fewer than {k} people")


def _classes(counts: Mapping[str, int], group: _Group, k: int) -> Json:
    """The counts by class; none where their sum would tell of the few others in the group around."""
    if group.leaves_few(k):
        return {name: _rest_told(k) for name in counts}
    return suppress_counts(counts, k)


def _part(count: int, group: _Group, k: int) -> Json:
    """A count within the group's people: neither it nor the rest may be small."""
    if count >= k and group.people is not None and 0 < group.people - count < k:
        return _rest_told(k)
    if group.leaves_few(k) and group.people is not None and 0 < group.people + group.rest - count < k:
        return _rest_told(k)
    return _count(count, k)


def _metric(value: float, group: _Group, k: int) -> Json:
    refused = _refused("metric", group, k)
    if refused:
        return refused
    if not math.isfinite(value):
        return _suppressed("metric", "not a finite number")
    return round_metric(value)


def _refused(what: str, group: _Group, k: int) -> dict[str, Json]:
    """Why nothing that stands on the group's people may be told; {} when it may."""
    if group.people is None:
        return _suppressed(what, UNKNOWN)
    if group.people < k:
        return _suppressed(what, f"stands on fewer than {k} people")
    if 0 < group.smallest < k:
        return _suppressed(what, f"a class has fewer than {k} people")
    if group.leaves_few(k) and group.people < 10**METRIC_DIGITS:
        return _suppressed(what, f"could tell of fewer than {k} others of the same group")
    return {}


def _curve(curve: Mapping[str, Json], outer: _Group, k: int) -> Json:
    unknown = sorted(curve.keys() - _CURVE)
    if unknown:
        raise ProtocolError(f"a curve has values, people_per_value and people, not {unknown[0]!r}")
    group = _describe(curve, outer)
    values, people = _numbers(curve["values"]), curve["people_per_value"]
    each = [people] * len(values) if isinstance(people, int) else _whole_numbers(people)
    refused = _metric(0.0, group, k)
    if refused != 0.0:
        return refused
    points = bin_curve(values, each, k)
    if not points:
        return _suppressed("curve", f"no bin has {k} people")
    return {"points": [{"first": p.first, "last": p.last, "mean": p.mean} for p in points]}


def _mean(values: Sequence[float], people: Sequence[int]) -> float | None:
    mean = sum(v * n for v, n in zip(values, people, strict=True)) / sum(people)
    return round_metric(mean) if math.isfinite(mean) else None


def _class_counts(value: Json) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise ProtocolError("classes: expected counts of people by class")
    return dict(zip(value, _whole_numbers(list(value.values())), strict=True))


def _whole_numbers(value: Json) -> list[int]:
    if not isinstance(value, list | tuple):
        raise ProtocolError("numbers of people: expected a list of whole numbers")
    numbers = [item for item in value if isinstance(item, int) and not isinstance(item, bool) and item >= 0]
    if len(numbers) != len(value):
        raise ProtocolError("numbers of people: expected whole numbers, 0 or more")
    return numbers


def _numbers(value: Json) -> list[float]:
    if not isinstance(value, list | tuple):
        raise ProtocolError("values: expected a list of numbers")
    numbers = [float(v) for v in value if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) != len(value):
        raise ProtocolError("values: expected numbers")
    return numbers


def _rest_told(k: int) -> dict[str, Json]:
    return _suppressed("complement", f"the rest would be fewer than {k} people")


def _suppressed(shown: str, reason: str) -> dict[str, Json]:
    return {"suppressed": shown, "reason": reason}


def _check_k(k: int) -> None:
    if k < 1:
        raise ConfigError(f"the smallest group must be 1 person or more, not {k}")
