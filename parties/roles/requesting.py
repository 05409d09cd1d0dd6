"""What the analyst's commands do and say: rehearse, submit, start, follow, cancel, read the result."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from parties.home.state import State
from parties.roles import analyst
from parties.roles.plan import Offer, read_plan
from parties.roles.progress_lines import ProgressLines, printed_progress
from parties.roles.rehearse import Rehearsal, rehearse
from parties.roles.review import readable_bytes, review_text
from parties.syft_side.access import Datasite
from protocols.request import ComputationRequest, canonical
from protocols.request import digest as request_digest

FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 1.0, 30.0, 1.3
"""Seconds between two status calls: syft keeps every call for ever, so a long run is asked seldom."""
MOCK = "MOCK: every number below is about nobody"


def offers_text(offers: Mapping[str, Offer]) -> tuple[dict[str, object], str]:
    """What the datasites publish, as a document and as text."""
    lines, document = [], {}
    for name, offer in offers.items():
        for block, publication in offer.blocks.items():
            schema = publication.schema
            lines += [
                f"{name}: block {block} version {schema.version}, {schema.rows} rows (rounded up)",
                f"    columns {', '.join(schema.names)}",
                f"    label {schema.label or 'none'}; people by {schema.subject_key} ({schema.key_rule})",
                "    MOCK rows (nobody's):",
                *("    " + line for line in publication.mock.head(3).to_string(index=False).splitlines()),
            ]
            document[f"{name}/{block}"] = {
                "version": schema.version,
                "rows": schema.rows,
                "columns": list(schema.names),
            }
    return dict(document), "\n".join(lines)


def rehearse_plan(state: State, path: Path, *, quiet: bool) -> tuple[dict[str, object], str]:
    """The rehearsal of a plan on the mocks of its datasites."""
    plan = read_plan(path)
    offers = analyst.read_offers(analyst.connect_all(state, tuple(p.name for p in plan.parties)))
    request = analyst.draft(state, plan, offers)
    return rehearsal_text(request, rehearse(request, offers, printed_progress("rehearsal", quiet=quiet)))


def rehearsal_text(request: ComputationRequest, done: Rehearsal) -> tuple[dict[str, object], str]:
    """A rehearsal as a document and as text, marked MOCK."""
    document: dict[str, object] = {
        "mock": True,
        "reports": done.reports,
        "manifest_fill": done.fill,
        "messages": done.messages,
        "bytes": done.bytes,
    }
    lines = [
        MOCK,
        f"{done.messages} messages, {readable_bytes(done.bytes)}; all fit the manifest",
        *(f"    {share:>4.0%} of the bound used   {line}" for line, share in done.fill.items()),
        f"the request has {len(canonical(request))} bytes; nothing was submitted",
    ]
    return document, "\n".join(lines)


def submit_plan(
    state: State, path: Path, *, rehearsed: bool, passphrase: bytes | None, quiet: bool
) -> tuple[dict[str, object], str]:
    """Rehearses the plan (unless told not to), signs the request and submits it to every party."""
    plan = read_plan(path)
    sites = analyst.connect_all(state, tuple(p.name for p in plan.parties))
    offers = analyst.read_offers(sites)
    request = analyst.draft(state, plan, offers)
    if rehearsed:
        rehearse(request, offers, printed_progress("rehearsal (MOCK)", quiet=quiet))
    signed = analyst.sign(request, state.signing_key(passphrase))
    digest = analyst.submit(state, signed, sites)
    text = f"{review_text(request)}\n\nsubmitted to {', '.join(sites)}; its digest is\n{digest}"
    return {"digest": digest, "parties": list(sites), "expires": request.expires}, text


def start_request(state: State, start: str, *, watch: bool) -> None:
    """Starts the run at every party; with `watch` follows it to its end."""
    request, sites = _connected(state, start)
    analyst.start(request, sites)
    print(f"run of {request_digest(request)[:12]} started at {', '.join(sites)}", flush=True)
    if watch:
        follow(request, sites)


def show_status(state: State, start: str, *, watch: bool) -> tuple[dict[str, object], str]:
    """How the request stands at every party; with `watch`, after its end."""
    request, sites = _connected(state, start)
    standing = follow(request, sites) if watch else analyst.statuses(request, sites)
    document: dict[str, object] = {
        "digest": request_digest(request),
        "parties": {s.party: {"state": s.state, "reason": s.reason, **_facts(s.answer)} for s in standing},
    }
    return document, "\n".join(status_line(status) for status in standing)


def follow(
    request: ComputationRequest,
    sites: Mapping[str, Datasite],
    *,
    sleep: Callable[[float], None] = time.sleep,
    longest: float = LONGEST_PAUSE,
) -> tuple[analyst.PartyStatus, ...]:
    """Prints progress until the run has ended at every party; gives back how it ended there."""
    lines = ProgressLines()
    pause = FIRST_PAUSE
    while True:
        standing = analyst.statuses(request, sites)
        for status in standing:
            lines.show(status.party, status.state, status.answer)
        if all(status.state != "RUNNING" for status in standing):
            return standing
        sleep(pause)
        pause = min(longest, pause * GROWTH)


def cancel_request(state: State, start: str) -> str:
    """Cancels the run everywhere; what each party says."""
    request, sites = _connected(state, start)
    return "\n".join(f"{party}: {said}" for party, said in analyst.cancel(request, sites).items())


def read_result(state: State, start: str) -> tuple[dict[str, object], str]:
    """What the parties release, as a document and as readable JSON."""
    request, sites = _connected(state, start)
    document: dict[str, object] = {
        "digest": request_digest(request),
        "computation": request.computation,
        "results": analyst.results(request, sites),
    }
    return document, json.dumps(document, indent=2, sort_keys=True)


def status_line(status: analyst.PartyStatus) -> str:
    """One party's standing on one line, with what is missing and how far it is."""
    facts = _facts(status.answer)
    missing = facts.get("missing")
    parts = [f"{status.party:<12} {status.state}"]
    if status.reason:
        parts.append(status.reason)
    if isinstance(missing, list) and missing:
        parts.append("missing: " + "; ".join(map(str, missing)))
    if facts.get("phase"):
        parts.append(f"{facts['phase']} {facts.get('step')}/{facts.get('of')}")
    if "allowed" in facts:
        parts.append(f"used {facts.get('used')} of {facts['allowed']} runs")
    return "  ".join(parts)


def _facts(answer: Mapping[str, object]) -> dict[str, object]:
    hidden = ("ok", "approval", "state", "reason", "error", "standing")
    return {name: value for name, value in answer.items() if name not in hidden}


def _connected(state: State, start: str) -> tuple[ComputationRequest, dict[str, Datasite]]:
    request = analyst.find(state, start).request
    return request, analyst.connect_all(state, tuple(entry.name for entry in request.parties))
