"""What the parties' reports say, as text and as files, of a run as of a rehearsal.

A rehearsal's report is about nobody: every line, file name and plot of it says MOCK, so that no part of it can be taken
for a result, wherever it is copied to.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from parties import catalog
from parties.roles.score_plot import check_plot, write_plot
from parties.roles.score_table import people_lines, score_table, scores_of, weight_lines
from parties.roles.showing import MOCK_MARK, is_mock
from protocols.errors import ConfigError
from protocols.request import ComputationRequest


def report_lines(request: ComputationRequest, results: Mapping[str, object]) -> list[str]:
    """Each party's report under its name: a table where it has scores, else as it is; marked when it is MOCK."""
    meanings = catalog.find(request.computation, request.computation_version).meanings
    lines = []
    for name, result in results.items():
        report = report_of(result)
        mark = f"{MOCK_MARK}  " if is_mock(report) else ""
        told = _told(result, report, meanings)
        lines += ["", f"{mark}{name}:", *(f"{mark}{line}".rstrip() for line in told)]
    return lines


def report_of(result: object) -> Mapping[str, object] | None:
    """The report in what a party released; None when it has another form."""
    report = result.get("report") if isinstance(result, Mapping) else None
    return report if isinstance(report, Mapping) else None


def _told(result: object, report: Mapping[str, object] | None, meanings: Mapping[str, str]) -> list[str]:
    if report is None:
        return json.dumps(result, indent=2, sort_keys=True).splitlines()
    table = score_table(report, meanings)
    return (
        [*table, *weight_lines(report), *people_lines(report)]
        if table
        else json.dumps(report, indent=2, sort_keys=True).splitlines()
    )


def check_files(out: Path | None, plot: Path | None) -> None:
    """ConfigError for a file that can't be written as named; before anything long begins."""
    if plot is not None:
        check_plot(plot)
    for path in (out, plot):
        if path is not None:
            _check_place(path)


def _check_place(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"folder {path.parent} does not exist", remedy="make it, or name another file")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"{path} can't be written", remedy="name a file in a folder that is yours")


def write_files(document: Mapping[str, object], out: Path | None, plot: Path | None) -> tuple[Path, ...]:
    """Writes a document with "results" as JSON, and the scores of the first report that has any as a picture.

    Gives back where; a rehearsal's files have MOCK in front of their names. ConfigError when nothing can be drawn.
    """
    written = []
    if out is not None:
        written.append(named(out, document))
        written[-1].write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if plot is not None:
        written.append(named(plot, document))
        write_plot(_scored(document), written[-1])
    return tuple(written)


def named(path: Path, document: Mapping[str, object]) -> Path:
    """The path, its file's name marked when the document is a rehearsal's."""
    if not is_mock(document) or path.name.startswith(MOCK_MARK):
        return path
    return path.with_name(f"{MOCK_MARK}-{path.name}")


def _scored(document: Mapping[str, object]) -> Mapping[str, object]:
    """The first report with scores; an empty one when there is none, which can't be drawn."""
    results = document.get("results")
    reports = [report_of(each) for each in results.values()] if isinstance(results, Mapping) else []
    return next((report for report in reports if report is not None and any(scores_of(report))), {})
