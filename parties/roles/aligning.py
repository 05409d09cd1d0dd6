"""An alignment from start to end for an analyst: asked for, waited for, run, and its number told.

It is a request like any other, with its own approval at both parties, before anybody thinks of a training.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parties.catalog import alignment
from parties.home.state import State
from parties.roles import analyst
from parties.roles.plan import Plan, PlanParty
from parties.roles.progress_lines import printed_progress
from parties.roles.rehearse import rehearse
from parties.roles.requesting import (
    FIRST_PAUSE,
    GROWTH,
    LONGEST_PAUSE,
    REHEARSAL,
    Tell,
    follow,
    may_be_left,
    rehearsal_text,
    unrehearsed,
)
from parties.roles.review import review_text
from parties.roles.standing import APPROVED, DONE, PENDING, UNREACHABLE, in_words
from parties.roles.standing_words import standing_text
from parties.syft_side.access import Datasite
from protocols.errors import ConfigError, NotApprovedError, StateError
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ROLES = ("active", "passive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be aligned: two blocks as PARTY/BLOCK, `full` for a pairing instead of a size, and the limits."""

    blocks: tuple[str, str]
    full: bool
    purpose: str
    purpose_text: str
    minimum_group: int
    minimum_overlap: int
    bucket: int
    max_common: int | None
    days: int

    def plan(self) -> Plan:
        """The plan of the request; ConfigError for a block that isn't PARTY/BLOCK, and for a bound that has no use."""
        if self.max_common is not None and not self.full:
            raise ConfigError("--max-common bounds who is paired; a size pairs nobody", remedy="leave it out")
        computation, parameters = alignment.asked_for(
            full=self.full, bucket=self.bucket, max_common=self.max_common
        )
        return Plan(
            purpose=self.purpose,
            purpose_text=self.purpose_text,
            computation=computation,
            parties=tuple(named_block(text, role) for text, role in zip(self.blocks, ROLES, strict=True)),
            parameters=parameters,
            minimum_group=self.minimum_group,
            minimum_overlap=self.minimum_overlap,
            days=self.days,
        )


def rehearse_alignment(state: State, wish: Wish, *, tell: Tell) -> tuple[dict[str, object], str]:
    """The request that the wish becomes and its rehearsal on the mocks; nothing is submitted."""
    return rehearse_asked(state, wish.plan(), tell=tell)


def rehearse_asked(state: State, plan: Plan, *, tell: Tell) -> tuple[dict[str, object], str]:
    """The request that the plan becomes and its rehearsal on the mocks, as a document and as text."""
    offers = analyst.read_offers(analyst.connect_all(state, _names(plan)))
    request = analyst.draft(state, plan, offers)
    document, text = rehearsal_text(request, rehearse(request, offers, printed_progress(REHEARSAL, tell)))
    return document, f"{review_text(request)}\n\n{text}"


def align(
    state: State,
    wish: Wish,
    *,
    key: "Ed25519PrivateKey",
    rehearsed: bool,
    wait: float,
    tell: Tell,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[dict[str, object], str]:
    """Asks both parties, waits up to `wait` seconds for their approval, runs the alignment and tells its number.

    Raises NotApprovedError when they have not approved by then (the request stays: it can be started later) or denied,
    StateError when the run didn't end well.
    """
    plan = wish.plan()
    digest, results = ask_and_run(
        state, plan, "alignment", key=key, rehearsed=rehearsed, wait=wait, tell=tell, sleep=sleep, now=now
    )
    return result_text(digest, results)


def ask_and_run(
    state: State,
    plan: Plan,
    what: str,
    *,
    key: "Ed25519PrivateKey",
    rehearsed: bool,
    wait: float,
    tell: Tell,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> tuple[str, dict[str, object]]:
    """Asks the plan's parties, waits for them, runs it: the request's digest and what each party releases.

    `what` names the run in an error. Raises like `align`.
    """
    sites = analyst.connect_all(state, _names(plan))
    offers = analyst.read_offers(sites)
    request = analyst.draft(state, plan, offers)
    if rehearsed:
        rehearse(request, offers, printed_progress(REHEARSAL, tell))
    else:
        request = unrehearsed(request)
    digest = analyst.submit(state, analyst.sign(request, key), sites)
    tell(f"request {digest[:12]} submitted to {' and '.join(sites)}; their owners read and approve it:")
    for name in sites:
        tell(f"    fedaccord review approve {digest[:12]} --reason WHY --state {name}")
    with may_be_left(digest, tell):
        await_approvals(request, sites, tell, until=now() + wait, sleep=sleep, now=now)
        analyst.start(request, sites)
        standing = follow(request, sites, tell, sleep=sleep)
    if any(status.state != DONE for status in standing):
        raise StateError(f"the {what} didn't end well:\n{standing_text(request, standing)[1]}")
    return digest, analyst.results(request, sites)


def await_approvals(
    request: ComputationRequest,
    sites: Mapping[str, Datasite],
    tell: Tell,
    *,
    until: float,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> None:
    """Returns when every party has approved; asks more and more seldom. Raises NotApprovedError, see `align`.

    A datasite that can't be asked for a moment, as while syft takes an approval in, is asked again like one that waits.
    """
    pause, digest, told = FIRST_PAUSE, request_digest(request)[:12], ""
    while True:
        standing = analyst.statuses(request, sites)
        if all(status.state == APPROVED for status in standing):
            return
        for status in standing:
            if status.state not in (PENDING, APPROVED, UNREACHABLE):
                raise NotApprovedError(f"{status.party}: {in_words(status)}")
        waiting = " and ".join(
            f"{status.party} ({status.reason})" if status.state == UNREACHABLE else status.party
            for status in standing
            if status.state != APPROVED
        )
        if now() >= until:
            raise NotApprovedError(
                f"request {digest} waits for the approval of {waiting}",
                remedy=f"later: fedaccord request start {digest} --watch, then fedaccord request result {digest}",
            )
        if waiting != told:
            tell(f"waiting for the approval of {waiting}")
        told = waiting
        sleep(pause)
        pause = min(LONGEST_PAUSE, pause * GROWTH)


def result_text(digest: str, results: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """What each party says of the common people, as a document and as one line each."""
    lines = []
    for party, result in results.items():
        common = _common(result)
        said = common.get("people")
        if said is None:
            said = f"{common.get('suppressed')}: {common.get('reason')}"
        lines.append(f"{party}: common people {said}")
    document: dict[str, object] = {"digest": digest, "results": dict(results)}
    return document, "\n".join([*lines, "numbers are rounded down to a multiple of the smallest group"])


def _common(result: object) -> Mapping[str, object]:
    """The report's group on common people; empty for a result that isn't of this form."""
    report = result.get("report") if isinstance(result, Mapping) else None
    common = report.get("common") if isinstance(report, Mapping) else None
    return common if isinstance(common, Mapping) else {}


def named_block(text: str, role: str) -> PlanParty:
    """The party of a plan that PARTY/BLOCK names; ConfigError for another form."""
    name, separator, block = text.partition("/")
    if not (name and separator and block):
        raise ConfigError(f"{text!r}: expected PARTY/BLOCK, for example bank/customers")
    return PlanParty(name=name, role=role, block=block)


def _names(plan: Plan) -> tuple[str, ...]:
    return tuple(party.name for party in plan.parties)
