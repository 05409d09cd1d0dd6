"""A person's work on requests, through the supervisor's socket: find one, read it, sign a decision on it."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from parties.control.asking import ask, task_end
from parties.home.documents import Documents
from parties.home.journal import SOCKET
from parties.home.people import Person, find_person
from parties.home.policy import read_policy
from parties.home.processing import Processing
from parties.home.state import State
from parties.roles.controller_facts import controller_sections
from parties.roles.facts import Content, Fact, Note, Section, facts_text, section
from parties.roles.history import history_section
from parties.roles.policy_facts import policy_sections
from parties.roles.review import listing_text, review_sections
from parties.roles.signer import Signer, unlock
from protocols.approval import Decision, Role, decide, decision_text
from protocols.errors import ApprovalError, ConfigError, DatasiteError, RequestError
from protocols.request import ComputationRequest

WAIT_SECONDS = 10.0
"""How long a command waits for the steward: it looks for new requests about once a second."""
POLL = 0.3


def listing(document: Mapping[str, object]) -> str:
    """The supervisor's listing for a reader; after our requests those refused when they came, and foreign code."""
    lines = [listing_text(_records(document, "requests"))]
    for entry in _records(document, "refused"):
        digest = str(entry.get("digest", ""))[:12] or "unreadable"
        who = f"{entry.get('analyst') or 'somebody'} ({entry.get('email')})"
        lines += [
            f"{digest:<12}  REFUSED     {who} at {entry.get('time')}",
            f"{'':<14}{entry.get('refused')}",
        ]
    for entry in _records(document, "foreign"):
        lines.append(
            f"FOREIGN CODE {entry.get('number')}: {entry.get('name') or 'without a name'} from {entry.get('email')}: "
            f"not approvable here, because {entry.get('reasons')}"
        )
        lines += [f"{'':<14}{text}" for text in _texts(entry, "warnings")]
    return "\n".join(lines)


def foreign_code(
    state: State, number: int, *, person: str = "owner", origin: str = SOCKET
) -> tuple[dict[str, object], str]:
    """One submission of foreign code, as the supervisor's document and as text; the person's reading is logged."""
    document = ask(state.folder, "foreign", number=number, person=person, origin=origin)
    code = str(document["code"]).split("\n")
    return document, "\n".join(
        [
            f"FOREIGN CODE {number}: {document['name'] or 'without a name'} from {document['email']}",
            f"not approvable here, because {document['reasons']}",
            *_texts(document, "warnings"),
            "",
            *(f"{line:>5}  {text}" for line, text in enumerate(code, 1)),
        ]
    )


