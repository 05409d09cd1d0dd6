"""The command that runs the parties' programs in one process: two files with different features, or many clients."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parties.commands.options import JsonOption, example, show, teller
from protocols.errors import ConfigError

if TYPE_CHECKING:
    from parties.roles.simulating import FilesToSimulate
    from parties.roles.simulating_clients import ClientsToSimulate

KeyOption = Annotated[
    str,
    typer.Option(help="Column that identifies people, in all files; several with commas between."),
]
LabelOption = Annotated[
    str, typer.Option(help="Label column, of the active party's file or of all clients'.")
]
KeyRuleOption = Annotated[str, typer.Option(help="How keys are compared, as in `fedaccord block add`.")]
ComputationOption = Annotated[
    str, typer.Option(help="Name of a two-party computation; by default the training.")
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        help="TOML file with the parameters that differ from the defaults, such as `steps = 200`; or a request's "
        "plan, of which [parameters] is taken."
    ),
]
ChangeOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="One parameter, such as steps=200, on top of --settings; may be repeated."),
]
ClientOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Horizontal: CSV, parquet or .npz file (arrays x, y) that is dealt out to clients, or one per client."
    ),
]
SettingOption = Annotated[
    str,
    typer.Option(
        help="Horizontal: how clients differ: iid, dirichlet0.1 or another alpha, quantity0.5, dominant80 or "
        "another percentage of one class (dirichlet0.5)."
    ),
]
TableOption = Annotated[
    bool,
    typer.Option(
        "--table",
        help="Horizontal: only print the methods, their settings, and which parts of methods combine, and why not.",
    ),
]
PlotOption = Annotated[Path | None, typer.Option(help="Draw the scores into this file: .svg, .png or .pdf.")]
HorizontalOption = Annotated[
    bool,
    typer.Option("--horizontal", help="Many clients with the same features: compare horizontal methods."),
]
ClientsOption = Annotated[
    int, typer.Option(help="Horizontal: to how many clients one file is dealt out (10).")
]


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(
        epilog=example(
            "fedaccord simulate --active bank.csv --passive retailer.csv --key customer --label income --split split"
            "  (or: fedaccord simulate --horizontal --client patients.csv --key patient --label diagnosis --clients 9 "
            "--setting dirichlet0.1 --methods fedavg,fedprox,fedbss --rounds 50)"
        )
    )(simulate)


def simulate(
    active: Annotated[Path | None, typer.Option(help="CSV or parquet file of the label holder.")] = None,
    passive: Annotated[Path | None, typer.Option(help="CSV or parquet file of the feature holder.")] = None,
    key: KeyOption = "",
    label: LabelOption = "",
    split: Annotated[str, typer.Option(help="Column with train, validation or test, in all files.")] = "",
    key_rule: KeyRuleOption = "text",
    computation: ComputationOption = "",
    settings: SettingsOption = None,
    change: ChangeOption = None,
    horizontal: HorizontalOption = False,
    client: ClientOption = None,
    clients: ClientsOption = 0,
    setting: SettingOption = "",
    methods: Annotated[
        str, typer.Option(help="Horizontal: names with commas between (fedavg,fedbss); --table lists them.")
    ] = "",
    rounds: Annotated[int, typer.Option(help="Horizontal: rounds of each method (20).")] = 0,
    table: TableOption = False,
    seed: Annotated[int, typer.Option(help="Public and private seeds of the run.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document into this file.")] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the parties' own programs in this process: no approval, no network, the same numbers.

    On two files of different features about partly the same people, or with --horizontal on clients. Then every setting
    of a method goes with --set, secure aggregation too; --horizontal --table lists all. `fedaccord demo --horizontal`
    runs it between datasites, `python -m benchmarks.horizontal --help` (in a checkout) repeats it over seeds, with
    poisoned clients, and against another simulator; docs/horizontal.md explains.
    """
    own = {"--active": active, "--passive": passive, "--computation": computation}
    own["--key-rule"] = key_rule if key_rule != "text" else ""
    theirs = {
        "--client": client,
        "--clients": clients,
        "--setting": setting,
        "--methods": methods,
        "--rounds": rounds,
        "--table": table,
    }
    from parties.roles.reports import check_files

    _refuse(own if horizontal else theirs, horizontal)
    check_files(out, plot)
    changes = tuple(change or ())
    if table:
        from parties.roles.simulating_clients import what_there_is

        typer.echo(what_there_is())
    elif horizontal:
        from parties.roles.simulating import asked_parameters
        from parties.roles.simulating_clients import ClientsToSimulate

        given = asked_parameters(settings, changes) | ({"rounds": rounds} if rounds else {})
        wanted = tuple(name.strip() for name in methods.split(",") if name.strip())
        asked = ClientsToSimulate(
            files=tuple(client or ()),
            key=key,
            label=label,
            split=split,
            methods=wanted or ("fedavg", "fedbss"),
            clients=clients,
            setting=setting,
            changes=given,
            seed=seed,
        )
        _compare_methods(asked, as_json, out, plot)
    elif active is None or passive is None or not key or not label:
        raise ConfigError(
            "two files with different features need --active, --passive, --key and --label",
            remedy="or --horizontal, for clients with the same features",
        )
    else:
        from parties.roles.simulating import FilesToSimulate

        files = FilesToSimulate(
            active=active,
            passive=passive,
            key=key,
            key_rule=key_rule,
            label=label,
            split=split,
            computation=computation,
            settings=settings,
            changes=changes,
            seed=seed,
        )
        _run_two_parties(files, as_json, out, plot)


def _compare_methods(asked: "ClientsToSimulate", as_json: bool, out: Path | None, plot: Path | None) -> None:
    from parties.roles.score_plot import write_curves
    from parties.roles.simulating_clients import simulate_clients

    compared = simulate_clients(asked, teller(as_json))
    _show(compared.document, compared.text, as_json, out)
    if plot is not None:
        write_curves({name: run.curve("accuracy") for name, run in compared.runs.items()}, plot)


def _run_two_parties(asked: "FilesToSimulate", as_json: bool, out: Path | None, plot: Path | None) -> None:
    from parties.roles.score_plot import write_plot
    from parties.roles.simulating import simulate_files

    done = simulate_files(asked, teller(as_json))
    _show(done.document, done.text, as_json, out)
    if plot is not None:
        write_plot(done.reports["active"], plot)


def _refuse(options: Mapping[str, object], horizontal: bool) -> None:
    """ConfigError for an option that belongs to the other kind of run."""
    given = [name for name, value in options.items() if value]
    if given:
        remedy = "leave them out" if horizontal else "add --horizontal, or leave them out"
        kind = "not for --horizontal" if horizontal else "for --horizontal only"
        raise ConfigError(f"{', '.join(given)}: {kind}", remedy=remedy)


def _show(document: Mapping[str, object], text: str, as_json: bool, out: Path | None) -> None:
    show(document, as_json, text)
    if out is not None:
        out.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
