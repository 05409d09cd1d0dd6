"""A rule of the product, how it is switched off, and the attempt that it stops.

A rule is switched off in the code that is there: in the source of one function a guard's text is replaced, once, and
the function goes on with the new code wherever somebody holds it. So a guard that was rewritten or moved is noticed, a
test of a rule needs no hook in the product, and what is shown is that *this* line stops the attempt and nothing else.
"""

import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType

from tests.parties.control.offices import Offices, copied

LATE_ANNOTATIONS = __future__.annotations.compiler_flag
PACKAGES = ("protocols", "vertical", "horizontal", "parties")


@dataclass(frozen=True, slots=True)
class Cut:
    """One guard: the dotted name of its function, its text there, and what stands in its place when it is off."""

    function: str
    guard: str
    instead: str = "False"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an attempt is made: a folder of its own, and the offices that it may have copied."""

    folder: Path
    template: Offices

    def offices(self) -> Offices:
        """Two parties and an analyst of this attempt's own."""
        return copied(self.template, self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule as docs/review-rows.md names it, the guards that make it, and the attempt.

    The attempt returns when it passed and raises `stopped`, whose text says `saying`, when it was stopped. Several
    guards are cut when several stand one behind the other.
    """

    name: str
    off: tuple[Cut, ...]
    attempt: Callable[[Place], None]
    stopped: type[Exception]
    saying: str


class Stopped(Exception):
    """An attempt that was stopped without an error of the product: by an answer, a state or a suppressed number."""


@contextmanager
def switched_off(*cuts: Cut) -> Iterator[None]:
    """Inside the block the guards are not in force, in this process."""
    with ExitStack() as stack:
        for name in dict.fromkeys(cut.function for cut in cuts):
            stack.enter_context(_without(name, [cut for cut in cuts if cut.function == name]))
        yield


@contextmanager
def _without(name: str, cuts: Sequence[Cut]) -> Iterator[None]:
    """Inside the block the function goes on without these guards of its own."""
    function = _function(name)
    before = function.__code__
    function.__code__ = _changed(function, cuts)
    try:
        yield
    finally:
        function.__code__ = before


def _function(name: str) -> FunctionType:
    """The plain function of a dotted name: of a property its getter, of one that is wrapped the one within."""
    parts = name.split(".")
    assert parts[0] in PACKAGES, name
    split = next(n for n in range(len(parts) - 1, 0, -1) if _is_module(parts[:n]))
    found: object = import_module(".".join(parts[:split]))
    for part in parts[split:]:
        found = inspect.getattr_static(found, part)
    found = found.fget if isinstance(found, property) else found
    found = inspect.unwrap(found) if callable(found) else found
    assert isinstance(found, FunctionType), f"{name} is {type(found).__name__}"
    return found


def _is_module(parts: list[str]) -> bool:
    try:
        return find_spec(".".join(parts)) is not None
    except ModuleNotFoundError:  # of what its parent, which is no package, would hold
        return False


def _changed(function: FunctionType, cuts: Sequence[Cut]) -> CodeType:
    """The function's code without the guards; AssertionError for a guard that isn't there exactly once."""
    source = textwrap.dedent(inspect.getsource(function))
    for cut in cuts:
        found = source.count(cut.guard)
        assert found == 1, f"{cut.guard!r} stands {found} times in {cut.function}"
        source = source.replace(cut.guard, cut.instead)
    lines = source.splitlines()
    while lines[0].startswith("@"):  # its decorator holds the function that is changed here
        del lines[0]
    # Defaults and annotations aren't evaluated again: only the code is taken.
    whole = compile("\n".join(lines), f"{function.__qualname__} without its guards", "exec", LATE_ANNOTATIONS)
    (code,) = (each for each in whole.co_consts if isinstance(each, CodeType))
    assert code.co_varnames[: code.co_argcount] == function.__code__.co_varnames[: code.co_argcount]
    assert code.co_freevars == function.__code__.co_freevars == (), f"{function.__qualname__} is a closure"
    return code
