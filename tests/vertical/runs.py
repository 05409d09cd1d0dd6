"""Small made-up parties and a whole run of them, for the tests of programs."""

from __future__ import annotations

import numpy as np

from protocols.program import Checkpoint, Outcome, silent, simulate
from protocols.seeds import injected
from vertical.active import active_program
from vertical.config import FedCVTConfig
from vertical.passive import passive_program
from vertical.table import NumericColumn, PartyData, Split, Table

PUBLIC_SEED = 11
SMALL = FedCVTConfig(
    d=3,
    hidden=5,
    steps=7,
    memory_every=3,
    aligned_batch=16,
    alone_batch=10,
    memory_pool=8,
    pseudo_from=2,
    pseudo_ramp=2,
    threshold_joint=0.5,
    threshold_active=0.5,
    threshold_passive=0.5,
    minimum_overlap=1,
    candidates="given",
    folds=0,
    linear_views=0,
    baselines=False,
    baseline_steps=4,
    evaluation_batch=8,
)


def party(people, columns, split, labels=None, classes=()) -> PartyData:
    """A party with these people (numbers), its columns (rows, f), split codes and, if active, label codes."""
    table = Table(
        tuple(NumericColumn(name=f"x{i}", values=np.ascontiguousarray(c)) for i, c in enumerate(columns.T))
    )
    keys = tuple(b"person-%05d" % number for number in people)
    return PartyData(keys=keys, table=table, split=split.astype(np.uint8), labels=labels, classes=classes)


def two_parties(
    *, aligned=40, test=12, active_only=30, passive_only=26, seed=0, classes=("no", "yes"), missing_labels=0
) -> tuple[PartyData, PartyData]:
    """Active (3 columns) and passive (2 columns) with groups of these sizes, in different orders of rows."""
    draw = np.random.default_rng(seed)
    total = aligned + test + active_only + passive_only
    features = draw.normal(size=(total, 5))
    labels = np.digitize(features.sum(axis=1), np.linspace(-1, 1, len(classes) + 1)[1:-1]).astype(np.int64)
    labels[:missing_labels] = -1
    split = np.full(total, Split.TRAIN, dtype=np.uint8)
    split[aligned : aligned + test] = Split.TEST
    both = np.arange(aligned + test)
    first = draw.permutation(np.concatenate([both, aligned + test + np.arange(active_only)]))
    second = draw.permutation(np.concatenate([both, aligned + test + active_only + np.arange(passive_only)]))
    return (
        party(first, features[first, :3], split[first], labels[first], classes),
        party(second, features[second, 3:], split[second]),
    )


def programs(
    active: PartyData,
    passive: PartyData,
    config: FedCVTConfig,
    *,
    seed=0,
    observe=silent,
    resume=(None, None),
):
    """Both programs of a run by role; `observe` is told of the active party's progress."""
    seeds = injected(seed, "active"), injected(seed, "passive")
    return {
        "active": active_program(active, config, PUBLIC_SEED, seeds[0], observe, resume=resume[0]),
        "passive": passive_program(passive, config, PUBLIC_SEED, seeds[1], resume=resume[1]),
    }


def watch(program, see):
    """The program; `see` is told of each effect and may give back another one."""
    value = None
    while True:
        try:
            effect = program.send(value)
        except StopIteration as end:
            return end.value
        value = yield see(effect) or effect


def keep_checkpoints(states):
    """What `watch` needs to copy the states of checkpoints into `states` by step."""

    def see(effect):
        if isinstance(effect, Checkpoint):
            states[effect.step] = {name: array.copy() for name, array in effect.state.items()}

    return see


def run(
    active: PartyData, passive: PartyData, config: FedCVTConfig, *, seed=0, observe=None, resume=(None, None)
):
    """The outcomes of a whole run, active first."""
    results = simulate(programs(active, passive, config, seed=seed, resume=resume), observe=observe)
    left, right = results["active"], results["passive"]
    assert isinstance(left, Outcome)
    assert isinstance(right, Outcome)
    return left, right
