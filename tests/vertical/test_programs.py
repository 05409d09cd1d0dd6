"""The two programs: overlaps of every size, faults of the peer, what leaves whom, checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from protocols.disclosure import releasable
from protocols.errors import ConfigError, DataMissingError, OverlapError, ProtocolError
from protocols.program import Checkpoint, Progress, Receive, Send, simulate
from protocols.wire import encode
from tests.vertical.runs import SMALL, keep_checkpoints, party, programs, run, two_parties, watch
from vertical.messages import PassiveViews, Splits, ViewGradients
from vertical.table import Split


@pytest.mark.parametrize(("aligned", "minimum"), [(0, 1), (1, 2), (2, 3)])
def test_ac_08_too_small_an_overlap_ends_the_run_before_training_at_both(aligned, minimum):
    config = replace(SMALL, minimum_overlap=minimum)
    parties = two_parties(aligned=aligned, test=2, active_only=5, passive_only=6)
    kinds = []
    errors = {}
    for first in ("active", "passive"):
        order = {first: None, "active": None, "passive": None}
        both = programs(*parties, config)
        with pytest.raises(OverlapError) as caught:
            simulate(
                {role: both[role] for role in order}, observe=lambda s, t, m: kinds.append(type(m).__name__)
            )
        errors[first] = str(caught.value)
    assert all(f"overlap {aligned}, FedCVT needs at least {minimum}" in text for text in errors.values())
    assert not {"MemoryViews", "PassiveViews"} & set(kinds)


def test_ac_08_each_side_finds_out_on_its_own():
    """Neither needs the other to say so: both programs are driven to the same error."""
    both = programs(*two_parties(aligned=0, test=2, active_only=5, passive_only=6), SMALL)
    seen = _drive_all(both)
    assert {role: type(error) for role, error in seen.items()} == {
        "active": OverlapError,
        "passive": OverlapError,
    }


def _drive_all(both):
    """Runs both programs with queues until each has ended; the error of each."""
    queues = {role: [] for role in both}
    errors, values, effects = {}, dict.fromkeys(both), dict.fromkeys(both)
    while len(errors) < len(both):
        for role, program in both.items():
            if role in errors:
                continue
            try:
                while True:
                    effect = effects[role]
                    if isinstance(effect, Receive):
                        if not queues[role]:
                            break
                        values[role] = queues[role].pop(0)
                    effects[role] = effect = program.send(values[role])
                    values[role] = None
                    if isinstance(effect, Send):
                        queues[effect.to].append(effect.message)
                    elif not isinstance(effect, Receive | Checkpoint):
                        values[role] = effect.function(*effect.arguments)
            except OverlapError as error:
                errors[role] = error
    return errors


@pytest.mark.parametrize("aligned", [1, 2])
@pytest.mark.parametrize("live", [True, False])
def test_ac_08_overlap_of_one_or_two_trains_to_finite_numbers(aligned, live):
    config = replace(SMALL, live_keys=live, baselines=True)
    left, right = run(*two_parties(aligned=aligned, test=9, active_only=8, passive_only=7), config)
    for outcome in (left, right):
        for name, value in outcome.artifacts.items():
            assert np.isfinite(value).all(), name
    assert left.report["methods"]["fedcvt"]["both"]["people"] == 9


@pytest.mark.parametrize("normalisation", ["batch", "layer"])
@pytest.mark.parametrize("alone", [0, 1])
def test_steps_of_one_row_train_to_finite_numbers(normalisation, alone):
    config = replace(
        SMALL,
        encoder="cnn",
        image_active="3x1",
        channels=2,
        normalisation=normalisation,
        aligned_batch=1,
        alone_batch=alone,
        baselines=True,
    )
    for outcome in run(*two_parties(aligned=3, active_only=2, passive_only=2), config):
        assert all(np.isfinite(value).all() for value in outcome.artifacts.values())


@pytest.mark.parametrize(
    "sizes",
    [
        {"active_only": 0},
        {"passive_only": 0},
        {"active_only": 0, "passive_only": 0, "test": 0},
        {"test": 0},
    ],
    ids=str,
)
def test_empty_groups_are_fine(sizes):
    left, right = run(*two_parties(**sizes), replace(SMALL, baselines=True))
    assert left.report["groups"]["passive_only"] == right.report["groups"]["passive_only"]
    for outcome in (left, right):
        assert all(np.isfinite(value).all() for value in outcome.artifacts.values())
    if sizes.get("test") == 0:
        both = left.report["methods"]["fedcvt"]["both"]
        assert both["auc"] is None
        assert both["reasons"] == ["no rows"]


def test_ac_05_row_i_is_the_same_person_at_both():
    active, passive = two_parties()
    left, right = run(active, passive, SMALL)
    for group in ("aligned_train", "aligned_test"):
        ours, theirs = left.artifacts[f"rows.{group}"], right.artifacts[f"rows.{group}"]
        assert [active.keys[i] for i in ours] == [passive.keys[i] for i in theirs]
        assert set(active.split[ours]) <= {Split.TRAIN if group == "aligned_train" else Split.TEST}
    tags = [outcome.artifacts["alignment_tag"].tobytes().decode() for outcome in (left, right)]
    assert tags[0] == tags[1]
    assert len(tags[0]) == 64
    assert tags[0] not in json.dumps([left.report, right.report])


def test_alone_people_are_training_people_that_are_not_common():
    active, passive = two_parties()
    extra = passive.take(np.arange(passive.table.rows))
    split = extra.split.copy()
    alone = [i for i, key in enumerate(passive.keys) if key not in set(active.keys)]
    split[alone[:5]] = Split.TEST
    split[alone[5:8]] = Split.VALIDATION
    passive = replace(passive, split=split)
    left, right = run(active, passive, SMALL)
    assert sorted(right.artifacts["rows.passive_only"]) == alone[8:]
    assert not {active.keys[i] for i in left.artifacts["rows.active_only"]} & set(passive.keys)


def test_the_order_of_alone_people_is_private():
    active, passive = two_parties()
    orders = [
        run(active, passive, SMALL, seed=seed)[1].artifacts["rows.passive_only"].tolist() for seed in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) != orders[0]


def test_bounds_cap_the_groups_in_the_common_order():
    active, passive = two_parties()
    full, _ = run(active, passive, SMALL)
    config = replace(SMALL, max_aligned_train=10, max_aligned_test=3, max_passive_only=4)
    left, right = run(active, passive, config)
    assert left.artifacts["rows.aligned_train"].tolist() == full.artifacts["rows.aligned_train"][:10].tolist()
    assert len(left.artifacts["rows.aligned_test"]) == 3
    assert len(right.artifacts["rows.passive_only"]) == len(left.artifacts["pseudo_label"]) == 4
    assert len(left.artifacts["rows.active_only"]) == 30  # those cut off are not called active-only


def leaving(active, passive):
    """A run's outcomes, and all bytes that each party sends in it."""
    sent = {"active": b"", "passive": b""}

    def observe(sender, to, message):
        sent[sender] += encode(message)

    return *run(active, passive, replace(SMALL, baselines=True), observe=observe), sent


