"""The command that shows the whole story on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import example
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
            help="Three hospitals and an aggregator instead; other options but --out are not for it.",
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
            raise ConfigError("--horizontal goes with --out only", remedy="leave the other options out")
        run_hospitals(Path("out/hospitals") if out == OUT else out)
        return
    from parties.demo.data import people
    from parties.demo.setup import PREPARED_MARK, fresh_folder, prepare_files
    from parties.demo.story import DemoOptions, run_demo

    if prepare:
        typer.echo(prepare_files(fresh_folder(out, PREPARED_MARK), people(0, aligned=aligned)))
        return
    run_demo(DemoOptions(out=out, aligned=aligned, seeds=seeds))
