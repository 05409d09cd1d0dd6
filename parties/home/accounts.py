"""Which analyst has which account on the party's syft server; a request is taken only from its own analyst's."""

import secrets
import threading

from parties.control.tasks import TaskQueue
from parties.home.cards import PartyCard
from parties.home.journal import Actor, Journal
from parties.home.private_files import read_json, write_json
from parties.home.state import State
from protocols.audit import AuditEvent
from protocols.errors import RequestError, RosterError
from protocols.request import ComputationRequest


def read_accounts(state: State) -> dict[str, str]:
    """E-mail of each analyst's account at the party, by the analyst's name."""
    path = state.folder / "users.json"
    return {name: str(email) for name, email in read_json(path).items()} if path.exists() else {}


class Accounts:
    """The accounts of one party, kept in users.json by the analysts' names of the address book."""

    def __init__(self, state: State, *, tasks: TaskQueue, journal: Journal) -> None:
        self._state = state
        self._tasks = tasks
        self._journal = journal
        self._adding = threading.Lock()  # users.json is read, changed and written as one

    def check(self, request: ComputationRequest, email: str) -> None:
        """RequestError unless the analyst of the request is the one whose account here has this e-mail."""
        if self.all().get(request.analyst.name) != email:
            raise RequestError(
                f"the request names analyst {request.analyst.name}, who has no account {email[:80]!r} here",
                remedy="fedaccord user add CARD --fingerprint ... --email ... --out FILE",
            )

    def all(self) -> dict[str, str]:
        """E-mail of each analyst's account here, by the analyst's name."""
        return read_accounts(self._state)

    def add(self, name: str, email: str) -> str:
        """Opens an account for an analyst of the address book and gives back its password, kept until syft has it.

        Raises RosterError for an analyst who is unknown or has an account, RequestError for what is no e-mail address,
        AuditError when it can't be logged: then there is no account.
        """
        card = self._state.address_book().find(name, "analyst")
        with self._adding:
            return self._add(card, email)

    def _add(self, card: PartyCard, email: str) -> str:
        name, accounts = card.name, self.all()
        if name in accounts or email in accounts.values():
            raise RosterError(f"{name} or {email[:80]!r} has an account already")
        if "@" not in email or not email.isprintable() or len(email) > 200 or email != email.strip():
            raise RequestError(f"{email[:80]!r} is not an e-mail address")
        password = secrets.token_urlsafe(18)
        with self._journal.before(
            AuditEvent.USER_ADDED, self._owner(), f"analyst {name}", organisation=card.organisation
        ):
            write_json(self._state.folder / "users.json", accounts | {name: email})
            self._tasks.put("add_user", {"name": name, "email": email, "password": password})
        return password

    def reset(self, name: str) -> tuple[str, str]:
        """A new password for the analyst's account, and the account's e-mail; RosterError when there is no account."""
        with self._adding:
            email, password = self._email(name), secrets.token_urlsafe(18)
            with self._journal.before(
                AuditEvent.USER_CHANGED, self._owner(), f"analyst {name}", change="password"
            ):
                self._tasks.put("reset_user", {"email": email, "password": password})
            return password, email

    def remove(self, name: str) -> str:
        """Closes the analyst's account and gives back its e-mail; from now on nothing is taken or answered from it.

        That comes first, then its entry. RosterError when there is no account.
        """
        with self._adding:
            email = self._email(name)
            rest = {other: mail for other, mail in self.all().items() if other != name}
            write_json(self._state.folder / "users.json", rest)
            self._tasks.put("remove_user", {"email": email})
            self._journal.ok(AuditEvent.USER_REMOVED, self._owner(), f"analyst {name}")
            return email

    def _email(self, name: str) -> str:
        accounts = self.all()
        if name not in accounts:
            raise RosterError(
                f"{name[:80]!r} has no account here",
                remedy=f"there are {', '.join(sorted(accounts)) or 'none'}",
            )
        return accounts[name]

    def _owner(self) -> Actor:
        return Actor(who="owner", role="owner", organisation=self._state.organisation, origin="socket")
