"""Which groups of people are nearly those of an earlier release: comparisons of sets of tags, without files or secrets.

Tags are sorted distinct uint64 (m,), one for each person. A group whose name is "people", or begins with "people.", is
told as a number of people, and two such numbers can be added or subtracted whatever they are called; what else is told
of people is compared with what had the same name.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Tags = NDArray[np.uint64]
_SUMMED = 3
"""Sums of up to so many numbers are compared."""


def told(groups: Mapping[str, Tags], k: int) -> dict[str, Tags]:
    """The groups whose numbers the disclosure rules let through: of k people or more, and no large part of another."""
    return {
        name: tags
        for name, tags in groups.items()
        if len(tags) >= k
        and not any(
            0 < len(other) - len(tags) < k and _contains(other, tags)
            for other_name, other in groups.items()
            if _counts_people(name) and _counts_people(other_name)
        )
    }


def near(earlier: Mapping[str, Tags], now: Mapping[str, Tags], k: int) -> Iterator[str]:
    """Names of the groups now whose people differ from earlier ones by 1 to k - 1, alone or in a sum."""
    for name, tags in now.items():
        if not _counts_people(name) and name in earlier and _differ_by_few(earlier[name], tags, k):
            yield name
    before, after = _Sums(earlier), _Sums(now)
    for names, size in after.sizes.items():
        for others, other_size in before.sizes.items():
            if abs(size - other_size) < k and _sums_differ_by_few(after, names, before, others, k):
                yield from names
                break


class _Sums:
    """The numbers of people in groups, and in what up to _SUMMED of them are together if nobody is in two of them.

    Sets are put together only when asked for: most sums are of another size than what they are compared with.
    """

    def __init__(self, groups: Mapping[str, Tags]) -> None:
        self._groups = {name: tags for name, tags in groups.items() if _counts_people(name)}
        self._made: dict[tuple[str, ...], Tags | None] = {}
        self.sizes: dict[tuple[str, ...], int] = {
            names: sum(len(self._groups[name]) for name in names)
            for count in range(1, _SUMMED + 1)
            for names in combinations(sorted(self._groups), count)
        }

    def together(self, names: tuple[str, ...]) -> Tags | None:
        """The people of these groups; None when somebody is in two of them: then the numbers don't add up."""
        if names not in self._made:
            people = np.unique(np.concatenate([self._groups[name] for name in names]))
            self._made[names] = people if len(people) == self.sizes[names] else None
        return self._made[names]


def _sums_differ_by_few(
    here: _Sums, names: tuple[str, ...], there: _Sums, others: tuple[str, ...], k: int
) -> bool:
    one, other = here.together(names), there.together(others)
    return one is not None and other is not None and _differ_by_few(one, other, k)


def _counts_people(name: str) -> bool:
    return name == "people" or name.startswith("people.")


def _contains(larger: Tags, smaller: Tags) -> bool:
    return len(np.intersect1d(larger, smaller, assume_unique=True)) == len(smaller)


def _differ_by_few(one: Tags, other: Tags, k: int) -> bool:
    if abs(len(one) - len(other)) >= k:
        return False
    return 0 < len(np.setxor1d(one, other, assume_unique=True)) < k
