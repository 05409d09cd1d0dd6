"""The command `fedaccord`: one group of commands per role, each importing what it needs only when it runs."""

import os
import sys
import traceback
from typing import Annotated

import typer
import typer.core

from parties.commands import (
    align,
    audit,
    block,
    console,
    demo,
    describe,
    model,
    owner,
    policy,
    request,
    review,
    simulate,
)
from parties.commands.options import example
from protocols.errors import FedaccordError

TRACEBACK_VARIABLE = "FEDACCORD_TRACEBACK"
"""Set to anything, it shows the traceback of an error that isn't ours; such a text may hold private values."""
INTERRUPTED = 130
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 before anything numerical is loaded: every way of running a program gives the same bits with one thread."""

typer.core.rich = None  # type: ignore[assignment,attr-defined]  # else brackets are escaped for rich
app = typer.Typer(
    name="fedaccord",
    help="Vertical federated learning between PySyft datasites: approved, gated, audited.",
    epilog=example("fedaccord demo      (public data, everything on this machine)"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
for group in (owner, block, request, align, describe, policy, review, console, model, audit, demo, simulate):
    group.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("fedaccord")
        except PackageNotFoundError:
            found = "from a folder of sources, not installed"
        typer.echo(f"fedaccord {found}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Vertical federated learning between PySyft datasites: approved, gated, audited."""


def main() -> None:
    """Runs the command line; every error becomes one line with its remedy and exit status 1, never a traceback."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        app(prog_name="fedaccord")
    except FedaccordError as error:
        _fail(str(error), error.remedy)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        _fail(f"{what}{error.strerror or type(error).__name__}", "check the path and its rights")
    except ModuleNotFoundError as error:
        _fail(
            f"the package {error.name} isn't installed",
            "install fedaccord with what it needs, see the README",
        )
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exception(error)
        _fail(
            f"internal error ({type(error).__name__}), a fault of fedaccord's",
            f"{TRACEBACK_VARIABLE}=1 shows where; the text may hold private values",
        )


def _fail(text: str, remedy: str) -> None:
    print(f"error: {text}", file=sys.stderr)
    if remedy:
        print(f"       {remedy}", file=sys.stderr)
    sys.exit(1)
