"""Three clients and an aggregator of `horizontal.train`, on small tables, over memory links."""

from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from parties import catalog
from parties.computation import NO_DATA, Inputs, Parameters
from parties.links.link import Link
from parties.links.memory_link import MemoryLink
from parties.roles.simulating import LocalSettings, simulate_run
from parties.running.drive import Driver, drive, largest_message
from parties.running.traffic import Traffic
from protocols.errors import PeerTimeout, to_wire
from protocols.gate import Gate
from protocols.masking import identities
from protocols.program import Checkpoint, Outcome, Program
from protocols.seeds import injected
from vertical.table import CategoricalColumn, NumericColumn, PartyData, Table

TRAIN = catalog.CATALOG["horizontal.train"]
AGGREGATOR = "aggregator"
CLIENTS = ("client-1", "client-2", "client-3")
SEED = 3
PATIENCE_S = 120.0
"""For a message that does come, however busy the machine is."""
WHO = identities((AGGREGATOR, *CLIENTS, "client-4"))
FEATURES = {"age": [20, 80], "dose": [-3, 3], "sex": ["f", "m"]}
SHORT: Mapping[str, object] = {
    "features": FEATURES,
    "classes": ["ill", "well"],
    "hidden": [6],
    "rounds": 5,
    "epochs": 2,
    "batch": 16,
}


def ward(seed: int, rows: int = 60, share: float = 0.5) -> PartyData:
    """A client's block: of its rows a share is ill, some have no label, and every fifth is a test row."""
    generator = np.random.default_rng(seed)
    label = (generator.random(rows) >= share).astype(np.int64)
    age = 40 + 15 * label + generator.normal(0, 8, rows)
    dose = generator.normal(0, 1, rows) - label
    age[::11] = np.nan
    table = Table(
        (
            NumericColumn(name="age", values=age),
            NumericColumn(name="dose", values=dose),
            CategoricalColumn(
                name="sex", codes=generator.integers(-1, 2, rows).astype(np.int32), levels=("m", "f")
            ),
        )
    )
    split = np.where(np.arange(rows) % 5 == 0, 2, 0).astype(np.uint8)
    label[::17] = -1
    keys = tuple(f"{seed}-{row}".encode() for row in range(rows))
    return PartyData(keys=keys, table=table, split=split, labels=label, classes=("ill", "well"))


DATA = {"client-1": ward(1, 60, 0.8), "client-2": ward(2, 45, 0.3), "client-3": ward(3, 30, 0.5)}
FOUR = {**DATA, "client-4": ward(4, 40)}


def parameters(**changes: object) -> Parameters:
    """Complete parameters of a short run."""
    return TRAIN.parameters({**SHORT, **changes}, 10)


def settings(given: Parameters, blocks: Mapping[str, PartyData] = DATA) -> LocalSettings:
    """What the programs need of a request."""
    rows = {role: data.table.rows for role, data in blocks.items()}
    return LocalSettings(parameters=given, public_seed=SEED, minimum_overlap=10, rows=rows)


def simulated(given: Parameters, changed: Mapping[str, PartyData] | None = None) -> dict[str, Outcome]:
    """The outcomes of the same programs in one thread, with other data for some clients."""
    data = {**DATA, **(changed or {})}
    return simulate_run(TRAIN, settings(given), data, lambda progress: None, private_seed=SEED)


def program(
    role: str,
    given: Parameters,
    resume: Mapping[str, object] | None = None,
    blocks: Mapping[str, PartyData] = DATA,
) -> Program[Outcome]:
    """A role's program."""
    return TRAIN.program(
        Inputs(
            role=role,
            settings=settings(given, blocks),
            data=blocks.get(role, NO_DATA),
            seed=injected(SEED, role),
            observe=lambda progress: None,
            resume=resume,  # type: ignore[arg-type]
            identity=WHO[role],
        )
    )


class Impatient(Link):
    """The aggregator's end of a link: waits of these numbers find nothing, others what comes; keeps all bytes."""

    def __init__(self, link: Link, without: Container[int], received: list[bytes]) -> None:
        self._link, self._without, self._received, self._waits = link, without, received, 0

    @property
    def peer(self) -> str:
        return self._link.peer

    def send(self, data: bytes) -> None:
        self._link.send(data)

    def receive(self, timeout: float) -> bytes:
        self._waits += 1
        if self._waits in self._without:
            raise PeerTimeout(f"{self.peer} sent no message in time")
        data = self._link.receive(PATIENCE_S)
        self._received.append(data)
        return data

    def close(self, code: str = "") -> None:
        self._link.close(code)


@dataclass
class Wards:
    """One run over memory links; what `changed` has for a role is done in its place, at its end of its link.

    The aggregator gives up its waits of these numbers (from 1) for a client in `impatient`, as if time had run out;
    `received` is all that came to it from each.
    """

    given: Parameters
    impatient: Mapping[str, Container[int]] = field(default_factory=dict)
    changed: Mapping[str, Callable[[Link], object]] = field(default_factory=dict)
    blocks: Mapping[str, PartyData] = field(default_factory=lambda: DATA)
    saved: dict[str, list[Checkpoint]] = field(default_factory=dict)
    received: dict[str, list[bytes]] = field(default_factory=dict)
    drivers: dict[str, Driver] = field(default_factory=dict)

    def run(self, resume: Mapping[str, Mapping[str, object]] | None = None) -> dict[str, object]:
        """The outcome of each role, or what it raised; a side that fails tells its peers the code."""
        links: dict[str, dict[str, Link]] = {role: {} for role in (AGGREGATOR, *self.blocks)}
        for client in self.blocks:
            here, links[client][AGGREGATOR] = MemoryLink.pair(AGGREGATOR, client)
            kept = self.received.setdefault(client, [])
            links[AGGREGATOR][client] = Impatient(here, self.impatient.get(client, ()), kept)
        with ThreadPoolExecutor(len(links)) as pool:
            running = {
                role: pool.submit(self._one, role, links[role], (resume or {}).get(role)) for role in links
            }
            return {role: done.result() for role, done in running.items()}

    def _one(self, role: str, links: Mapping[str, Link], resume: Mapping[str, object] | None) -> object:
        if role in self.changed:
            return self.changed[role](links[AGGREGATOR])
        manifest = TRAIN.manifest(self.given, settings(self.given, self.blocks).rows)
        driver = self.drivers[role] = Driver(
            links=links,
            gate=Gate(manifest, role),
            kinds=TRAIN.kinds(),
            inbound_limits={peer: largest_message(manifest, peer, role) for peer in links},
            reserve=lambda first, last: None,
            traffic=Traffic(links),
            save=self.saved.setdefault(role, []).append,
            message_s=PATIENCE_S,
        )
        try:
            return drive(program(role, self.given, resume, self.blocks), driver)
        except Exception as problem:
            for link in links.values():
                link.close(to_wire(problem))
            return problem
