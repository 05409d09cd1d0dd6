"""The programs in one process: same numbers with the same seed, and no run that names a wrong setting."""

import json
from pathlib import Path

import pytest

from tests.parties.commands.town import PLAN, bad, fedaccord, good, write_files

SETTINGS = PLAN.partition("[parameters]")[2]


@pytest.fixture
def words(tmp_path: Path) -> tuple[object, ...]:
    """A run on two small files."""
    bank, shop = write_files(tmp_path)
    (tmp_path / "settings.toml").write_text(SETTINGS)
    files = ("--active", bank, "--passive", shop, "--key", "person", "--label", "churned", "--split", "split")
    return ("simulate", *files, "--settings", tmp_path / "settings.toml")


def test_scores_are_shown_with_the_people_behind_them(words: tuple[object, ...]) -> None:
    said = good(*words)
    lines = said.out.splitlines()
    (scored,) = [line for line in lines if line.split()[:2] == ["fedcvt", "both"]]
    assert scored.split()[-1] == "10"
    assert any(line.split()[:4] == ["fedcvt", "the", "whole", "model:"] for line in lines)
    assert "people: aligned_train 30, aligned_test 10, active_only 20, passive_only 20" in lines
    assert "pseudo labels: " in lines[-1]


def test_it_says_how_many_are_common_and_what_happens_without_a_split(words: tuple[object, ...]) -> None:
    common = "40 people are common to 60 (active) and 60 (passive) rows"
    said = good(*words).out
    assert said.startswith(common)
    assert "no --split" not in said
    at = words.index("--split")
    without = good(*words[:at], *words[at + 2 :]).out
    assert without.splitlines()[:1] == [common]
    assert "no --split: everybody is a training person" in without


def test_json_is_the_reports_alone_and_repeats_with_the_seed(words: tuple[object, ...]) -> None:
    first, again, other = (json.loads(good(*words, "--json", "--seed", seed).out) for seed in (0, 0, 1))
    assert first["simulated"] is True
    assert set(first["reports"]) == {"active", "passive"}
    assert first == again
    assert first != other


def test_a_plan_gives_its_parameters(words: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = good(*words[:-1], tmp_path / "plan.toml", "--json")
    assert plan.out == good(*words, "--json").out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("steeps = 4", "unknown parameters: steeps"),
        ("steps = 'x'", "steps: expected int"),
        ("steps = 0", "steps must lie"),
        ("steps =", "settings.toml"),
        ("encoder = 'magic'", "encoder must be one of"),
    ],
)
def test_a_wrong_setting_is_named(words: tuple[object, ...], text: str, told: str) -> None:
    Path(str(words[-1])).write_text(text)
    assert told in bad(*words)


@pytest.mark.parametrize("missing", ["--active", "--passive", "--settings"])
def test_a_missing_file_is_named(words: tuple[object, ...], missing: str, tmp_path: Path) -> None:
    changed = list(words)
    changed[changed.index(missing) + 1] = tmp_path / "nowhere.csv"
    assert "nowhere.csv" in bad(*changed)


@pytest.mark.parametrize(("option", "value"), [("--key", "who"), ("--label", "income2"), ("--split", "part")])
def test_a_missing_column_is_named(words: tuple[object, ...], option: str, value: str) -> None:
    changed = list(words)
    changed[changed.index(option) + 1] = value
    assert f"'{value}'" in bad(*changed)


def test_settings_on_the_command_line_come_on_top_of_the_file(
    words: tuple[object, ...], tmp_path: Path
) -> None:
    both = good(*words, "--set", "steps=6", "--set", "encoder = mlp", "--set", "class_balance=true", "--json")
    (tmp_path / "settings.toml").write_text(
        SETTINGS.replace("steps = 4", "steps = 6") + "encoder = 'mlp'\nclass_balance = true\n"
    )
    assert good(*words, "--json").out == both.out
    assert "expected name=value" in bad(*words, "--set", "steps")
    assert "unknown parameters: steeps" in bad(*words, "--set", "steeps=1")


def test_another_computation_shows_its_report(words: tuple[object, ...], tmp_path: Path) -> None:
    asked = (*words[:-2], "--computation", "align.pairs")
    said = good(*asked).out
    assert set(json.loads(said[said.index("{") :])) == {"active", "passive"}
    assert "no scores to plot" in bad_after_output(*asked, "--plot", tmp_path / "x.svg")


def bad_after_output(*words: object) -> str:
    """The error of a command that shows its report before it fails."""
    said = fedaccord(*words)
    assert said.status == 1
    return said.err


def test_computations_that_two_files_are_not_enough_for_are_refused(words: tuple[object, ...]) -> None:
    assert "no two-party computation 'magic'" in bad(*words, "--computation", "magic")
    said = bad(*words, "--computation", "vertical.fedcvt.predict")
    assert "needs a trained model" in said
    assert "vertical.FedCVT" in said


def test_the_document_and_a_plot_are_written(words: tuple[object, ...], tmp_path: Path) -> None:
    out, plot = tmp_path / "out.json", tmp_path / "scores.svg"
    shown = good(*words, "--out", out, "--plot", plot, "--json").document
    assert json.loads(out.read_text()) == shown
    assert shown["computation"] == "vertical.fedcvt.train"
    drawn = plot.read_text()
    assert drawn.startswith("<?xml")
    assert "on test people" in drawn
    assert "must end in one of" in bad(*words, "--plot", tmp_path / "scores.txt")


def test_keys_of_other_formats_are_told_and_a_rule_makes_them_equal(words: tuple[object, ...]) -> None:
    shop = Path(str(words[words.index("--passive") + 1]))
    shop.write_text(shop.read_text().replace("PERSON-", "person "))
    said = bad(*words)
    assert "active column 'person' and passive column 'person' differ: text, fixed width 10" in said
    assert "docs/keys.md" in said
    assert "fedcvt" in good(*words, "--key-rule", "code").out
