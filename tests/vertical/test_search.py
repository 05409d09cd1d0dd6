"""The search inside whole runs: who is held out, what is chosen, and that the final training is an ordinary one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from protocols.errors import ProtocolError
from protocols.program import Progress, Send, silent, simulate
from protocols.seeds import injected
from tests.vertical.runs import PUBLIC_SEED, SMALL, keep_checkpoints, programs, run, two_parties, watch
from vertical.active_side import Labels
from vertical.config import FedCVTConfig
from vertical.folds import aligned_folds
from vertical.messages import Choice, PassiveViews, ViewGradients
from vertical.out_of_fold import OutOfFold
from vertical.predict import SITUATIONS, Situation
from vertical.search import Search
from vertical.training import Features, Run

SEARCH = replace(SMALL, candidates="given,linear", folds=2, linear_views=4, dropout=0.1, checkpoint_every=4)


def searched(config: FedCVTConfig = SEARCH, **sizes: int):
    """Messages of a run by kind, and its outcomes."""
    sent = []
    outcomes = run(*two_parties(**sizes), config, observe=lambda sender, to, message: sent.append(message))
    return sent, outcomes


@pytest.mark.parametrize("candidate", ["given", "wide"])
def test_the_final_training_is_that_of_the_chosen_settings_alone(candidate):
    """The search leaves no trace in it, but for the vote's calibration: neither randomness nor parameters."""
    config = replace(SEARCH, candidates=candidate, aligned_batch=64, pseudo=False, early_stopping=False)
    _, outcomes = searched(config)
    plain = replace(
        config.candidate(candidate), folds=0, aligned_batch=20
    )  # of 40 rows, two folds keep 20 each
    _, alone = searched(plain)
    for with_search, without in zip(outcomes, alone, strict=True):
        kinds = ("fedcvt.encoder", "fedcvt.heads", "fedcvt.memory")
        names = [name for name in without.artifacts if name.startswith(kinds)]
        assert len(names) >= 4
        for name in names:
            np.testing.assert_array_equal(with_search.artifacts[name], without.artifacts[name], err_msg=name)


def test_held_out_people_enter_no_step_of_their_fold():
    """Other labels of the people that the first training holds out change none of its gradients."""
    config = replace(SEARCH, candidates="given", aligned_batch=64, early_stopping=False)
    active, passive = two_parties()
    first, changed = [], []
    left, _ = run(active, passive, config, observe=lambda s, t, m: first.append(m))
    assert [len(m.aligned) for m in first if isinstance(m, PassiveViews)] == [20] * (3 * config.steps)
    own = left.artifacts["rows.aligned_train"][aligned_folds(PUBLIC_SEED, 40, 2)[0].held]
    labels = active.labels.copy()
    labels[own] = 1 - labels[own]
    run(replace(active, labels=labels), passive, config, observe=lambda s, t, m: changed.append(m))
    before, after = ([m for m in seen if isinstance(m, ViewGradients)] for seen in (first, changed))
    assert before[: config.steps] == after[: config.steps]
    assert before[config.steps] != after[config.steps]


def test_labels_change_no_row_that_a_step_or_a_fold_uses():
    """The passive party's messages depend on labels through gradients only: the first views of each training don't."""
    active, passive = two_parties()
    config = replace(SEARCH, candidates="given")
    views = []
    for labels in (active.labels, 1 - active.labels):
        sent = []
        run(
            replace(active, labels=labels), passive, config, observe=lambda s, t, m, sent=sent: sent.append(m)
        )
        first = [m for m in sent if isinstance(m, PassiveViews) and m.step == 0]
        views.append(first)
    assert views[0] == views[1]
    assert len(views[0]) == 3


@pytest.mark.parametrize("early", [True, False])
def test_the_passive_party_learns_two_small_numbers(early):
    config = replace(SEARCH, early_stopping=early)
    sent, _ = searched(config)
    choices = [message for message in sent if isinstance(message, Choice)]
    assert len(choices) == 1
    assert choices[0].candidate in (0, 1)
    assert choices[0].steps in ((6, 7) if early else (7,))
    sent, _ = searched(replace(config, candidates="given", early_stopping=False))
    assert not [message for message in sent if isinstance(message, Choice)]


