"""A party's own questions to whoever approves a request: each is answered with a reason, in the signed decision.

policy.toml has them under [checklist], an item each. The answers stand in the text of the decision's reason, a line
each, so that the person's signature covers them and they travel with it:

    [columns] yes: the agreement of May lists both
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from protocols.errors import ApprovalError, ConfigError
from protocols.records import check_text

MOST = 8
_ITEM = re.compile(r"[a-z0-9][a-z0-9_-]{0,29}")
_LINE = re.compile(r"\[([a-z0-9_-]+)\] (yes|no): (\S.*)")
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One item of the list and what is asked under it."""

    item: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says to one item, and why. ApprovalError unless it is yes or no, with a reason on one line."""

    item: str
    word: str
    reason: str

    def __post_init__(self) -> None:
        if self.word not in (YES, NO):
            raise ApprovalError(
                f"checklist item {self.item[:30]!r} has no answer",
                remedy="answer it with yes or no, and say why",
            )
        check_text(self.reason, f"the reason for checklist item {self.item[:30]!r}", ApprovalError)

    @property
    def line(self) -> str:
        """The answer as a line of the decision's reason."""
        return f"[{self.item}] {self.word}: {self.reason}"


def read_checklist(table: object, where: str) -> tuple[Question, ...]:
    """The questions in a policy's table; ConfigError naming file and item for any that is wrong."""
    if not isinstance(table, Mapping) or len(table) > MOST:
        raise ConfigError(
            f"{where}: checklist must be a table of at most {MOST} questions", remedy="[checklist]"
        )
    found = []
    for item, text in table.items():
        if not _ITEM.fullmatch(item) or not isinstance(text, str):
            raise ConfigError(
                f"{where}: checklist.{item[:40]} must be a short name in small letters with a question as text",
                remedy='for example columns = "Are all columns needed?"',
            )
        check_text(text, f"{where}: checklist.{item}", ConfigError)
        found.append(Question(item=item, text=text))
    return tuple(found)


def parse_answer(text: str) -> Answer:
    """The answer in "columns=yes: the agreement lists both". ApprovalError for another form."""
    item, _, said = text.partition("=")
    word, _, reason = said.partition(":")
    if not _ITEM.fullmatch(item.strip()):
        raise ApprovalError(f"{text[:60]!r} is no answer", remedy="write ITEM=yes:WHY or ITEM=no:WHY")
    return Answer(item=item.strip(), word=word.strip().lower(), reason=" ".join(reason.split()))


def with_answers(reason: str, answers: Iterable[Answer]) -> str:
    """The reason of a decision with its answers, a line each."""
    return "\n".join([reason, *(answer.line for answer in answers)])


def check_answered(questions: Iterable[Question], reason: str) -> None:
    """ApprovalError unless the reason of an approval answers each question once, with yes."""
    lines = [found.groups() for line in reason.splitlines() if (found := _LINE.fullmatch(line))]
    for question in questions:
        words = [word for item, word, _ in lines if item == question.item]
        if words == [NO]:
            raise ApprovalError(
                f"checklist item {question.item!r} is answered no",
                remedy="deny the request, or have it changed",
            )
        if words != [YES]:
            raise ApprovalError(
                f"checklist item {question.item!r} has {'no answer' if not words else 'several answers'}: "
                f"{question.text}",
                remedy=f"--answer {question.item}=yes:WHY, or deny the request",
            )
