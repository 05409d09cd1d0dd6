"""What a key rule is: how the cells of one column become text that can be compared with another party's.

A rule has a kind and a version; equal identifiers mean equal behaviour, so any change of what a rule makes of a cell
raises its version. A further rule is one class in this room and one entry in `recipe.RULES`.
"""

from typing import ClassVar, Protocol, Self

import pyarrow as pa


class KeyRule(Protocol):
    """The rule of one column.

    `argument` is the text after the colon ("" without one). `local` says that it only tells how *this* party's cells
    are read, as a region for phone numbers does; then the other party's may be another. `takes_dates` says that
    columns of dates are welcome.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    local: ClassVar[bool]
    takes_dates: ClassVar[bool]

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The rule for the text after the colon; ValueError saying what was expected."""
        ...

    @property
    def argument(self) -> str:
        """The text that `parse` would read again."""
        ...

    def normalise(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """large_string in (null where blank), large_string out; null where a cell can't be a key under this rule.

        What comes out comes out unchanged when it is put in again.
        """
        ...


class WithoutArgument:
    """The part of a rule that nothing can be said of after a colon."""

    __slots__ = ()

    @classmethod
    def parse(cls, argument: str) -> Self:
        """The one rule of this kind."""
        if argument:
            raise ValueError("no argument")
        return cls()

    @property
    def argument(self) -> str:
        """None."""
        return ""


def identifier(rule: KeyRule) -> str:
    """`kind@version` or `kind:argument@version`."""
    return f"{rule.kind}:{rule.argument}@{rule.version}" if rule.argument else f"{rule.kind}@{rule.version}"


def common_form(rule: KeyRule) -> str:
    """What both parties' rules must have in common: the identifier, without an argument that is only local."""
    return f"{rule.kind}@{rule.version}" if rule.local else identifier(rule)


def only_where(usable: pa.ChunkedArray, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells, null where `usable` (boolean) isn't true."""
    return pa.compute.if_else(usable, cells, pa.scalar(None, cells.type))
