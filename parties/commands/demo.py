"""Commands for trying things out on one machine: the whole story, and the same programs in one process."""

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
    settings: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with the parameters that differ from the defaults, such as `steps = 200`; or a request's "
            "plan, of which [parameters] is taken."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Public and private seeds of the run.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Run the training's own programs on two files in this process: no approval, no network, the same numbers."""
    from parties.roles.simulating import simulate_files

    document, text = simulate_files(
        active,
        passive,
        key=key,
        key_rule=key_rule,
        label=label,
        split=split,
        settings=settings,
        seed=seed,
        tell=teller(as_json),
    )
    show(document, as_json, text)
