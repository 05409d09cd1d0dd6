"""Where the example takes place: three state folders with exchanged cards, two datasites, the analyst's accounts."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from docs.example_run.people import BANK, RETAILER, ROLES, SEED
from parties.demo.sites import free_ports, free_range, served, wait_for, wait_until_ready
from parties.home.cards import card_fingerprint
from parties.home.state import State, init_analyst, init_party
from parties.roles import analyst
from parties.roles.owner import add_peer, add_user
from parties.syft_side.access import Datasite

ANALYST = "analyst"
EMAIL = "ana@lab.example.org"

Sites = Mapping[str, Datasite]


def make_states(folder: Path) -> dict[str, State]:
    """Three state folders; each party has accepted the other's card."""
    ports = free_ports(2)
    states = {
        BANK: init_party(
            folder / BANK, name=BANK, organisation="Example Bank", address=free_range(4), port=ports[0]
        ),
        RETAILER: init_party(
            folder / RETAILER, name=RETAILER, organisation="Example Retailer", port=ports[1]
        ),
        ANALYST: init_analyst(folder / ANALYST, name="ana", organisation="Example Lab"),
    }
    for here, there in ((BANK, RETAILER), (RETAILER, BANK)):
        other = states[there]
        add_peer(states[here], other.folder / "card.json", card_fingerprint(other.card()))
    return states


@contextmanager
def datasites(states: Mapping[str, State]) -> Iterator[None]:
    """Both datasites, up; their private seeds are injected, so that the twin can be compared."""
    with ExitStack() as stack:
        parties = {name: states[name] for name in ROLES}
        processes = {
            name: stack.enter_context(served(state, injected_seed=SEED)) for name, state in parties.items()
        }
        wait_until_ready(processes, parties)
        yield


def open_accounts(states: Mapping[str, State], folder: Path) -> Sites:
    """Both owners open an account for the analyst, who is logged in to both datasites when this returns."""
    card = states[ANALYST].folder / "card.json"
    fingerprint = card_fingerprint(states[ANALYST].card())
    for name in ROLES:
        login = folder / f"{name}-login.json"
        add_user(states[name], card, fingerprint, EMAIL, login)
        analyst.add_login(states[ANALYST], login)
    sites: dict[str, Datasite] = {}

    def logged_in() -> bool:
        sites.update(analyst.connect_all(states[ANALYST]))
        return bool(analyst.read_offers(sites))

    wait_for("the accounts and the published blocks", logged_in)
    return sites
