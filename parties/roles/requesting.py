"""What the analyst's commands do and say: rehearse, submit, start, follow, cancel, read the result."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from parties.home.state import State
from parties.roles import analyst
from parties.roles.plan import Offer, Plan, read_plan
from parties.roles.progress_lines import ProgressLines, print_line, printed_progress
from parties.roles.rehearse import Rehearsal, rehearse
from parties.roles.reports import report_lines
from parties.roles.review import readable_bytes, review_text
from parties.roles.showing import MOCK_FIELD, MOCK_MARK
from parties.roles.standing import PENDING, RUNNING, PartyStatus
from parties.roles.standing_words import standing_text
from parties.syft_side.access import Datasite
from protocols.request import ComputationRequest, canonical
from protocols.request import digest as request_digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Tell = Callable[[str], None]
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 1.0, 30.0, 1.3
"""Seconds between two status calls: syft keeps every call for ever, so a long run is asked seldom."""
APPROVAL_LOOKS = 8
"""How often, a second apart, a start looks for approvals that are on their way into syft."""
MOCK = f"{MOCK_MARK}: every number below is about nobody"
REHEARSAL = f"rehearsal ({MOCK_MARK})"
UNREHEARSED = (
    "(Bounds not rehearsed: the analyst skipped the rehearsal, so more may leave than the computation needs.)"
)


def offers_text(offers: Mapping[str, Offer]) -> tuple[dict[str, object], str]:
    """What the datasites publish, as a document and as text."""
    lines, document = [], {}
    for name, offer in offers.items():
        if not offer.blocks:
            lines.append(f"{name}: no block; it can take a role without one")
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
                "label": schema.label,
                "subject_key": schema.subject_key,
                "key_rule": schema.key_rule,
            }
    return dict(document), "\n".join(lines)


def rehearse_plan(state: State, path: Path, *, tell: Tell) -> tuple[dict[str, object], str]:
    """The rehearsal of a plan on the mocks of its datasites."""
    plan = read_plan(path)
    sites = analyst.connect_all(state, _parties(plan))
    offers = analyst.read_offers(sites, analyst.login_cards(state))
    request = analyst.draft(state, plan, offers)
    return rehearsal_text(request, rehearse(request, offers, printed_progress(REHEARSAL, tell)))


def rehearsal_text(request: ComputationRequest, done: Rehearsal) -> tuple[dict[str, object], str]:
    """A rehearsal as a document and as text: those of `read_result`, marked MOCK, with the manifest's use."""
    names = {entry.role: entry.name for entry in request.parties}
    results = {names[role]: {MOCK_FIELD: True, "report": report} for role, report in done.reports.items()}
    document: dict[str, object] = {
        MOCK_FIELD: True,
        "computation": request.computation,
        "results": results,
        "manifest_fill": done.fill,
        "messages": done.messages,
        "bytes": done.bytes,
    }
    lines = [
        MOCK,
        f"{done.messages} messages, {readable_bytes(done.bytes)}; all fit the manifest",
        *(f"    {share:>4.0%} of the bound used   {line}" for line, share in done.fill.items()),
        *report_lines(request, results),
        "",
        f"the request has {len(canonical(request))} bytes; nothing was submitted",
    ]
    return document, "\n".join(lines)


def submit_plan(
    state: State, path: Path, *, rehearsed: bool, key: "Ed25519PrivateKey", tell: Tell
) -> tuple[dict[str, object], str]:
    """Rehearses the plan (unless told not to), signs the request with the analyst's key and submits it to all."""
    plan = read_plan(path)
    sites = analyst.connect_all(state, _parties(plan))
    offers = analyst.read_offers(sites, analyst.login_cards(state))
    request = analyst.draft(state, plan, offers)
    if rehearsed:
        rehearse(request, offers, printed_progress(REHEARSAL, tell))
    else:
        request = unrehearsed(request)
    digest = analyst.submit(state, analyst.sign(request, key), sites)
    text = f"{review_text(request)}\n\nsubmitted to {', '.join(sites)}; its digest is\n{digest}"
    return {"digest": digest, "parties": list(sites), "expires": request.expires}, text


