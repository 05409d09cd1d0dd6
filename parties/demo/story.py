"""The whole story on real data and real processes: two datasites train FedCVT, everything approved, gated and logged.

Every step does what the command of the same name does; only the waiting between the three roles is left out. What needs
both parties' data (oracle, logistic regression, accuracy of pseudo labels) is computed by this script, which owns the
public data, and is marked so.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from parties.demo import steps
from parties.demo.data import People, people
from parties.demo.outcome import Finished, result_document, summary, write_report
from parties.demo.setup import BANK, RETAILER, ROLES, Stage, fresh_folder, prepare, read_traffic
from parties.demo.twin import Twin, run_twin
from parties.roles.progress_lines import printed_progress
from protocols.errors import DatasiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """`aligned` people are common in training; `seeds` beyond the first run as twins in this process."""

    out: Path
    aligned: int = 200
    seeds: int = 1


def run_demo(options: DemoOptions) -> Finished:
    """Runs the story and writes report.html and result.json; leaves no process, port or temporary file behind.

    Raises DataMissingError without the data package, StateError when the output folder holds something else,
    DatasiteError when a server can't be used or a run doesn't end well.
    """
    begin = time.monotonic()
    who = people(0, aligned=options.aligned)
    stage = prepare(fresh_folder(options.out), who)
    steps.say(
        "1", f"two files, three state folders, exchanged cards, blocks with mock twins in {stage.folder}"
    )
    request, reports = steps.governed_run(stage)
    with steps.own_temporary_folder(stage.folder):
        audit = steps.verify_audit(stage)
        twins = _twins(options, who, stage)
    artifacts = {name: twins[0].outcomes[role].artifacts for name, role in ROLES.items()}
    different = steps.different_from_twin(stage, request, artifacts)
    finished = Finished(
        request=request,
        who=who,
        reports=reports,
        twins=twins,
        traffic={name: read_traffic(stage.states[name]) for name in ROLES},
        audit=audit,
        same_as_twin=not different,
        seconds=time.monotonic() - begin,
    )
    write_report(finished, options.out / "report.html")
    (options.out / "result.json").write_text(
        json.dumps(result_document(finished), indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    print(summary(finished, options.out), flush=True)
    if different:
        raise DatasiteError(f"the model part of {', '.join(different)} differs from its twin in one process")
    return finished


def _twins(options: DemoOptions, who: People, stage: Stage) -> tuple[Twin, ...]:
    """The twin of every seed; the first one's files are the parties' own."""
    from parties.demo.data import write_csv

    steps.say("9", "twins in one process, and the baselines that only the owner of all data can compute")
    twins = [run_twin(who, stage.files, printed_progress("     seed 0"))]
    for seed in range(1, options.seeds):
        other = people(seed, aligned=options.aligned)
        bank, retailer = write_csv(other, stage.folder / "data" / f"seed-{seed}")
        files = {BANK: bank, RETAILER: retailer}
        observe = printed_progress(f"     seed {seed}")
        twins.append(run_twin(other, files, observe, known_oracle=twins[0].oracle))
    return tuple(twins)
