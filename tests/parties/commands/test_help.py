"""Every command explains itself, with an example that could be typed, and none of that loads anything heavy."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
import typer

from parties.cli import app
from tests.parties.commands.town import fedaccord

HEAVY = ("syft", "torch", "pandas", "pyarrow", "numpy", "scipy", "sklearn", "matplotlib", "cryptography")
ROOT = typer.main.get_command(app)


def _commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _commands(child, (*path, name))


ALL = dict(_commands(ROOT))


def test_all_commands_of_the_issue_are_there() -> None:
    promised = """demo, init, serve, simulate, peer add, block add, block list, block show, request rehearse,
    request submit, request status, request start, request cancel, request result, review show,
    review approve, review deny, review revoke, audit verify, audit show, audit trace, audit export,
    model list, model show, model export, model forget-memory, model predictions"""
    assert {tuple(name.split()) for name in promised.replace("\n", " ").split(",")} <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "fedaccord")
def test_help_works_and_shows_an_example_that_could_be_typed(path: tuple[str, ...]) -> None:
    said = fedaccord(*path, "--help")
    assert (said.status, said.err) == (0, "")
    assert "\\[" not in said.out
    _, _, example = said.out.partition("Example:\n")
    words = shlex.split(re.split(r"[(>]", example)[0])
    assert words[: 1 + len(path)] == ["fedaccord", *path]
    _parse(words[1:])


def _parse(words: list[str]) -> None:
    """Parses the example as the command line would; click.UsageError when it couldn't be typed."""
    path, command = [], ROOT
    while isinstance(command, click.Group):
        command = command.commands[words[0]]
        path.append(words.pop(0))
    command.make_context(
        " ".join(path), words if "-s" in words or "--state" in words else _with_state(command, words)
    )


def _with_state(command: click.Command, words: list[str]) -> list[str]:
    takes_state = any("--state" in parameter.opts for parameter in command.params)
    return [*words, "--state", "bank"] if takes_state else words


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "fedaccord")
def test_every_parameter_is_explained(path: tuple[str, ...]) -> None:
    silent = [
        parameter.name
        for parameter in ALL[path].params
        if not getattr(parameter, "help", "x") and parameter.name != "help"
    ]
    assert silent == []
    assert ALL[path].help


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from parties.cli import main\n"
        "for words in (['--help'], ['block', 'add', '--help'], ['request', 'start', '--help']):\n"
        "    sys.argv = ['fedaccord', *words]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_importing_vertical_loads_neither_syft_nor_torch() -> None:
    program = f"import sys, vertical; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", [["nothing"], ["init"], ["block", "add", "x.csv"], ["audit", "show", "--last", "0"]]
)
def test_wrong_usage_says_what_is_wrong_with_status_2(words: list[str]) -> None:
    said = fedaccord(*words)
    assert (said.status, said.out) == (2, "")
    assert "Usage: fedaccord" in said.err


def test_the_version_is_told() -> None:
    assert re.match(r"fedaccord (\d+\.|from a folder of sources)", fedaccord("--version").out)
