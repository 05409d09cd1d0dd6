"""What an owner takes away again: peers, people and analysts' accounts. It happens first, then its entry is written."""

import json
from pathlib import Path

from parties.control.asking import ask, task_end
from parties.home.accounts import read_accounts
from parties.home.people import read_people, remove_person
from parties.home.policy import read_policy
from parties.home.private_files import write_private
from parties.home.state import State
from parties.roles.owner import check_new_file, journal, owner, running_requests
from protocols.audit import AuditEvent
from protocols.errors import DatasiteError, RosterError


def drop_peer(state: State, name: str) -> str:
    """Takes a party or an analyst out of the address book: no request that names it can be submitted or started.

    A run that is under way goes on. RosterError for a stranger, and for an analyst who still has an account.
    """
    if state.kind == "party" and name in read_accounts(state):
        raise RosterError(f"{name} has an account here", remedy=f"first: fedaccord user remove {name}")
    card = state.address_book().remove(name)
    if state.kind == "party":
        target = f"{card.kind} {card.name}"
        journal(state).ok(AuditEvent.PEER_REMOVED, owner(state), target, organisation=card.organisation)
    return f"{card.kind} {card.name} is out of the address book{_under_way(state, card.name)}"


def drop_person(state: State, name: str) -> str:
    """Takes one of our people away with the key file; pending requests lose that approval, denials stand."""
    gone = remove_person(state.folder, name)
    journal(state).ok(
        AuditEvent.PERSON_REMOVED,
        owner(state),
        f"person {gone.name}",
        role=gone.role,
        organisation=gone.organisation,
        key=gone.key,
    )
    policy, people = read_policy(state.folder), read_people(state.folder)
    said = (
        f"{gone.role} {gone.name} is no longer one of our people: what {gone.name} approved no longer counts"
    )
    for role, wanted in (("owner", policy.owners), ("reviewer", policy.reviewers)):
        left = sum(1 for person in people if person.role == role)
        if left < wanted:
            said += (
                f"\nWARNING: policy.toml asks for {wanted} {role}s, there are {left}: nothing can be approved"
            )
    return said


def list_users(state: State) -> tuple[dict[str, object], str]:
    """The analysts' accounts with their e-mail, as a document and as one line each."""
    cards = {card.name: card for card in state.address_book().cards()}
    rows = [
        {
            "analyst": name,
            "email": email,
            "organisation": cards[name].organisation if name in cards else "not in the address book",
        }
        for name, email in sorted(read_accounts(state).items())
    ]
    lines = [f"{r['analyst']:<16} {r['email']:<32} {r['organisation']}" for r in rows]
    return {"users": rows}, "\n".join(lines) or "no accounts yet"


def reset_user(state: State, name: str, out: Path, *, wait: float = 0.0) -> str:
    """Gives an analyst's account a new password and writes the new login file; `serve` must be running.

    Raises StateError for a file that exists, RosterError when there is no account, DatasiteError when syft refuses.
    """
    check_new_file(out)
    answer = ask(state.folder, "reset_user", name=name)
    email = str(answer["email"])
    login = {
        "party": state.name,
        "url": f"http://{state.host}:{state.port}",
        "email": email,
        "password": answer["password"],
    }
    write_private(out, json.dumps(login, indent=2) + "\n")
    done = _in_syft(state, "reset_user", email, wait)
    return f"account {email} has a new password{done}; login in {out} (mode 0600): hand it over and delete it"


def drop_user(state: State, name: str, *, wait: float = 0.0) -> str:
    """Closes an analyst's account; `serve` must be running. RosterError when there is none."""
    email = str(ask(state.folder, "remove_user", name=name)["email"])
    done = _in_syft(state, "remove_user", email, wait)
    return f"account {email} of {name} is closed{done}{_under_way(state, name)}"


def _in_syft(state: State, kind: str, email: str, wait: float) -> str:
    standing, problems = task_end(state.folder, kind, email, wait)
    if standing == "failed":
        raise DatasiteError(
            f"syft could not follow ({kind} {email}): {problems}", remedy="read syft/server.log; then again"
        )
    return ", also in syft" if standing == "done" else "; syft follows as soon as its server is up"


def _under_way(state: State, name: str) -> str:
    """What still runs for or with this party or analyst, as a further line."""
    if state.kind != "party":
        return ""
    found = [
        digest[:12]
        for digest, request in running_requests(state)
        if name in {request.analyst.name, *(entry.name for entry in request.parties)}
    ]
    return f"\nUNDER WAY: {', '.join(found)} goes on until `fedaccord review revoke`" if found else ""