@pytest.mark.parametrize("wrong", [Choice(2, 7), Choice(-1, 7), Choice(0, 5)])
def test_a_choice_of_what_was_not_compared_ends_the_run(wrong):
    both = programs(*two_parties(), SEARCH)

    def see(effect):
        return Send(effect.to, wrong) if isinstance(effect, Send) and type(effect.message) is Choice else None

    both["active"] = watch(both["active"], see)
    with pytest.raises(ProtocolError, match="the search didn't compare"):
        simulate(both)


def search(aligned: Labels, config: FedCVTConfig, found: dict[tuple[int, int], OutOfFold]) -> Search:
    """A search that has found this."""
    run = Run(config, PUBLIC_SEED, injected(0, "active"), silent)
    nothing = torch.zeros(0, 1)
    features = Features(aligned=torch.zeros(len(aligned.aligned), 1), alone=nothing, test=nothing, rules=None)
    return Search(
        run=run, features=features, labels=aligned, own=(), own_held=np.zeros(0, np.int64), found=found
    )


def said(chance: float, truth: torch.Tensor) -> OutOfFold:
    """All heads in all situations give this chance to the true class."""
    right = torch.nn.functional.one_hot(truth, 2).bool()
    logits = torch.where(right, torch.tensor(chance), torch.tensor(1 - chance)).log()
    found = OutOfFold.blank(len(truth), 0, 2)
    found.aligned[:] = logits
    return found


def test_the_least_loss_over_the_three_situations_is_chosen():
    truth = torch.tensor([0, 1] * 20)
    labels = Labels(aligned=truth, alone=truth[:0], test=truth[:0], classes=("no", "yes"))
    config = replace(SEARCH, candidates="given,linear")
    wavering = said(0.6, truth)
    wavering.aligned[:, :, ::4] = wavering.aligned[:, :, ::4].flip(
        -1
    )  # every fourth row is taken for the other
    found = {(0, 6): wavering, (0, 7): wavering, (1, 6): said(0.6, truth), (1, 7): wavering}
    assert search(labels, config, found).choose() == Choice(1, 6)
    # Where only one situation is better, the mean still says so.
    found[0, 7] = OutOfFold(wavering.aligned.clone(), wavering.alone)
    found[0, 7].aligned[0] = said(0.6, truth).aligned[0]
    del found[1, 6]
    assert search(labels, config, found).choose() == Choice(0, 7)


def test_of_equal_ones_the_first_candidate_and_the_longest_training_are_chosen():
    truth = torch.tensor([0, 1, 1, 0])
    labels = Labels(aligned=truth, alone=truth[:0], test=truth[:0], classes=("no", "yes"))
    found = {(c, p): said(0.7, truth) for c in (0, 1) for p in (6, 7)}
    assert search(labels, SEARCH, found).choose() == Choice(0, 7)
    unknown = Labels(aligned=truth * 0 - 1, alone=truth[:0], test=truth[:0], classes=("no", "yes"))
    assert search(unknown, SEARCH, found).choose() == Choice(0, 7)  # no labelled person was held out
    assert search(labels, SEARCH, {}).choose() == Choice(0, 7)


def test_temperatures_belong_to_their_situation_and_head():
    """Right nine times of ten at chance 0.99 is too sure, at 0.6 too timid: temperatures above and below 1."""
    truth = torch.tensor([0, 1] * 100)
    labels = Labels(aligned=truth, alone=truth[:0], test=truth[:0], classes=("no", "yes"))
    found = said(0.99, truth)
    found.aligned[1, 2] = said(0.6, truth).aligned[1, 2]
    found.aligned[:, :, ::10] = found.aligned[:, :, ::10].flip(-1)
    temperatures = search(labels, SEARCH, {(0, 7): found}).temperatures(Choice(0, 7))
    timid = torch.zeros(3, 3, dtype=torch.bool)
    timid[1, 2] = True
    assert torch.equal(temperatures < 1.0, timid)
    # log(9) / log(99) = 1 / 2.09 but for the weak prior
    assert float(temperatures[0, 0]) == pytest.approx(np.log(99) / np.log(9), rel=0.05)
    assert torch.equal(search(labels, SEARCH, {}).temperatures(Choice(0, 7)), torch.ones(3, 3))


