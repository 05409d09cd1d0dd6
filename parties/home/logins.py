"""Where an analyst logs in: one syft server per party, with its account, in a file of mode 0600."""

from dataclasses import asdict, dataclass

from parties.home.cards import check_name
from parties.home.private_files import check_private, read_json, write_json
from parties.home.state import State
from protocols.errors import StateError

REMEDY = "remove the entry and give the login file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDatasite:
    """What an analyst needs to log in to a party's syft server.

    `card` is the text of the party's card: the only place to have it from where a party publishes no block.
    """

    party: str
    url: str
    email: str
    password: str
    card: str = ""


def known_datasites(state: State) -> dict[str, KnownDatasite]:
    """The datasites an analyst can log in to, by party name; StateError naming what is wrong in datasites.json."""
    path = state.folder / "datasites.json"
    if not path.exists():
        return {}
    check_private(path)
    found = {}
    for party, value in read_json(path).items():
        if not isinstance(value, dict):
            raise StateError(f"{path}: {party} is not an object", remedy=REMEDY)
        texts = {name: value.get(name) for name in ("url", "email", "password")}
        lacking = [name for name, text in texts.items() if not isinstance(text, str)]
        if lacking:
            raise StateError(f"{path}: {party} has no text for {', '.join(lacking)}", remedy=REMEDY)
        card = value.get("card", "")
        texts["card"] = card if isinstance(card, str) else ""
        found[party] = KnownDatasite(party=party, **{name: str(text) for name, text in texts.items()})
    return found


def add_datasite(state: State, site: KnownDatasite) -> None:
    """Remembers (or replaces) the login of one datasite, in a file of mode 0600."""
    check_name(site.party)
    sites = {**known_datasites(state), site.party: site}
    write_json(state.folder / "datasites.json", {party: asdict(known) for party, known in sites.items()})
