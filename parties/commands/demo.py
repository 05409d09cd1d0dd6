"""The command that shows the whole story on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import example
from parties.demo.ending import ends_in_order
from protocols.errors import ConfigError

OUT = Path("out/demo")


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command(epilog=example("fedaccord demo --aligned 200 --seeds 5"))(demo)


def demo(
    out: Annotated[
        Path,
        typer.Option(help="Folder for states, report.html and result.json; out/hospitals with --horizontal."),
    ] = OUT,
    aligned: Annotated[int, typer.Option(min=20, help="Training people that both parties have.")] = 200,
    seeds: Annotated[int, typer.Option(min=1, max=50, help="How often people are dealt out anew.")] = 1,
    horizontal: Annotated[
        bool,
        typer.Option(
            "--horizontal",
            help="Three hospitals and an aggregator instead; of the other options --out and --secure go with it.",
        ),
    ] = False,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="With --horizontal: the aggregator is the analyst's and learns sums under masks only.",
        ),
    ] = False,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only make the two files and the plan, to go on by hand.")
    ] = False,
) -> None:
    """Two datasites train FedCVT on the Adult data, from blocks to report, with real servers, approvals and TLS."""
    if horizontal:
        from parties.demo.hospital_story import run_hospitals

        if prepare or aligned != 200 or seeds != 1:
            raise ConfigError(
                "--horizontal goes with --out and --secure only", remedy="leave the other options out"
            )
        with ends_in_order():
            run_hospitals(Path("out/hospitals") if out == OUT else out, secure=secure)
        return
    if secure:
        raise ConfigError(
            "--secure is for horizontal runs, in which an aggregator adds models up",
            remedy="give --horizontal too",
        )
    from parties.demo.data import people
    from parties.demo.setup import PREPARED_MARK, fresh_folder, prepare_files
    from parties.demo.story import DemoOptions, run_demo

    if prepare:
        typer.echo(prepare_files(fresh_folder(out, PREPARED_MARK), people(0, aligned=aligned)))
        return
    with ends_in_order():
        run_demo(DemoOptions(out=out, aligned=aligned, seeds=seeds))
