"""A party's questions to whoever approves: what is an answer, and what a list of answers lacks."""

import pytest

from parties.home.checklist import (
    MOST,
    Answer,
    Question,
    check_answered,
    parse_answer,
    read_checklist,
    with_answers,
)
from protocols.errors import ApprovalError, ConfigError

LIST = (
    Question(item="columns", text="Is every column needed?"),
    Question(item="agreement", text="Does the agreement cover it?"),
)
YES = [Answer(item="columns", word="yes", reason="both"), Answer(item="agreement", word="yes", reason="May")]


def test_an_answer_of_the_command_line() -> None:
    assert parse_answer("columns= Yes : the agreement: both") == Answer(
        item="columns", word="yes", reason="the agreement: both"
    )


@pytest.mark.parametrize(
    "text", ["columns", "columns=yes", "columns=yes:", "columns=perhaps:x", "=yes:x", "A B=yes:x"]
)
def test_what_is_no_answer_with_a_reason_is_refused(text: str) -> None:
    with pytest.raises(ApprovalError):
        parse_answer(text)


def test_a_full_list_passes_and_so_does_anything_without_a_list() -> None:
    check_answered(LIST, with_answers("read in full", YES))
    check_answered((), "read in full")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (YES[:1], "'agreement' has no answer: Does the agreement cover it?"),
        ([YES[0], Answer(item="agreement", word="no", reason="only May")], "'agreement' is answered no"),
        ([*YES, YES[0]], "'columns' has several answers"),
        ([*YES, Answer(item="columns", word="no", reason="x")], "'columns' has several answers"),
        ([], "'columns' has no answer"),
    ],
)
def test_what_a_list_lacks(answers: list[Answer], told: str) -> None:
    with pytest.raises(ApprovalError, match="checklist item") as raised:
        check_answered(LIST, with_answers("read in full", answers))
    assert told in str(raised.value)


def test_words_in_the_reason_itself_are_no_answer() -> None:
    with pytest.raises(ApprovalError, match="no answer"):
        check_answered(LIST[:1], "read; [columns] yes: of course")


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"Columns": "?"},
        {"columns": 1},
        {"columns": ""},
        {"columns": "a\u202eb"},
        {f"item{n}": "?" for n in range(MOST + 1)},
    ],
)
def test_a_list_that_is_none_is_named(table: object) -> None:
    with pytest.raises(ConfigError, match=r"policy\.toml: checklist"):
        read_checklist(table, "policy.toml")