def cells_in(data, table):
    """Where in the table a number stands whose float32 bytes are somewhere in the data."""
    return {
        (column.name, row)
        for column in table.columns
        for row, value in enumerate(column.values)
        if np.float32(value).tobytes() in data
    }


def test_what_leaves_holds_no_key_no_feature_and_no_label():
    active, passive = two_parties()
    left, right, sent = leaving(active, passive)
    *_, again = leaving(active, passive)
    for role, own in (("active", active), ("passive", passive)):
        data = sent[role]
        assert not any(key in data for key in own.keys)
        assert not any(value.tobytes() in data for column in own.table.columns for value in column.values)
        # blinded keys are new random bytes in each run: now and then four of them are those of some number
        assert not cells_in(data, own.table) & cells_in(again[role], own.table)
    labels = active.labels[left.artifacts["rows.aligned_train"]]
    for form in (np.int64, np.int32, np.uint8, np.float32):
        assert labels.astype(form).tobytes() not in sent["active"]
    report = json.dumps([left.report, right.report])
    assert "person-" not in report


def test_ac_10_classes_come_from_all_labelled_rows_and_their_names_are_kept():
    active, passive = two_parties(aligned=12, test=4, active_only=10, passive_only=6)
    labels = active.labels.copy()
    people = {int(key[-5:]): i for i, key in enumerate(active.keys)}
    outside = next(i for person, i in people.items() if person >= 16)
    labels[outside] = 2  # a class that only an active-only person has
    active = replace(active, labels=labels, classes=("no", "yes", "maybe"))
    left, _ = run(active, passive, SMALL)
    assert left.artifacts["fedcvt.heads.joint.layers.0.weight"].shape[0] == 3
    assert json.loads(left.artifacts["classes"].tobytes()) == ["no", "yes", "maybe"]


