"""What stands out in code that isn't the shim, read from its text: it is parsed and never run.

The warnings are for a person who looks at the code; code without any is not harmless for that. Foreign code can't be
approved through us in any case.
"""

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 100_000
"""Characters of a text that is parsed; what is longer is only said to be."""
MOST = 100
"""Warnings that are kept of one text."""

PRINT, FILE, NETWORK, PROCESS, EXECUTION, ROWS, ERROR_TEXT, HIDDEN, UNREADABLE = (
    "print",
    "file",
    "network",
    "process",
    "runs text as code",
    "rows",
    "error text",
    "hidden characters",
    "not readable",
)
_MEANING = {
    PRINT: "goes to the server's log or back to the analyst",
    FILE: "reads or writes files of the server",
    NETWORK: "can send data elsewhere",
    PROCESS: "starts or steers programs on the server",
    EXECUTION: "can run what isn't in this text, or reach around it",
    ROWS: "hands out single rows, not a number about many",
    ERROR_TEXT: "an error's text can carry values to the analyst",
    HIDDEN: "the text may read otherwise than it is run",
}


def _named(**kinds: str) -> dict[str, str]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}


_KINDS = {
    "print": PRINT,
    "file": FILE,
    "network": NETWORK,
    "process": PROCESS,
    "execution": EXECUTION,
    "rows": ROWS,
}
_CALLS = _named(
    print="print input breakpoint",
    file="open",
    execution="exec eval compile __import__ getattr setattr globals locals vars",
)
_MODULES = _named(
    print="logging warnings",
    file="os io pathlib shutil tempfile glob fileinput pickle shelve sqlite3 zipfile tarfile mmap",
    network="socket ssl http urllib urllib3 requests httpx aiohttp ftplib smtplib telnetlib xmlrpc websockets "
    "paramiko socketserver asyncio webbrowser",
    process="subprocess multiprocessing signal pty ctypes cffi threading concurrent",
    execution="importlib builtins runpy code codeop marshal inspect gc sys types pkgutil dill cloudpickle syft",
)
_ATTRIBUTES = _named(
    print="stdout stderr",
    file="to_csv to_parquet to_pickle to_excel to_feather to_hdf to_sql read_csv read_parquet read_pickle read_text "
    "read_bytes write write_text write_bytes writelines tofile fromfile save savez savetxt load loadtxt memmap",
    execution="query eval pipe",
    rows="head tail sample to_dict to_json to_records to_list tolist to_numpy to_string to_html iterrows itertuples "
    "iloc loc iat at values array nlargest nsmallest idxmax idxmin mode unique",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeWarning:
    """One place that stands out: its line (from 1; 0 for the whole text), what kind it is, and the name found there."""

    line: int
    kind: str
    found: str

    def text(self) -> str:
        """The warning for a reader."""
        where = f"line {self.line}: " if self.line else ""
        meaning = _MEANING.get(self.kind)
        return f"{where}{self.kind}: {self.found}" + (f" ({meaning})" if meaning else "")


def code_warnings(text: str) -> tuple[CodeWarning, ...]:
    """What stands out, by line, at most MOST of them; a text that can't be parsed says so in a warning of its own."""
    found = set(_hidden(text))
    if len(text) > LONGEST:
        found.add(CodeWarning(line=0, kind=UNREADABLE, found=f"more than {LONGEST} characters"))
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the parser thinks of odd literals
                tree = ast.parse(text)
            found.update(warning for node in ast.walk(tree) for warning in _of_node(node))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            found.add(CodeWarning(line=0, kind=UNREADABLE, found=f"no Python text ({type(error).__name__})"))
    return tuple(sorted(found, key=lambda w: (w.line, w.kind, w.found)))[:MOST]


def visible(text: str) -> str:
    """The text with each character that a screen hides or obeys written as its number; line ends and tabs stay."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def _hidden(text: str) -> Iterator[CodeWarning]:
    for number, line in enumerate(text.split("\n"), 1):
        odd = sorted({visible(c) for c in line if not c.isprintable() and c not in "\t\r"})
        if odd:
            yield CodeWarning(line=number, kind=HIDDEN, found=" ".join(odd)[:80])


def _of_node(node: ast.AST) -> Iterator[CodeWarning]:
    match node:
        case ast.Import():
            for alias in node.names:
                yield from _listed(node, alias.name.split(".")[0], _MODULES)
        case ast.ImportFrom():
            yield from _listed(node, (node.module or "").split(".")[0], _MODULES)
        case ast.Name():
            yield from _listed(node, node.id, _CALLS)
        case ast.Attribute():
            yield from _listed(node, node.attr, _ATTRIBUTES)
            if node.attr.startswith("__"):
                yield _warning(node, EXECUTION, node.attr)
        case ast.Raise(exc=ast.Call() as call):
            yield from _error_text(node, [*call.args, *(k.value for k in call.keywords)])
        case ast.Assert(msg=ast.expr() as message):
            yield from _error_text(node, [message])
        case ast.Constant(value=str(value)) if "://" in value:
            yield _warning(node, NETWORK, "an address")
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _returned_arguments(node)
        case _:
            pass


def _listed(node: ast.stmt | ast.expr, name: str, names: dict[str, str]) -> Iterator[CodeWarning]:
    if name in names:
        yield _warning(node, _KINDS[names[name]], name)


def _error_text(node: ast.stmt, values: list[ast.expr]) -> Iterator[CodeWarning]:
    if any(not isinstance(value, ast.Constant) for value in values):
        yield _warning(node, ERROR_TEXT, type(node).__name__.lower())


def _returned_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[CodeWarning]:
    """Arguments that are given back as they came."""
    given = function.args
    names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name) and node.value.id in names:
            yield _warning(node, ROWS, f"return {node.value.id}")


def _warning(node: ast.stmt | ast.expr, kind: str, found: str) -> CodeWarning:
    return CodeWarning(line=node.lineno, kind=kind, found=found[:80])
