"""What a side tells of its progress."""

from protocols.program import Progress
from vertical.training import PROGRESS_EVERY, tell_step


def _told(steps: int, losses: list[float]) -> list[Progress]:
    told: list[Progress] = []
    for step in range(steps):
        tell_step(told.append, "fedcvt", step, steps, losses[: step + 1])
    return told


def test_a_loss_is_the_mean_of_an_interval_never_that_of_one_step() -> None:
    losses = [float(n) for n in range(2 * PROGRESS_EVERY)]

    told = _told(2 * PROGRESS_EVERY, losses)

    # 0 .. 19 have the mean 9.5, 20 .. 39 the mean 29.5; after the first step there is no interval yet.
    assert [(p.step, p.loss) for p in told] == [(1, None), (20, 9.5), (40, 29.5)]


def test_a_short_rest_is_told_with_a_whole_interval_behind_it() -> None:
    told = _told(PROGRESS_EVERY + 1, [0.0] * PROGRESS_EVERY + [float(PROGRESS_EVERY)])

    assert [(p.step, p.loss) for p in told] == [(1, None), (20, 0.0), (21, 1.0)]


def test_a_training_shorter_than_an_interval_and_a_party_without_labels_tell_no_loss() -> None:
    assert [p.loss for p in _told(3, [1.0, 2.0, 3.0])] == [None, None]
    told: list[Progress] = []
    for step in range(PROGRESS_EVERY):
        tell_step(told.append, "fedcvt", step, PROGRESS_EVERY)
    assert [(p.step, p.loss) for p in told] == [(1, None), (PROGRESS_EVERY, None)]