def test_ac_10_one_class_among_the_test_people_is_no_error():
    active, passive = two_parties()
    labels = active.labels.copy()
    labels[active.split == Split.TEST] = 0
    left, _ = run(replace(active, labels=labels), passive, SMALL)
    both = left.report["methods"]["fedcvt"]["both"]
    assert both["auc"] is None
    assert both["reasons"] == ["auc: one class"]
    assert both["accuracy"] is not None


def test_a_block_without_labels_cannot_be_active():
    active, passive = two_parties()
    for broken in (
        replace(active, labels=None, classes=()),
        replace(active, labels=active.labels * 0, classes=("a",)),
    ):
        with pytest.raises(DataMissingError, match="at least 2 are needed"):
            simulate(programs(broken, passive, SMALL))


def test_the_report_counts_and_scores_everything():
    config = replace(SMALL, baselines=True)
    left, right = run(*two_parties(), config)
    assert left.report["groups"] == {
        "aligned_train": 40,
        "aligned_test": 12,
        "active_only": 30,
        "passive_only": 26,
    }
    for outcome in (left, right):
        kept = {
            name: int(outcome.artifacts[f"people.{name}"]) for name in ("common", "split_differs", "train")
        }
        assert kept == {"common": 52, "split_differs": 0, "train": 40}
    assert {method: set(scores) for method, scores in left.report["methods"].items()} == {
        "fedcvt": {"both", "active_only", "passive_only"},
        "joint": {"both", "active_only", "passive_only"},
        "active_alone": {"active_only"},
        "aligned_only_network": {"both"},
        "active_alone_network": {"active_only"},
    }
    votes = left.report["pseudo_labels"]
    assert votes == {"accepted": int(left.artifacts["pseudo_accepted"].sum()), "people": 26}
    assert len(left.report["loss"]["fedcvt"]["values"]) == 7
    json.dumps([left.report, right.report], allow_nan=False)


@pytest.mark.parametrize("final_vote", [True, False])
def test_ac_09_no_pseudo_label_passes(final_vote):
    config = replace(SMALL, final_vote=final_vote, threshold_joint=1.0)
    left, _ = run(*two_parties(passive_only=5), config)
    assert left.report["pseudo_labels"] == {"people": 5, "accepted": 0}
    assert all(np.isfinite(value).all() for value in left.artifacts.values())


@pytest.mark.parametrize("passive_only", [4, 26])
def test_without_the_final_vote_the_last_step_s_passive_only_people_are_counted_once(passive_only):
    config = replace(SMALL, final_vote=False, steps=6)  # three steps since the last refresh
    left, _ = run(*two_parties(passive_only=passive_only, missing_labels=3), config)
    assert "pseudo_label" not in left.artifacts
    assert "passive_only" not in left.report["groups"]
    votes = left.report["pseudo_labels"]
    assert votes["people"] == min(passive_only, SMALL.alone_batch)
    assert 0 < votes["accepted"] <= votes["people"]
    assert ("suppressed" in str(releasable(left.report, 10)["pseudo_labels"]["people"])) is (
        passive_only < 10
    )


def test_both_sides_tell_their_progress():
    seen: list[Progress] = []
    active, passive = two_parties()
    config = replace(SMALL, steps=45, baselines=True)
    simulate(programs(active, passive, config, observe=seen.append))
    assert [(p.step, p.of) for p in seen if p.phase == "fedcvt"] == [(1, 45), (20, 45), (40, 45), (45, 45)]
    assert [p.loss is None for p in seen if p.phase == "fedcvt"] == [True, False, False, False]
    assert list(dict.fromkeys(p.phase for p in seen)) == ["align", "active_alone", "fedcvt", "aligned_only"]


