"""A run that is cut short anywhere goes on, from the newest checkpoint that both parties have, to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from protocols.program import Checkpoint, Outcome, simulate
from protocols.seeds import injected
from protocols.wire import pack_arrays, unpack_arrays
from tests.vertical.runs import PUBLIC_SEED, SMALL, two_parties
from vertical.active import active_program
from vertical.arrays import Arrays
from vertical.config import FedCVTConfig
from vertical.passive import passive_program

KEPT = 3
"""Checkpoints that each party keeps."""
SEARCH = replace(
    SMALL, candidates="given,wide", folds=2, linear_views=4, dropout=0.1, checkpoint_every=3, baselines=True
)
"""Five trainings of at most 7 steps, refreshes and checkpoints every 3."""
CONFIGS = {
    "tables": SEARCH,
    "images": replace(
        SEARCH,
        candidates="linear,image",
        image_active="3x1",
        image_passive="1x2",
        normalisation="batch",
        early_stopping=False,
    ),
    "one candidate": replace(
        SEARCH,
        candidates="given",
        folds=3,
        class_balance=True,
        scaling="quantile",
        pseudo_passive=True,
        memory_every=2,
        checkpoint_every=1,
    ),
}
PARTIES = two_parties(aligned=14, test=11, active_only=9, passive_only=17, missing_labels=3)


class CutShort(Exception):
    """Both processes are gone."""


@dataclass
class Attempt:
    """One attempt at a run, from a state of both parties or from the beginning; it ends at event number `until`.

    An event is a message that is sent, or a word of progress; both by their names in `events`. `checkpoints` are the
    newest of each party, as on its disk.
    """

    config: FedCVTConfig
    until: int | None = None
    resume: Mapping[str, Arrays] | None = None
    events: list[str] = field(default_factory=list)
    checkpoints: dict[str, dict[int, bytes]] = field(default_factory=lambda: {"active": {}, "passive": {}})

    def run(self) -> dict[str, Outcome]:
        """The outcomes; CutShort at the event."""
        programs = {
            role: program(
                data,
                self.config,
                PUBLIC_SEED,
                injected(0, role),
                lambda progress: self._happens(progress.phase),
                resume=self.resume and self.resume[role],
            )
            for role, program, data in zip(
                ("active", "passive"), (active_program, passive_program), PARTIES, strict=True
            )
        }
        return simulate(
            programs,
            observe=lambda sender, to, message: self._happens(type(message).__name__),
            keep=self._keep,
        )

    def common(self) -> dict[str, Arrays] | None:
        """Both states at the newest step that both have, as workers agree on it; None for none."""
        steps = self.checkpoints["active"].keys() & self.checkpoints["passive"].keys()
        if not steps:
            return None
        return {role: unpack_arrays(kept[max(steps)]) for role, kept in self.checkpoints.items()}

    def _happens(self, name: str) -> None:
        self.events.append(name)
        if len(self.events) == self.until:
            raise CutShort

    def _keep(self, role: str, checkpoint: Checkpoint) -> None:
        kept = self.checkpoints[role]
        kept[checkpoint.step] = pack_arrays(dict(checkpoint.state))
        for step in sorted(kept)[:-KEPT]:
            del kept[step]


def cut_and_resumed(config: FedCVTConfig, until: int) -> dict[str, Outcome]:
    """The outcomes of a run that was cut short at this event and then went on."""
    first = Attempt(config, until)
    with pytest.raises(CutShort):
        first.run()
    return Attempt(config, resume=first.common()).run()


def assert_same(found: Mapping[str, Outcome], whole: Mapping[str, Outcome], where: str) -> None:
    for role, outcome in whole.items():
        assert found[role].report == outcome.report, where
        assert found[role].artifacts.keys() == outcome.artifacts.keys()
        for name, array in outcome.artifacts.items():
            assert found[role].artifacts[name].tobytes() == array.tobytes(), (where, role, name)


def places(events: list[str]) -> dict[int, str]:
    """Where to cut: at the first message of each kind and word of each phase, and at some events in between."""
    first = {name: at for at, name in reversed([*enumerate(events, 1)])}
    return {at: events[at - 1] for at in sorted({*first.values(), *range(30, len(events), 150)})}


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_run_cut_short_anywhere_gives_the_same_bits(config):
    """In the alignment, in each training of the search, in the experts', in the final one, in the evaluation."""
    unbroken = Attempt(config)
    whole = unbroken.run()
    found = places(unbroken.events)
    assert {
        "Splits",
        "LinearViews",
        "Choice",
        "active_alone",
        "TestViews",
        "AloneViews",
        "BaselineTestViews",
    } <= {*found.values()}
    for at, name in found.items():
        assert_same(cut_and_resumed(config, at), whole, f"event {at}, {name}")


def test_parties_with_different_newest_checkpoints_go_on_from_an_older_one():
    """The passive party is at the final training while the active one still trains its experts."""
    unbroken = Attempt(SEARCH)
    whole = unbroken.run()
    at = unbroken.events.index("active_alone") + 1
    cut = Attempt(SEARCH, at)
    with pytest.raises(CutShort):
        cut.run()
    newest = {role: max(kept) for role, kept in cut.checkpoints.items()}
    assert newest["active"] <= newest["passive"]
    assert_same(Attempt(SEARCH, resume=cut.common()).run(), whole, "the experts")
    for kept in cut.checkpoints.values():
        del kept[newest["active"]]
    assert_same(Attempt(SEARCH, resume=cut.common()).run(), whole, "the one before")