@pytest.mark.slow
def test_a_run_resumed_anywhere_in_its_search_gives_the_same_bits():
    active, passive = two_parties(aligned=14, test=5, active_only=9, passive_only=8)
    states: dict[str, dict] = {"active": {}, "passive": {}}

    both = programs(active, passive, SEARCH)
    whole = simulate({role: watch(program, keep_checkpoints(states[role])) for role, program in both.items()})
    assert list(states["active"]) == list(states["passive"])
    # Four trainings of 7 steps, a checkpoint (4 rounded up to refreshes, every 3: at 6) in each and at each start.
    assert [at for at in states["active"] if at < 28] == [6, 7, 13, 14, 20, 21, 27]
    assert [at - 28 for at in states["active"] if at >= 28] in ([0], [0, 6])
    for at in states["active"]:
        sent: list[str] = []
        again = run(
            active,
            passive,
            SEARCH,
            resume=(states["active"][at], states["passive"][at]),
            observe=lambda s, t, m, sent=sent: sent.append(type(m).__name__),
        )
        assert "LinearViews" not in sent
        assert sent.count("Choice") == (at < 28)
        for role, outcome in zip(("active", "passive"), again, strict=True):
            assert outcome.report == whole[role].report, at
            assert outcome.artifacts.keys() == whole[role].artifacts.keys()
            for name, array in outcome.artifacts.items():
                np.testing.assert_array_equal(array, whole[role].artifacts[name], err_msg=f"{at} {name}")


def test_progress_names_candidate_and_fold():
    seen: list[Progress] = []
    simulate(programs(*two_parties(), SEARCH, observe=seen.append))
    assert list(dict.fromkeys(progress.phase for progress in seen)) == [
        "align",
        "search given, fold 1 of 2",
        "search given, fold 2 of 2",
        "search linear, fold 1 of 2",
        "search linear, fold 2 of 2",
        "active_alone, fold 1 of 2",
        "active_alone, fold 2 of 2",
        "active_alone",
        "fedcvt",
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        {"aligned": 1},
        {"aligned": 2},
        {"aligned": 3, "active_only": 1, "passive_only": 0},
        {"active_only": 0},
        {"passive_only": 0, "test": 0},
    ],
    ids=str,
)
def test_edge_sizes_end_with_finite_numbers(sizes):
    config = replace(SEARCH, folds=3, baselines=True)
    _, outcomes = searched(config, **sizes)
    for outcome in outcomes:
        for name, value in outcome.artifacts.items():
            assert np.isfinite(value).all(), name


def test_one_class_in_a_fold_or_at_all_is_no_error():
    active, passive = two_parties(aligned=6)
    for labels in (np.zeros_like(active.labels), np.where(np.arange(len(active.labels)) == 3, 1, 0)):
        left, _ = run(replace(active, labels=labels), passive, SEARCH)
        assert all(np.isfinite(value).all() for value in left.artifacts.values())


def test_out_of_fold_logits_are_those_of_a_model_that_never_saw_the_row():
    found = OutOfFold.blank(4, 3, 2)
    assert np.isnan(found.logits(Situation.ACTIVE_ONLY, "joint")).all()
    assert found.logits(Situation.ACTIVE_ONLY, "joint").shape == (7, 2)
    assert found.logits(Situation.BOTH, "passive").shape == (4, 2)
    found.aligned[SITUATIONS.index(Situation.PASSIVE_ONLY), 2, 1] = torch.tensor([3.0, 4.0])
    found.alone[1, 2] = torch.tensor([5.0, 6.0])
    assert found.logits(Situation.PASSIVE_ONLY, "passive")[1].tolist() == [3.0, 4.0]
    assert found.logits(Situation.ACTIVE_ONLY, "active")[6].tolist() == [5.0, 6.0]
    again = OutOfFold.unpack("x", found.pack("x"))
    assert torch.equal(again.aligned.nan_to_num(), found.aligned.nan_to_num())