def unrehearsed(request: ComputationRequest) -> ComputationRequest:
    """The request with a word beside its purpose, which everybody reads and signs, that its bounds were not tried."""
    return replace(request, purpose_text=f"{request.purpose_text} {UNREHEARSED}".strip())


@contextmanager
def may_be_left(digest: str, tell: Tell) -> Iterator[None]:
    """Inside the block Ctrl-C leaves the request and its run alone, and says how to go on with them."""
    try:
        yield
    except KeyboardInterrupt:
        tell(
            f"the request stays, and a run that has started goes on: fedaccord request status {digest[:12]} --watch"
            f" follows it, fedaccord request cancel {digest[:12]} ends it"
        )
        raise


def start_request(state: State, start: str, *, watch: bool, tell: Tell) -> tuple[dict[str, object], str]:
    """Starts the run at every party and gives back how it stands then; with `watch`, how it stands after its end."""
    request, sites = _connected(state, start)
    digest = request_digest(request)
    with may_be_left(digest, tell):
        wait_for_approvals(request, sites, tell)
        analyst.start(request, sites)
        tell(f"run of {digest[:12]} started at {', '.join(sites)}")
        standing = follow(request, sites, tell) if watch else analyst.statuses(request, sites)
    return standing_text(request, standing)


def wait_for_approvals(
    request: ComputationRequest,
    sites: Mapping[str, Datasite],
    tell: Tell,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when no party is PENDING any more, or after a few looks: an approval needs a moment to reach syft."""
    for look in range(APPROVAL_LOOKS):
        standing = analyst.statuses(request, sites)
        waited_for = [status.party for status in standing if status.state == PENDING]
        if not waited_for or any(status.state not in (PENDING, "APPROVED") for status in standing):
            return
        if not look:
            tell(f"waiting for the approval of {' and '.join(waited_for)}")
        sleep(FIRST_PAUSE)


def show_status(state: State, start: str, *, watch: bool, tell: Tell) -> tuple[dict[str, object], str]:
    """How the request stands at every party; with `watch`, after its end. A party that is down is shown as such."""
    request, sites = _connected(state, start, tolerant=True)
    return standing_text(request, follow(request, sites, tell) if watch else analyst.statuses(request, sites))


def follow(
    request: ComputationRequest,
    sites: Mapping[str, Datasite],
    tell: Tell = print_line,
    *,
    sleep: Callable[[float], None] = time.sleep,
    longest: float = LONGEST_PAUSE,
) -> tuple[PartyStatus, ...]:
    """Tells of the progress until the run has ended at every party; gives back how it ended there."""
    lines = ProgressLines(tell)
    pause = FIRST_PAUSE
    while True:
        standing = analyst.statuses(request, sites)
        for status in standing:
            lines.show(status.party, status.state, status.answer)
        if all(status.state != RUNNING for status in standing):
            return standing
        sleep(pause)
        pause = min(longest, pause * GROWTH)


def cancel_request(state: State, start: str) -> tuple[dict[str, object], str]:
    """Cancels the run everywhere; what each party says, as a document and as text."""
    request, sites = _connected(state, start, tolerant=True)
    said = analyst.cancel(request, sites)
    document: dict[str, object] = {"digest": request_digest(request), "parties": said}
    return document, "\n".join(f"{party}: {text}" for party, text in said.items())


def read_result(state: State, start: str) -> tuple[dict[str, object], str]:
    """What the parties release, as a document and as text: scores as a table, other reports as readable JSON."""
    request, sites = _connected(state, start)
    results = analyst.results(request, sites)
    digest = request_digest(request)
    document: dict[str, object] = {"digest": digest, "computation": request.computation, "results": results}
    lines = [f"{request.computation}, request {digest[:12]}", *report_lines(request, results)]
    return document, "\n".join([*lines, "", f"everything: fedaccord request result {digest[:12]} --json"])


def _parties(plan: Plan) -> tuple[str, ...]:
    return tuple(party.name for party in plan.parties)


def _connected(
    state: State, start: str, *, tolerant: bool = False
) -> tuple[ComputationRequest, dict[str, Datasite]]:
    request = analyst.find(state, start).request
    parties = tuple(entry.name for entry in request.parties)
    return request, analyst.connect_all(state, parties, tolerant=tolerant)
