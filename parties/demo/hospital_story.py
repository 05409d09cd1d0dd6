"""The story of the horizontal demo: three hospitals and a registry train one model with FedBSS, over real servers."""

import csv
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parties.catalog.horizontal_train import TASK
from parties.demo import steps
from parties.demo.hospital_data import LABEL, SUBJECT_KEY
from parties.demo.hospital_page import HospitalReport, render
from parties.demo.hospital_setup import ROLES, SCORING, prepare_hospitals, scoring_stage
from parties.demo.hospital_twin import HospitalTwin, run_twin
from parties.demo.outcome import learned, uses
from parties.demo.setup import AGGREGATOR, HOSPITALS, HOSPITALS_MARK, Stage, fresh_folder, read_traffic
from parties.roles.own_rows import write_own_rows
from parties.syft_side.access import Datasite
from protocols.errors import DatasiteError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

SCORES_FILE = "scores.csv"
SCORES = ("accuracy", "balanced_accuracy", "majority_rate")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HospitalsFinished:
    """What the demo leaves; `reports` by party as released."""

    request: ComputationRequest
    reports: Mapping[str, Mapping[str, object]]
    twin: HospitalTwin
    traffic: Mapping[str, list[dict[str, object]]]
    audit: Mapping[str, str]
    scored: Mapping[str, object]
    same_as_twin: bool
    seconds: float


