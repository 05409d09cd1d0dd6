"""What a run on tables is asked for, its parameters in a request, and the network that all make of it."""

import pytest
import torch

from horizontal.config import HorizontalConfig
from horizontal.table_task import complete, from_parameters
from protocols.errors import ConfigError
from protocols.seeds import derive, injected

ASKED: dict[str, object] = {
    "features": {"age": [20, 80], "sex": ["f", "m"], "p0..p2": [0, 16]},
    "classes": ["no", "yes"],
    "hidden": [8, 4],
}


def test_a_plan_in_words_and_its_parameters_mean_the_same() -> None:
    parameters = complete({**ASKED, "method": "fedbss", "rounds": 7})
    task, config = from_parameters(parameters)
    assert (task.width, task.classes, task.hidden) == (6, ("no", "yes"), (8, 4))
    assert config == HorizontalConfig(admission="fedbss", rounds=7)  # type: ignore[arg-type]
    assert list(dict(parameters)) == sorted(dict(parameters))
    assert complete(dict(parameters)) == parameters


def test_initial_weights_are_torchs_own_and_leave_the_shared_generator_alone() -> None:
    task, _ = from_parameters(complete({**ASKED, "hidden": ""}))
    seed = injected(1, "aggregator")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(seed, "initial weights"))
        torchs = torch.nn.Linear(task.width, len(task.classes))
    before = torch.random.get_rng_state()
    ours = task.network(seed)[0]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(ours.weight, torchs.weight)
    assert torch.equal(ours.bias, torchs.bias)


def test_all_make_the_same_network_and_the_seed_its_weights() -> None:
    task, _ = from_parameters(complete(ASKED))
    state = torch.random.get_rng_state()
    one, same, other = (task.network(injected(n, "aggregator")) for n in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state()), "torch's own generator is left alone"
    assert [tuple(p.shape) for p in one.parameters()] == [(8, 6), (8,), (4, 8), (4,), (2, 4), (2,)]
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one[0].weight, other[0].weight)
    linear, _ = from_parameters(complete({**ASKED, "hidden": ""}))
    assert len(linear.network(b"seed")) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"classes": ["no"]}, "classes"),
        ({"classes": None}, "classes"),
        ({"hidden": "many"}, "hidden"),
        ({"hidden": [0]}, "hidden"),
        ({"features": None}, "features"),
        ({"features": {"p0..p9999": [0, 1], "sex": ["x" * 2000]}}, "2000"),
        ({"method": "fedmagic"}, "fedmagic"),
        ({"speed": 3}, "speed"),
        ({"rounds": "ten"}, "rounds"),
        ({"method": "scaffold", "optimizer": "adam"}, "SCAFFOLD"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        complete({**ASKED, **change})


def test_a_request_must_say_everything() -> None:
    parameters = complete(ASKED)
    for name, _ in parameters:
        with pytest.raises(ConfigError, match="missing"):
            from_parameters([p for p in parameters if p[0] != name])