def find_digest(
    state: State, start: str, *, wait: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> str:
    """The digest of the one request that begins with these characters; RequestError when none or several do.

    `wait` is for how many seconds to look again, since a request that was just submitted is still on its way from syft.
    """
    end = time.monotonic() + (wait if re.fullmatch("[0-9a-fA-F]{4,64}", start) else 0.0)
    while True:
        known = [str(row["digest"]) for row in _records(ask(state.folder, "requests"), "requests")]
        if any(digest.startswith(start.lower()) for digest in known) or time.monotonic() >= end:
            return chosen(known, start, state.name)
        sleep(POLL)


def chosen(known: list[str], start: str, where: str) -> str:
    """The one of the known digests that begins with `start`; RequestError naming what there is otherwise."""
    found = [digest for digest in known if start and digest.startswith(start.lower())]
    if len(found) == 1:
        return found[0]
    what = "no request" if not found else f"{len(found)} requests"
    listed = ", ".join(digest[:12] for digest in known[-5:]) or "none"
    raise RequestError(f"{what} of {where} begins with {start[:64]!r}", remedy=f"the last ones: {listed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One request as a reviewer reads it; `document` is the supervisor's."""

    digest: str
    document: Mapping[str, object]
    sections: tuple[Section, ...]

    def text(self) -> str:
        """The page for a terminal."""
        return f"REQUEST {self.digest}\n\n{facts_text(self.sections)}"


def page(state: State, start: str, *, person: str = "owner", origin: str = SOCKET, wait: float = 0.0) -> Page:
    """One request with all that a reviewer of it is shown; the reading is logged as this person's."""
    digest = find_digest(state, start, wait=wait)
    document = ask(state.folder, "request", digest=digest, person=person, origin=origin)
    request = Documents(state.folder).request(digest).request
    alignments, clocks = _texts(document, "alignments"), _texts(document, "clocks")
    return Page(
        digest=digest,
        document=document,
        sections=(
            *review_sections(request, _last_approved(state, request, digest)),
            *_own_sections(state, request, used=int(str(document["used"]))),
            history_section(state, request, digest, _records(ask(state.folder, "requests"), "requests")),
            *([section("Alignments so far", [Note(text=line) for line in alignments])] if alignments else ()),
            *([section("Clocks", [Note(text=line) for line in clocks])] if clocks else ()),
            section("State", [Note(text=f"{document['state']} {document['reason']}".strip())]),
            section("Decisions", _decisions(document)),
        ),
    )


def _own_sections(state: State, request: ComputationRequest, *, used: int) -> tuple[Section, ...]:
    """Our own policy and our own words; a page without a readable policy.toml says so, since it must stay readable."""
    try:
        policy = read_policy(state.folder)
    except ConfigError as error:
        text = f"NO POLICY IS IN FORCE, nothing can be approved: {error} ({error.remedy})"
        return (
            section(f"Policy of {state.name}", [Note(text=text)]),
            *controller_sections(state, request, Processing(), used=used),
        )
    asked = [Fact(name=question.item, text=question.text) for question in policy.checklist]
    return (
        *policy_sections(policy, request, state.name, datetime.now(UTC)),
        *([section("Checklist: what an approval has to answer", asked)] if asked else ()),
        *controller_sections(state, request, policy.processing, used=used),
    )


def check_decides(person: Person) -> None:
    """ApprovalError for somebody whose role only reads."""
    if person.role not in set(Role):
        raise ApprovalError(
            f"{person.name} is an {person.role}, who reads and doesn't decide",
            remedy="an owner or a reviewer decides",
        )


def record(
    state: State,
    start: str,
    *,
    person: str,
    decision: Decision,
    reason: str,
    passphrase: bytes | None,
    wait: float = 0.0,
) -> str:
    """Signs the person's decision with the person's key, hands it in, and says what is the state after it.

    `wait` is for how many seconds to wait for the steward on both sides of it: for a request that was just submitted,
    and for the decision to reach syft. DatasiteError when the decision stands and syft's request could not follow.
    """
    check_decides(find_person(state.folder, person))
    signer = unlock(state, person, passphrase)
    return decide_as(
        state, signer, find_digest(state, start, wait=wait), decision=decision, reason=reason, wait=wait
    )


def decide_as(
    state: State,
    signer: Signer,
    digest: str,
    *,
    decision: Decision,
    reason: str,
    wait: float,
    origin: str = SOCKET,
) -> str:
    """What `record` does, with a key that is unlocked already and the whole digest; `origin` is for the log."""
    check_decides(signer.person)
    signed = decide(
        digest=digest,
        party=state.name,
        person=signer.person.name,
        role=Role(signer.person.role),
        organisation=signer.person.organisation,
        decision=decision,
        reason=reason,
        key=signer.key,
        now=datetime.now(UTC),
    )
    answer = ask(state.folder, "decide", decision=decision_text(signed), origin=origin)
    already, who = answer["already"], signer.person.name
    done = f"{who} has approved already at {already}" if already else f"{decision.value} by {who}"
    said = f"{state.name}: {done}; request {digest[:12]} is {answer['state']}"
    missing = _texts(answer, "missing")
    if missing and decision is Decision.APPROVE:
        return f"{said}; still missing: {'; '.join(missing)}"
    return f"{said}{_in_syft(state, digest, decision, wait) if wait else ''}"


def _in_syft(state: State, digest: str, decision: Decision, wait: float) -> str:
    """What became of the decision in the party's syft server."""
    kind = "approve" if decision is Decision.APPROVE else "deny"
    standing, problems = task_end(state.folder, kind, digest, wait)
    if standing == "failed":
        raise DatasiteError(
            f"the decision stands, but syft could not follow ({kind}): {problems}",
            remedy=f"fedaccord review show {digest[:12]}",
        )
    return {"queued": "; syft will follow once it is up", "done": ", also in syft"}.get(standing, "")


def _last_approved(state: State, request: ComputationRequest, digest: str) -> ComputationRequest | None:
    """The newest other request of the same analyst for the same computation that this party countersigned."""
    documents = Documents(state.folder)
    for row in reversed(_records(ask(state.folder, "requests"), "requests")):
        other = str(row["digest"])
        if other != digest and documents.approval(other) is not None:
            earlier = documents.request(other).request
            if (earlier.analyst.name, earlier.computation) == (request.analyst.name, request.computation):
                return earlier
    return None


def _decisions(document: Mapping[str, object]) -> list[Content]:
    contents: list[Content] = [
        Note(text=line.rstrip())
        for d in _records(document, "decisions")
        for line in f"{d['time']}  {d['person']} ({d['role']}): {d['decision']} {d['reason']}".splitlines()
    ]
    contents += [Note(text=f"missing: {text}") for text in _texts(document, "missing")]
    contents += [Note(text=f"PROBLEM in syft: {text}") for text in _texts(document, "problems")]
    return contents or [Note(text="no decisions yet")]


def _records(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    found = document.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _texts(document: Mapping[str, object], name: str) -> list[str]:
    found = document.get(name)
    return [str(text) for text in found] if isinstance(found, list) else []
