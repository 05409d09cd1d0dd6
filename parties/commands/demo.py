"""Commands for trying things out on one machine: the whole story, and the same programs in one process."""

import json
from pathlib import Path
from typing import Annotated

import typer

from parties.commands.options import JsonOption, example, show, teller


def register(app: typer.Typer) -> None:
    """Adds these commands to the application."""
    app.command(epilog=example("fedaccord demo --aligned 200 --seeds 5"))(demo)
    app.command(
        epilog=example(
            "fedaccord simulate --active bank.csv --passive retailer.csv --key customer --label income --split split"
        )
    )(simulate)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for states, report.html and result.json.")] = Path(
        "out/demo"
    ),
    aligned: Annotated[int, typer.Option(min=20, help="Training people that both parties have.")] = 200,
    seeds: Annotated[int, typer.Option(min=1, max=50, help="How often people are dealt out anew.")] = 1,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only make the two files and the plan, to go on by hand.")
    ] = False,
) -> None:
    """Two datasites train FedCVT on the Adult data, from blocks to report, with real servers, approvals and TLS."""
    from parties.demo.data import people
    from parties.demo.setup import PREPARED_MARK, fresh_folder, prepare_files
    from parties.demo.story import DemoOptions, run_demo

    if prepare:
        typer.echo(prepare_files(fresh_folder(out, PREPARED_MARK), people(0, aligned=aligned)))
        return
    run_demo(DemoOptions(out=out, aligned=aligned, seeds=seeds))


def simulate(
    active: Annotated[Path, typer.Option(help="CSV or parquet file of the label holder.")],
    passive: Annotated[Path, typer.Option(help="CSV or parquet file of the feature holder.")],
    key: Annotated[
        str,
        typer.Option(help="Column that identifies people, in both files; several with commas between."),
    ],
    label: Annotated[str, typer.Option(help="Label column of the active party's file.")],
    split: Annotated[str, typer.Option(help="Column with train, validation or test, in both files.")] = "",
    key_rule: Annotated[
        str, typer.Option(help="How keys are compared, as in `fedaccord block add`.")
    ] = "text",
    computation: Annotated[
        str, typer.Option(help="Name of a two-party computation; by default the training.")
    ] = "",
    settings: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with the parameters that differ from the defaults, such as `steps = 200`; or a request's "
            "plan, of which [parameters] is taken."
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="One parameter, such as steps=200, on top of --settings; may be repeated."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Public and private seeds of the run.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document into this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the scores into this file: .svg, .png or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the parties' own programs on two files in this process: no approval, no network, the same numbers."""
    from parties.roles.score_plot import check_plot, write_plot
    from parties.roles.simulating import FilesToSimulate, simulate_files

    if plot is not None:
        check_plot(plot)
    asked = FilesToSimulate(
        active=active,
        passive=passive,
        key=key,
        key_rule=key_rule,
        label=label,
        split=split,
        computation=computation,
        settings=settings,
        changes=tuple(change or ()),
        seed=seed,
    )
    done = simulate_files(asked, teller(as_json))
    show(done.document, as_json, done.text)
    if out is not None:
        out.write_text(json.dumps(done.document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if plot is not None:
        write_plot(done.reports["active"], plot)
