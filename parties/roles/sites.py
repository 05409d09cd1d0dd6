"""The analyst's datasites: their logins, a session with each, and what they publish."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from parties.home.cards import PartyCard, card_text, parse_card
from parties.home.logins import KnownDatasite, add_datasite, known_datasites
from parties.home.state import State
from parties.roles.plan import Offer, read_offer
from parties.syft_side.access import Datasite, Decision
from parties.syft_side.publication import Publication
from protocols.errors import DatasiteError, RequestError, RosterError, StateError

LOGIN_FIELDS = ("party", "url", "email", "password")
ADD_LOGIN = "fedaccord datasite add LOGIN (the file that the party's owner gave you)"


class Unreachable:
    """A `Datasite` that couldn't be reached: whatever is asked of it raises the error again."""

    def __init__(self, name: str, error: DatasiteError) -> None:
        self._name = name
        self._error = error

    @property
    def name(self) -> str:
        """The party's name."""
        return self._name

    def datasets(self) -> tuple[Publication, ...]:
        """Raises the error."""
        raise self._again()

    def submit(self, signed: str) -> str:
        """Raises the error."""
        raise self._again()

    def decision(self, digest: str) -> Decision:
        """Raises the error."""
        raise self._again()

    def call(self, digest: str, action: str, argument: str = "") -> dict[str, object]:
        """Raises the error."""
        raise self._again()

    def _again(self) -> DatasiteError:
        return DatasiteError(str(self._error), remedy=self._error.remedy)


def add_login(state: State, file: Path) -> KnownDatasite:
    """Remembers the login in the file that an owner handed over. Raises StateError when it isn't one."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"login {file}: {error.strerror}") from error
    except (ValueError, RecursionError):
        # Not "from error": a decoder's message may quote what it was given, and this file holds a password.
        raise StateError(
            f"login {file} is not JSON", remedy="ask the party's owner for the file again"
        ) from None
    if not isinstance(value, dict) or any(not isinstance(value.get(name), str) for name in LOGIN_FIELDS):
        raise StateError(
            f"login {file} must hold the texts {', '.join(LOGIN_FIELDS)}",
            remedy="it is the file that `fedaccord user add --out FILE` wrote",
        )
    site = KnownDatasite(
        party=value["party"],
        url=value["url"],
        email=value["email"],
        password=value["password"],
        card=_card(value.get("card", ""), file),
    )
    add_datasite(state, site)
    return site


def _card(text: object, file: Path) -> str:
    """The text of the party's card in a login; "" where there is none. StateError for one that isn't a card."""
    if not text:
        return ""
    try:
        return card_text(parse_card(str(text)))
    except RosterError as error:
        raise StateError(
            f"login {file}: {error}", remedy="ask the party's owner for the file again"
        ) from error


def login_cards(state: State) -> dict[str, PartyCard]:
    """The cards that came with the logins, by party name."""
    return {name: parse_card(site.card) for name, site in known_datasites(state).items() if site.card}


def connect_all(
    state: State, parties: tuple[str, ...] = (), *, tolerant: bool = False
) -> dict[str, Datasite]:
    """A logged-in datasite for each of the parties (by default all known ones); RequestError for an unknown one.

    DatasiteError naming the party when one can't be reached; `tolerant` puts an Unreachable in its place.
    """
    known = known_datasites(state)
    for name in parties:
        if name not in known:
            raise RequestError(f"no login for the datasite of {name}", remedy=ADD_LOGIN)
    wanted = parties or tuple(known)
    if not wanted:
        raise RequestError("no datasite is known yet", remedy=ADD_LOGIN)
    return {name: _connected(known[name], tolerant) for name in wanted}


def _connected(site: KnownDatasite, tolerant: bool) -> Datasite:
    from parties.datasite import connect

    try:
        return connect(site.url, site.email, site.password)
    except DatasiteError as error:
        if tolerant:
            return Unreachable(site.party, error)
        remedy = error.remedy or f"if its owner reset your account: {ADD_LOGIN}"
        raise DatasiteError(f"{site.party} at {site.url}: {error}", remedy=remedy) from error


def read_offers(
    sites: Mapping[str, Datasite], cards: Mapping[str, PartyCard] | None = None
) -> dict[str, Offer]:
    """What each datasite publishes, by party name; DatasiteError naming the party that can't be reached.

    `cards` are those of `login_cards`: with its card a party counts that publishes no block.
    """
    offers = {}
    for name, site in sites.items():
        with naming(name):
            offers[name] = read_offer(name, site.datasets(), (cards or {}).get(name))
    return offers


@contextmanager
def naming(party: str) -> Iterator[None]:
    """Puts the party's name in front of a DatasiteError that is raised inside the block."""
    try:
        yield
    except DatasiteError as error:
        raise DatasiteError(f"{party}: {error}", remedy=error.remedy) from error