def run_hospitals(out: Path, *, secure: bool = False) -> HospitalsFinished:
    """Runs the story and writes report.html and result.json; leaves no process, port or temporary file behind.

    With `secure` the aggregator is the analyst's and learns sums of all three hospitals only.

    Raises DataMissingError without the data package, StateError when the output folder holds something else,
    DatasiteError when a server can't be used, a run doesn't end well, or the twin gives other bits.
    """
    begin = time.monotonic()
    stage = prepare_hospitals(fresh_folder(out, HOSPITALS_MARK), secure=secure)
    steps.say(
        "1", f"three files, five state folders, exchanged cards, blocks with mock twins in {stage.folder}"
    )
    request, reports = steps.governed_run(stage, partial(_score_own_rows, stage))
    with steps.own_temporary_folder(stage.folder):
        audit = steps.verify_audit(stage)
        steps.say("9", "the twin in one process, and what only the owner of all data can compute")
        twin = run_twin(request, stage.files)
    different = _different(stage, request, twin)
    finished = HospitalsFinished(
        request=request,
        reports=reports,
        twin=twin,
        traffic={name: read_traffic(stage.states[name], request_digest(request)) for name in ROLES},
        audit=audit,
        scored=_scored(stage),
        same_as_twin=not different,
        seconds=time.monotonic() - begin,
    )
    (out / "report.html").write_text(render(_page(finished)), encoding="utf-8")
    (out / "result.json").write_text(
        json.dumps(result_document(finished), indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    print(summary(finished, out), flush=True)
    if different:
        raise DatasiteError(f"the model of {', '.join(different)} differs from the twin in one process")
    return finished


def _score_own_rows(stage: Stage, trained: ComputationRequest, sites: Mapping[str, Datasite]) -> None:
    """One hospital scores its own test rows, asked for and approved like all else; its owner exports them."""
    scoring = scoring_stage(stage, trained)
    request = steps.ask(scoring, sites)
    steps.approve(scoring, request, sites)
    steps.run(scoring, request, sites)
    told = write_own_rows(stage.states[SCORING], request_digest(request), stage.folder / SCORES_FILE)
    print(f"     {told}", flush=True)


def _scored(stage: Stage) -> dict[str, object]:
    """How good the exported scores are, by the script, which knows the labels."""
    labels = {
        row[SUBJECT_KEY]: row[LABEL]
        for row in csv.DictReader(stage.files[SCORING].read_text(encoding="utf-8").splitlines())
    }
    lines = list(csv.DictReader((stage.folder / SCORES_FILE).read_text(encoding="utf-8").splitlines()))
    right = sum(line["prediction"] == labels[line[SUBJECT_KEY]] for line in lines)
    return {"hospital": SCORING, "rows": len(lines), "accuracy": right / len(lines)}


def _different(stage: Stage, request: ComputationRequest, twin: HospitalTwin) -> list[str]:
    """The parties whose model isn't the twin's, bit for bit."""
    task = {TASK: steps.left_by(stage, request, AGGREGATOR)[TASK]}
    return steps.different_from_twin(stage, request, {name: {**twin.model, **task} for name in ROLES})


def result_document(finished: HospitalsFinished) -> dict[str, object]:
    """The content of result.json."""
    return {
        "request": request_digest(finished.request),
        "released": {name: finished.reports[name]["test"] for name in HOSPITALS},
        "accuracy": {method: dict(scores) for method, scores in finished.twin.accuracy.items()},
        "drift": {
            method: {name: list(values) for name, values in hospitals.items()}
            for method, hospitals in finished.twin.drift.items()
        },
        "bytes_sent": {
            name: sum(use.bytes for use in uses(finished.traffic, ROLES) if use.party == name)
            for name in ROLES
        },
        "audit": dict(finished.audit),
        "scored": dict(finished.scored),
        "same_bits_as_one_process": finished.same_as_twin,
        "seconds": round(finished.seconds, 1),
    }


def summary(finished: HospitalsFinished, out: Path) -> str:
    """The end of the demo on the terminal."""
    tests = (*HOSPITALS, "all")
    lines = [
        "",
        "accuracy on test rows (by the script)".ljust(42) + "".join(f"{name:>9}" for name in tests),
        *(
            f"{method:<42}" + "".join(f"{scores[name]:>9.3f}" for name in tests)
            for method, scores in finished.twin.accuracy.items()
        ),
        "",
        "released by the hospitals: " + "; ".join(" ".join(line[:3]) for line in _released(finished)),
        "bytes that left, by kind:",
        *(
            f"    {use.party:<10} -> {use.receiver:<10} {use.kind:<10} {use.messages:>4} messages {use.bytes:>9,} B"
            for use in uses(finished.traffic, ROLES)
        ),
        f"{finished.scored['hospital']} scored {finished.scored['rows']} of its own rows afterwards, "
        f"{finished.scored['accuracy']:.3f} of them rightly: {out / SCORES_FILE}",
        f"audit: {', '.join(f'{party} {state}' for party, state in finished.audit.items())}",
        f"models bit-equal to the same programs in one process: {'yes' if finished.same_as_twin else 'no'}",
        f"{finished.seconds:.0f} s; report in {out / 'report.html'}, numbers in {out / 'result.json'}",
    ]
    return "\n".join(lines)


def _page(finished: HospitalsFinished) -> HospitalReport:
    return HospitalReport(
        title="Three hospitals train one model without showing each other their patients",
        digest=request_digest(finished.request),
        computation=f"{finished.request.computation} {finished.request.computation_version}",
        seconds=finished.seconds,
        released=_released(finished),
        tests=(*HOSPITALS, "all"),
        accuracy=finished.twin.accuracy,
        curves=finished.twin.curves,
        drift=finished.twin.drift,
        pictures=finished.twin.pictures,
        uses=uses(finished.traffic, ROLES),
        learned=learned(finished.request),
        audit=finished.audit,
        notes=_notes(finished),
    )


def _released(finished: HospitalsFinished) -> tuple[tuple[str, ...], ...]:
    """A line per hospital: its name, number of test rows, and scores, or what stands in their place."""
    lines = []
    for name in HOSPITALS:
        test = finished.reports[name]["test"]
        assert isinstance(test, Mapping)
        lines.append((name, *(_shown(test.get(score)) for score in ("people", *SCORES))))
    return tuple(lines)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return f"suppressed: {value.get('suppressed')}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


_EACH_MODEL = (
    "The registry aggregates: it sees each hospital's model after every round, so it has to be a party that the "
    "hospitals trust with that. It has no data, but an approval, a gate and a log like the others."
)
_SUMS_ONLY = (
    "The registry aggregates, and is the analyst's own: that is accepted because the hospitals' models are added up "
    "under masks, so that it learns their sum alone. How far each hospital moves the model is therefore shown of runs "
    "of the script without masks."
)


def _notes(finished: HospitalsFinished) -> tuple[str, ...]:
    return (
        _SUMS_ONLY if dict(finished.request.parameters)["secure_aggregation"] else _EACH_MODEL,
        f"{finished.scored['hospital']} then scored its own test rows with the model, under an approval of its own: "
        f"right for {finished.scored['accuracy']:.3f} of {finished.scored['rows']}. Nobody else got them.",
        "Features are scaled by rules that follow from the coarse quantiles that the hospitals publish; no value that "
        "a hospital fitted leaves it.",
        "The private seeds were injected to compare runs; a real run draws them from the operating system. The twin in "
        "one process gave the same bits as the datasites: " + ("yes." if finished.same_as_twin else "NO."),
        "No setting was chosen on the test rows, but there are few of them: one or two hundredths are one or two rows.",
        "Data: Breast Cancer Wisconsin (Diagnostic), dealt out to made-up hospitals with skewed shares of each class.",
    )
