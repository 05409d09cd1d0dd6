"""Horizontal methods compared on files: the library's own numbers, how clients are dealt out, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from horizontal.compatibility import table
from horizontal.config import HorizontalConfig
from horizontal.methods import METHODS
from parties.roles.simulating_clients import ClientsToSimulate, simulate_clients, what_there_is
from protocols.errors import BlockError, ConfigError
from tests.parties.commands.town import fedaccord

SHORT = {"rounds": 6, "epochs": 3, "batch": 8, "hidden": [8]}


def write_csv(path: Path, rows: int, seed: int) -> Path:
    generator = np.random.default_rng(seed)
    lines = ["patient,age,ward,split,diagnosis"]
    for row in range(rows):
        ill = generator.random() < 0.4
        split = "test" if row % 4 == 0 else "train"
        age, diagnosis = 45 + 20 * ill + generator.normal(0, 6), "ill" if ill else "well"
        lines.append(f"P{seed}{row:04d},{age:.1f},{'ab'[row % 2]},{split},{diagnosis}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_npz(path: Path, rows: int, seed: int) -> Path:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, rows)
    images = generator.normal(0, 1, (rows, 4, 4)) + labels[:, None, None]
    np.savez(path, x=images.astype(np.float32), y=labels)
    return path


def asked(*files: Path, **changes: object) -> ClientsToSimulate:
    given: dict[str, object] = {"key": "patient", "label": "diagnosis", "changes": SHORT, **changes}
    return ClientsToSimulate(files=files, **given)  # type: ignore[arg-type]


def silent(text: str) -> None:
    """Nobody listens."""


def test_one_table_is_dealt_out_and_every_method_sees_the_same_clients(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "all.csv", 200, 1)
    methods = ("fedavg", "fedbss", "scaffold")
    done = simulate_clients(asked(file, clients=5, setting="iid", methods=methods), silent)
    assert set(done.runs) == set(methods)
    assert done.sizes == {f"client-{number}": 30 for number in range(1, 6)}
    assert done.test_rows == 50
    assert all(len(run.curve("accuracy")) == 6 for run in done.runs.values())
    assert done.runs["fedavg"].curve("accuracy")[-1][1] > 0.75
    again = simulate_clients(asked(file, clients=5, setting="iid", methods=("fedavg",)), silent)
    assert again.runs["fedavg"].curve("loss") == done.runs["fedavg"].curve("loss")


def test_sums_under_masks_give_the_same_scores_and_no_drift_of_a_client(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "all.csv", 200, 1)
    plain, masked = (
        simulate_clients(asked(file, clients=5, setting="iid", methods=("fedavg",), changes=changes), silent)
        for changes in (SHORT, {**SHORT, "secure_aggregation": True, "minimum_clients": 3})
    )
    assert dict(masked.runs["fedavg"].curve("loss")) == pytest.approx(
        dict(plain.runs["fedavg"].curve("loss")), abs=1e-5
    )
    assert masked.document["methods"]["fedavg"]["drift"] is None  # type: ignore[index]
    assert masked.text.splitlines()[2].split()[5] == "-"
    with pytest.raises(ConfigError, match="median: it sorts"):
        simulate_clients(
            asked(file, clients=5, methods=("median",), changes={**SHORT, "secure_aggregation": True}), silent
        )


def test_several_tables_are_clients_with_their_own_split(tmp_path: Path) -> None:
    files = [write_csv(tmp_path / f"{seed}.csv", 60 + seed, seed) for seed in (1, 2)]
    done = simulate_clients(asked(*files, split="split"), silent)
    assert done.sizes == {"client-1": 45, "client-2": 46}
    assert done.test_rows == 16 + 16


def test_arrays_of_images_are_clients_too(tmp_path: Path) -> None:
    file = write_npz(tmp_path / "images.npz", 300, 1)
    done = simulate_clients(asked(file, clients=6, setting="dominant80", key="", label=""), silent)
    assert sum(done.sizes.values()) + done.test_rows == 300
    assert done.runs["fedavg"].curve("accuracy")[-1][1] > 0.6
    assert "6 clients" in done.text
    json.dumps(done.document, allow_nan=False)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"methods": ("fedmagic",)}, "fedmagic"),
        ({"methods": ("fedavg", "scaffold"), "changes": {"optimizer": "adam"}}, "SCAFFOLD corrects plain"),
        ({"methods": ("fedavg", "fedoui"), "changes": {"hidden": ""}}, "FedOUI"),
        ({"setting": "unfair"}, "unfair"),
        ({"setting": "dirichlet"}, "dirichlet"),
        ({"setting": "iid7"}, "iid7"),
        ({"clients": 10_000}, "10000 clients"),
        ({"key": ""}, "--key"),
        ({"changes": {"speed": 1}}, "speed"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, object], text: str
) -> None:
    file = write_csv(tmp_path / "all.csv", 80, 1)
    with pytest.raises(ConfigError, match=text):
        simulate_clients(asked(file, **changes), silent)


def test_files_that_are_no_arrays_or_differ_are_refused(tmp_path: Path) -> None:
    one = write_npz(tmp_path / "one.npz", 30, 1)
    other = tmp_path / "other.npz"
    np.savez(other, x=np.zeros((5, 3)), y=np.zeros(5, np.int64))
    with pytest.raises(BlockError, match="differ in the number of features: 3, 16"):
        simulate_clients(asked(one, other), silent)
    for arrays in ({"x": np.zeros((5, 3))}, {"x": np.zeros((5, 3)), "y": np.zeros(4)}):
        np.savez(other, **arrays)
        with pytest.raises(BlockError, match=r"other\.npz"):
            simulate_clients(asked(other), silent)
    np.savez(other, x=np.array([{"a": 1}], object), y=np.zeros(1))
    with pytest.raises(BlockError, match=r"other\.npz"):
        simulate_clients(asked(other), silent)
    with pytest.raises(ConfigError, match="a client of its own"):
        simulate_clients(asked(one, one, clients=4), silent)


def test_the_command_compares_and_keeps_the_two_kinds_apart(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "all.csv", 120, 1)
    words = [
        "--horizontal",
        "--client",
        str(file),
        "--key",
        "patient",
        "--label",
        "diagnosis",
        "--clients",
        "3",
    ]
    said = fedaccord("simulate", *words, "--rounds", "2", "--methods", "fedavg, fedprox", "--json")
    assert said.status == 0, said.err
    assert list(json.loads(said.out)["methods"]) == ["fedavg", "fedprox"]
    wrong = fedaccord("simulate", *words, "--active", str(file))
    assert (wrong.status, "--active: not for --horizontal" in wrong.err) == (1, True)
    wrong = fedaccord("simulate", "--rounds", "2")
    assert (wrong.status, "--rounds: for --horizontal only" in wrong.err) == (1, True)
    wrong = fedaccord("simulate", "--horizontal", "--key-rule", "email")
    assert (wrong.status, "--key-rule: not for --horizontal" in wrong.err) == (1, True)
    wrong = fedaccord("simulate", "--horizontal", "--plot", "curves.txt")
    assert (wrong.status, "the name must end in" in wrong.err) == (1, True)
    wrong = fedaccord("simulate", "--active", str(file))
    assert (wrong.status, "--passive" in wrong.err) == (1, True)


def test_methods_settings_and_what_combines_are_printed() -> None:
    said = fedaccord("simulate", "--horizontal", "--table")
    assert said.out.strip() == what_there_is().strip()
    assert table() in said.out
    for name in METHODS:
        assert f"\n{name} " in said.out
    for name, value in HorizontalConfig().to_parameters():
        assert f"{name}={value}" in said.out
    assert "SCAFFOLD corrects plain gradient steps" in said.out
