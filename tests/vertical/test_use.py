"""What every use of a model begins with: one model at both, people of the asked split, views in parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from protocols.errors import ConfigError, ModelError, OverlapError, ProtocolError
from protocols.program import Receive, Send, simulate
from tests.vertical.uses import BOUNDS, MODEL, USES, parties, people_of, settings, trained, use
from vertical.encoders import Representation
from vertical.model import ActivePart
from vertical.model_arrays import without_memory
from vertical.table import Split
from vertical.use import UseRun, receive_others, rows_asked
from vertical.use_config import PredictConfig, UseConfig, VoteConfig, inherited
from vertical.use_messages import AloneShown

ALL = sorted(USES)
RUN = UseRun(seed=bytes(32))


@pytest.mark.parametrize("what", ALL)
def test_parts_of_two_runs_are_refused_before_anything_else_is_sent(what):
    sent = []
    parts = (trained(0)[0], trained(1)[1])
    with pytest.raises(ModelError, match="another run of the training"):
        use(what, parts=parts, observe=lambda sender, to, message: sent.append(type(message).__name__))
    assert set(sent) == {"SameModel"}


@pytest.mark.parametrize("what", ALL)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("changes", [{"d": 4}, {"unique_passive": 4}])
def test_a_request_that_does_not_fit_the_model_is_refused_at_each_side(what, side, changes):
    programs, kind = USES[what]
    make = getattr(programs, f"{('active', 'passive')[side]}_program")
    program = make(parties()[side], trained()[side], kind(**(BOUNDS | changes)), RUN)
    with pytest.raises(ModelError, match=r"the request says \d+, the model has \d+"):
        next(program)


@pytest.mark.parametrize("what", ALL)
def test_another_number_of_classes_is_refused(what):
    with pytest.raises(ModelError, match="classes: the request says 2, the model has 3"):
        use(what, classes=2)


@pytest.mark.parametrize("what", ALL)
def test_without_a_memory_nothing_is_filled_and_nothing_sent(what):
    whole, passive = trained()
    forgetful = ActivePart.unpack(without_memory(whole.pack()))
    sent = []
    with pytest.raises(ModelError, match="memory of the other party was deleted"):
        use(what, parts=(forgetful, passive), observe=lambda *message: sent.append(message))
    assert sent == []


@pytest.mark.parametrize("split", list(Split))
def test_only_keys_of_the_asked_split_are_offered(split):
    active, passive = (
        replace(data, split=np.array([int(key[-1:]) % 3 for key in data.keys], np.uint8))
        for data in parties()
    )
    outcomes = use("predict", (active, passive), split=split.name.lower())
    asked = people_of(active, split).keys()
    rows = outcomes[0].artifacts
    assert {active.keys[row] for row in rows["rows.both"]} == asked & people_of(passive, split).keys()
    assert {active.keys[row] for row in rows["rows.active_only"]} == asked - people_of(passive, split).keys()


def test_all_rows_are_asked_unless_a_split_is_named():
    active = parties()[0]
    assert rows_asked(active, UseConfig(model=MODEL).split).tolist() == list(range(active.table.rows))


@pytest.mark.parametrize("what", ALL)
def test_more_common_people_than_the_request_allows_end_the_run(what):
    with pytest.raises(OverlapError, match="52 people are common, the request allows 51"):
        use(what, max_common=51)


@pytest.mark.parametrize(
    ("what", "changes"), [("fill", {}), ("vote", {}), ("predict", {"receiver": "passive"})]
)
def test_more_others_than_the_request_allows_are_left_out_and_counted(what, changes):
    _, right = use(what, max_passive_only=20, **changes)
    assert right.report == {"shown": {"people": 20}, "left_out": {"people": 6}}
    assert len(right.artifacts["rows.passive_only"]) == 20


@pytest.mark.parametrize("what", ALL)
@pytest.mark.parametrize("sizes", [{"aligned": 0, "test": 0}, {"aligned": 4, "test": 0}])
def test_fewer_common_people_than_the_request_s_least_end_the_run_before_any_view(what, sizes):
    sent = []
    with pytest.raises(OverlapError):
        use(what, parties(**sizes), least=5, observe=lambda *message: sent.append(type(message[2]).__name__))
    assert not {"CommonShown", "AloneShown"} & set(sent)


@pytest.mark.parametrize("what", ALL)
def test_the_same_run_between_blocks_in_another_order(what):
    first = use(what)
    active, passive = parties()
    order = np.random.default_rng(1).permutation(active.table.rows)
    again = use(what, (active.take(order), passive))
    assert first[0].report == again[0].report


def views(*shapes):
    """Messages with views of these numbers of rows, as (start, of, rows)."""
    width = UseConfig(**BOUNDS).width
    return [AloneShown(start, of, np.zeros((rows, width), np.float32)) for start, of, rows in shapes]


def heard(*shapes) -> Representation:
    """What the active party makes of such messages."""

    def speaks():
        for message in views(*shapes):
            yield Send("active", message)

    programs = {"active": receive_others(UseConfig(**BOUNDS)), "passive": speaks()}
    return simulate(programs)["active"]


@pytest.mark.parametrize(
    "shapes",
    [
        [(0, 27, 8)],  # more people than the request allows
        [(0, -1, 0)],
        [(1, 8, 8)],  # doesn't begin at the beginning
        [(0, 8, 4), (4, 9, 4)],  # changes its number
        [(0, 8, 4), (0, 8, 4)],  # the same again
        [(0, 8, 9)],  # more rows than there are
        [(0, 8, 0)],  # no progress
    ],
    ids=str,
)
def test_wrong_numbers_of_the_passive_party_are_refused(shapes):
    with pytest.raises(ProtocolError):
        heard(*shapes)


def test_views_come_in_parts_of_any_length():
    assert heard((0, 9, 4), (4, 9, 4), (8, 9, 1)).shape == (9, 6)
    assert heard((0, 0, 0)).shape == (0, 6)


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        (UseConfig, {"model": ""}, "digest of a training request"),
        (UseConfig, {"model": MODEL[:-1]}, "digest of a training request"),
        (UseConfig, {"model": MODEL.upper()}, "digest of a training request"),
        (UseConfig, {"split": "some"}, "split must be one of train, validation, test, all"),
        (UseConfig, {"d": 0}, "d must lie in"),
        (UseConfig, {"max_common": 1.5}, "max_common: expected int"),
        (VoteConfig, {"threshold_joint": 1.5}, "threshold_joint must lie in"),
        (VoteConfig, {"unlabelled": 1}, "unlabelled: expected bool"),
        (PredictConfig, {"receiver": "analyst"}, "receiver must be one of active, passive"),
        (PredictConfig, {"class_names": "[1, 2, 3]"}, "expected a JSON list of texts"),
        (PredictConfig, {"class_names": "{"}, "expected a JSON list of texts"),
        (PredictConfig, {"class_names": '["a"]'}, "expected 3 names"),
    ],
)
def test_a_wrong_setting_is_named(kind, changes, told):
    with pytest.raises(ConfigError, match=told):
        kind(**(BOUNDS | changes))


def test_what_follows_from_the_model():
    config = replace(trained()[0].config, unique_passive=5, threshold_active=0.6)
    names = inherited(config, ("no", "yes"))
    made = PredictConfig(model=MODEL, **{n: v for n, v in names.items() if not n.startswith("threshold")})
    assert (made.d, made.view_width, made.width) == (3, 8, 11)
    assert (made.classes, made.names) == (2, ("no", "yes"))
    assert names["threshold_active"] == 0.6
    many = inherited(config, [f"class number {n}" for n in range(500)])
    assert (many["classes"], many["class_names"]) == (500, "")
    assert PredictConfig(model=MODEL, classes=2).names == ("class 0", "class 1")


def test_a_message_out_of_turn_is_refused():
    programs, _ = USES["predict"]
    program = programs.passive_program(parties()[1], trained()[1], settings("predict"), RUN)
    assert isinstance(next(program), Send)
    assert isinstance(program.send(None), Receive)
    with pytest.raises(ProtocolError, match="expected SameModel from active, came AloneShown"):
        program.send(views((0, 0, 0))[0])
