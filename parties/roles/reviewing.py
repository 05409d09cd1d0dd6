"""A person's work on requests, through the supervisor's socket: find one, read it, sign a decision on it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from parties.control.asking import ask
from parties.home.documents import Documents
from parties.home.people import find_person
from parties.home.state import State
from parties.roles.review import listing_text, review_text
from protocols.approval import Decision, Role, decide, decision_text
from protocols.errors import RequestError
from protocols.keys import load_key
from protocols.request import ComputationRequest


def listing(document: Mapping[str, object]) -> str:
    """The supervisor's listing for a reader, foreign code with a warning after our requests."""
    lines = [listing_text(_records(document, "requests"))]
    for entry in _records(document, "foreign"):
        lines.append(
            f"FOREIGN CODE {entry.get('name') or 'without a name'} from {entry.get('email')}: not approvable here, "
            f"because {entry.get('reasons')}"
        )
    return "\n".join(lines)


def find_digest(state: State, start: str) -> str:
    """The digest of the one request that begins with these characters; RequestError when none or several do."""
    known = [str(row["digest"]) for row in _records(ask(state.folder, "requests"), "requests")]
    return chosen(known, start, state.name)


def chosen(known: list[str], start: str, where: str) -> str:
    """The one of the known digests that begins with `start`; RequestError naming what there is otherwise."""
    found = [digest for digest in known if start and digest.startswith(start.lower())]
    if len(found) == 1:
        return found[0]
    what = "no request" if not found else f"{len(found)} requests"
    listed = ", ".join(digest[:12] for digest in known[-5:]) or "none"
    raise RequestError(f"{what} of {where} begins with {start[:64]!r}", remedy=f"the last ones: {listed}")


def page(state: State, start: str) -> tuple[dict[str, object], str]:
    """One request as the supervisor's document and as the text that a reviewer reads; the reading is logged."""
    digest = find_digest(state, start)
    document = ask(state.folder, "request", digest=digest)
    request = Documents(state.folder).request(digest).request
    text = review_text(request, _last_approved(state, request, digest))
    return document, f"{text}\n\nSTATE {document['state']} {document['reason']}\n{_decisions(document)}"


def record(
    state: State, start: str, *, person: str, decision: Decision, reason: str, passphrase: bytes | None
) -> str:
    """Signs the person's decision with the person's key, hands it in, and says what is the state after it."""
    digest = find_digest(state, start)
    who = find_person(state.folder, person)
    signed = decide(
        digest=digest,
        party=state.name,
        person=who.name,
        role=Role(who.role),
        organisation=who.organisation,
        decision=decision,
        reason=reason,
        key=load_key(state.folder / "keys" / "people" / f"{who.name}.pem", passphrase),
        now=datetime.now(UTC),
    )
    answer = ask(state.folder, "decide", decision=decision_text(signed))
    missing = answer.get("missing")
    waits = (
        f"; still missing: {'; '.join(map(str, missing))}" if isinstance(missing, list) and missing else ""
    )
    return f"{state.name}: {decision.value} by {who.name}; request {digest[:12]} is {answer['state']}{waits}"


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


def _decisions(document: Mapping[str, object]) -> str:
    lines = [
        f"  {d['time']}  {d['person']} ({d['role']}): {d['decision']} {d['reason']}"
        for d in _records(document, "decisions")
    ]
    lines += [f"  missing: {text}" for text in _texts(document, "missing")]
    lines += [f"  PROBLEM in syft: {text}" for text in _texts(document, "problems")]
    return "\n".join(lines) or "  no decisions yet"


def _records(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    found = document.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _texts(document: Mapping[str, object], name: str) -> list[str]:
    found = document.get(name)
    return [str(text) for text in found] if isinstance(found, list) else []