@pytest.mark.parametrize(
    "changes",
    [{"input_noise": 0.1}, {"encoder": "mlp", "normalisation": "batch", "dropout": 0.2}],
    ids=["noise", "running statistics"],
)
def test_a_run_resumed_from_checkpoints_gives_the_same_bits(changes):
    active, passive = two_parties()
    config = replace(SMALL, steps=11, checkpoint_every=4, baselines=True, **changes)
    states = {"active": {}, "passive": {}}

    both = {
        role: watch(program, keep_checkpoints(states[role]))
        for role, program in programs(active, passive, config).items()
    }
    whole = simulate(both)
    assert list(states["active"]) == list(states["passive"]) == [6]  # 4 rounded up to the refreshes, every 3
    again = run(active, passive, config, resume=(states["active"][6], states["passive"][6]))
    for role, outcome in zip(("active", "passive"), again, strict=True):
        assert outcome.report == whole[role].report
        assert all(np.array_equal(outcome.artifacts[k], v) for k, v in whole[role].artifacts.items())


WILD = replace(SMALL, learning_rate=1.0, weight_decay=100.0, schedule="constant", memory_every=1000)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (replace(WILD, steps=60), "fedcvt"),
        (replace(WILD, steps=60, candidates="given,linear", folds=2), "search given 1"),
        (replace(WILD, steps=1, baselines=True, baseline_steps=60), "aligned_only"),
        *((replace(WILD, steps=steps), "fedcvt") for steps in range(18, 22)),
    ],
)
def test_a_training_that_diverges_is_told_as_what_it_is(config, name):
    """No fault of the peer's messages, and never a model of numbers that are none."""
    with pytest.raises(ConfigError, match=f"{name}: the training diverged") as caught:
        run(*two_parties(), config)
    assert "smaller learning_rate" in caught.value.remedy


def _corrupt(program, kind, change):
    """The program, whose first message of `kind` is replaced by `change(message)`."""
    changed = []

    def see(effect):
        if isinstance(effect, Send) and type(effect.message) is kind and not changed:
            changed.append(effect)
            return Send(effect.to, change(effect.message))
        return None

    return watch(program, see)


@pytest.mark.parametrize(
    ("role", "kind", "change", "match"),
    [
        ("passive", PassiveViews, lambda m: replace(m, step=1), "expected 0, came 1"),
        ("passive", PassiveViews, lambda m: replace(m, aligned=m.aligned[:, :-1]), "expected shape"),
        ("passive", PassiveViews, lambda m: replace(m, aligned=m.aligned[:-1]), "expected shape"),
        ("passive", PassiveViews, lambda m: replace(m, alone=np.repeat(m.alone, 2, 0)), "alone rows"),
        ("passive", PassiveViews, lambda m: replace(m, alone=m.alone * np.float32(np.nan)), "not finite"),
        ("active", ViewGradients, lambda m: replace(m, aligned=m.aligned + np.float32(np.inf)), "not finite"),
        ("active", ViewGradients, lambda m: replace(m, alone=m.alone[:-1]), "expected shape"),
        ("active", ViewGradients, lambda m: replace(m, step=-1), "expected 0, came -1"),
    ],
)
def test_a_wrong_message_of_the_peer_ends_the_run(role, kind, change, match):
    both = programs(*two_parties(), SMALL)
    both[role] = _corrupt(both[role], kind, change)
    with pytest.raises(ProtocolError, match=match):
        simulate(both)


def test_splits_of_the_wrong_people_end_the_run():
    both = programs(*two_parties(), SMALL)
    both["passive"] = _corrupt(both["passive"], Splits, lambda m: Splits(m.split[1:]))
    with pytest.raises(ProtocolError, match="sent splits of 51 people, 52 are common"):
        simulate(both)


def test_more_common_people_than_the_request_allows():
    with pytest.raises(OverlapError, match="52 people are common, the request allows 51"):
        simulate(programs(*two_parties(), replace(SMALL, max_common=51)))


def test_a_passive_party_is_never_asked_for_labels():
    active, passive = two_parties()
    labelled = party(
        [int(key[-5:]) for key in passive.keys],
        np.stack([column.values for column in passive.table.columns], axis=1),
        passive.split,
        np.zeros(len(passive.keys), np.int64),
        ("a", "b"),
    )
    plain, with_labels = run(active, passive, SMALL), run(active, labelled, SMALL)
    assert plain[0].report == with_labels[0].report
