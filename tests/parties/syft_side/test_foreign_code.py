"""What stands out in foreign code: every kind with its line, and texts that no parser likes."""

import ast
from pathlib import Path

import pytest

from parties.syft_side.foreign_code import LONGEST, MOST, UNREADABLE, CodeWarning, code_warnings, visible


def _found(text: str) -> list[tuple[int, str, str]]:
    return [(w.line, w.kind, w.found) for w in code_warnings(text)]


LEAK = """\
import socket
from os import path
def leak(data, other):
    print(data)
    with open('/tmp/x', 'w') as file:
        data.to_csv(file)
    exec('x = 1')
    requests = data.__class__.__subclasses__()
    if len(data) > 3:
        raise ValueError(f'first is {data.iloc[0]}')
    assert data, data.head()
    raise ValueError('no rows')
    return data
"""


def test_R6_every_kind_is_told_with_its_line() -> None:
    assert _found(LEAK) == [
        (1, "network", "socket"),
        (2, "file", "os"),
        (4, "print", "print"),
        (5, "file", "open"),
        (6, "file", "to_csv"),
        (7, "runs text as code", "exec"),
        (8, "runs text as code", "__class__"),
        (8, "runs text as code", "__subclasses__"),
        (10, "error text", "raise"),
        (10, "rows", "iloc"),
        (11, "error text", "assert"),
        (11, "rows", "head"),
        (13, "rows", "return data"),
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import logging", "print"),
        ("sys.stdout.flush()", "print"),
        ("import pathlib", "file"),
        ("import requests", "network"),
        ("from urllib.request import urlopen", "network"),
        ("place = 'https://example.org'", "network"),
        ("import subprocess", "process"),
        ("import ctypes", "process"),
        ("run = eval", "runs text as code"),
        ("__import__('socket')", "runs text as code"),
        ("import importlib", "runs text as code"),
        ("frame.to_dict()", "rows"),
        ("frame.values", "rows"),
        ("[*frame.itertuples()]", "rows"),
        ("raise KeyError(cell)", "error text"),
        ("total = 1  # \u202e", "hidden characters"),
    ],
)
def test_R6_one_line_of_each_kind(line: str, kind: str) -> None:
    assert (1, kind) in [(w.line, w.kind) for w in code_warnings(line)]


def test_what_says_nothing_about_rows_isnt_warned_of() -> None:
    assert (
        _found("def total(a, b):\n    if a < 0:\n        raise ValueError('negative')\n    return a + b\n")
        == []
    )


@pytest.mark.parametrize(
    "text",
    ["def (", "x = '\x00'", "(" * 90_000, "-" * 90_000 + "1", "a" * (LONGEST + 1), "x = '\ud800'"],
    ids=["syntax", "null", "nested", "long chain", "too long", "surrogate"],
)
def test_a_text_that_cant_be_parsed_says_so(text: str) -> None:
    found = code_warnings(text)
    assert [w.line for w in found if w.kind == UNREADABLE] == [0]


def test_it_is_never_run_and_the_number_of_warnings_is_bounded(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    found = code_warnings(f"open({str(trace)!r}, 'w')\n" * 500)
    assert len(found) == MOST
    assert not trace.exists()


def test_a_warning_says_what_it_means() -> None:
    assert CodeWarning(line=3, kind="rows", found="head").text() == (
        "line 3: rows: head (hands out single rows, not a number about many)"
    )
    assert code_warnings("def (")[0].text() == "not readable: no Python text (SyntaxError)"


def test_hidden_characters_are_written_out_and_all_others_stay() -> None:
    assert visible("a\tb\n\u202ec\x1b\ud800é") == "a\tb\n\\u202ec\\x1b\\ud800é"
    assert ast.parse(visible(LEAK))
