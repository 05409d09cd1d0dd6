"""The way in and out: a person proves to be one by opening their own key file, here or on the terminal."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from parties.console.pages import Pages
from parties.console.security import check_token
from parties.console.sessions import Attempts, Clock, Session, Sessions, ThrottleError, Tickets, new_token
from parties.home.journal import Actor, Journal
from parties.home.people import Person, read_people
from parties.home.state import State
from parties.roles.signer import Signer, key_path, unlock
from protocols.audit import AuditEvent
from protocols.errors import ConfigError, FedaccordError, KeyFileError
from protocols.keys import needs_passphrase

ORIGIN = "console"
"""Where what is done here comes from, as the audit log has it."""
TARGET = "review console"
WRONG = "name or passphrase is wrong"
HOME = "/requests"


class NotLoggedInError(FedaccordError):
    """The page needs a session and there is none (any more)."""

    code = "not_logged_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """One console's sessions and the pages that open and end them."""

    state: State
    pages: Pages
    sessions: Sessions
    tickets: Tickets
    attempts: Attempts
    cookie: str
    now: Callable[[], datetime]

    @classmethod
    def of(cls, state: State, port: int, *, clock: Clock, now: Callable[[], datetime]) -> "Entrance":
        """The entrance of a console at this port; its cookies name the port, since a browser shows them to all."""
        return cls(
            state=state,
            pages=Pages(state),
            sessions=Sessions(clock),
            tickets=Tickets(clock),
            attempts=Attempts(clock),
            cookie=f"fedaccord-{state.name}-{port}",
            now=now,
        )

    def session(self, request: Request, *, touch: bool = True) -> Session:
        """The session of a request; NotLoggedInError when it ended, or the person isn't one of ours (any more)."""
        cookie = request.cookies.get(self.cookie, "")
        found = self.sessions.find(cookie, touch=touch)
        if found is None:
            raise NotLoggedInError("log in first")
        if found.signer.person not in read_people(self.state.folder):
            self.sessions.close(cookie)
            raise NotLoggedInError("log in again")
        return found

    def own_form(self, request: Request, csrf: str) -> Session:
        """The session of a form; FormError when the form isn't one of it."""
        session = self.session(request)
        check_token(csrf, session.csrf)
        return session

    def show_login(self, request: Request) -> Response:
        """The form for name and passphrase."""
        return self._login_page(
            "your session has ended; log in again" if "ended" in request.query_params else ""
        )

    def log_in(
        self,
        request: Request,
        person: Annotated[str, Form()] = "",
        passphrase: Annotated[str, Form()] = "",
        csrf: Annotated[str, Form()] = "",
    ) -> Response:
        """Opens a session for a person whose key opens under the passphrase."""
        check_token(csrf, request.cookies.get(f"{self.cookie}-form", ""))
        try:
            self.attempts.check()
            signer = self._proved(person, passphrase)
        except ThrottleError as error:
            return self._login_page(f"{error}. {error.remedy}.", status=403)
        except (ConfigError, KeyFileError):
            self.attempts.failed()
            self._journal().refused(AuditEvent.LOGGED_IN, self._stranger(person), TARGET, ConfigError(WRONG))
            return self._login_page(f"{WRONG}.", status=403)  # the error's own text would tell names
        return self._enter(request, signer)

    def show_ticket(self, ticket: str) -> Response:
        """The page behind the link of the terminal: a button, since a browser may fetch a link by itself."""
        return self.pages.html("ticket.html", None, self.now(), {"ticket": ticket})

    def use_ticket(self, request: Request, ticket: str) -> Response:
        """Opens the session of a ticket, once; the ticket is the form's own token."""
        signer = self.tickets.take(ticket)
        if signer is None:
            self._journal().refused(
                AuditEvent.LOGGED_IN,
                self._stranger(""),
                TARGET,
                ConfigError("a link that is used or too old"),
            )
            return self._login_page("the link was used already, or is too old.", status=403)
        return self._enter(request, signer)

    def log_out(self, request: Request, csrf: Annotated[str, Form()] = "") -> Response:
        """Ends the session."""
        self.own_form(request, csrf)
        self.sessions.close(request.cookies.get(self.cookie, ""))
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def _proved(self, name: str, passphrase: str) -> Signer:
        """The person, unlocked; a key without a passphrase proves nobody here, since a name is all that it takes."""
        if not needs_passphrase(key_path(self.state, name)):
            raise KeyFileError(f"the key of {name} has no passphrase")
        return unlock(self.state, name, passphrase.encode())

    def _enter(self, request: Request, signer: Signer) -> Response:
        """Logs the login, ends the browser's session before, and opens one under a new name."""
        self._journal().ok(AuditEvent.LOGGED_IN, actor(signer.person), TARGET)
        self.sessions.close(request.cookies.get(self.cookie, ""))
        answer = RedirectResponse(HOME, status_code=303)
        self._set(answer, self.cookie, self.sessions.open(signer))
        return answer

    def _login_page(self, problem: str, status: int = 200) -> Response:
        token = new_token()
        values = {"problem": problem, "form_token": token}
        page = self.pages.html("login.html", None, self.now(), values, status=status)
        self._set(page, f"{self.cookie}-form", token)
        return page

    def _set(self, answer: Response, name: str, value: str) -> None:
        answer.set_cookie(name, value, path="/", httponly=True, samesite="strict")

    def _journal(self) -> Journal:
        return Journal(self.state, self.now)

    def _stranger(self, name: str) -> Actor:
        """Who failed to log in; only a known name goes into the log, since people type passphrases there by mistake."""
        known = {person.name for person in read_people(self.state.folder)}
        return Actor(
            who=name if name in known else "somebody",
            role="unknown",
            organisation="unknown",
            origin=ORIGIN,
        )


def actor(person: Person) -> Actor:
    """The person as the audit log names one who works here."""
    return Actor(who=person.name, role=person.role, organisation=person.organisation, origin=ORIGIN)
