"""An alignment in which something breaks, with real supervisors and workers; only syft is played.

Whatever it is: both parties come to an end that says what to do, both logs tell how far it came and what was deleted,
the alignment counts once, and the same request can be started again and finds the right people.
"""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from parties.blocks.store import Store
from parties.control.asking import EXPLANATIONS
from protocols.audit import AuditEvent, AuditLog, Entry, verify
from protocols.psi.messages import PsiMatches, PsiResponse, PsiSetup
from protocols.wire import unpack_arrays
from tests.parties.commands.town import COMMON, HELD, Town, good, running_town, words_of
from tests.parties.running import held_worker
from tests.protocols.psi.traces import traces
from tests.waiting import until

pytestmark = pytest.mark.slow
PLAN = """
purpose = "feasibility"
computation = "align.pairs"
minimum_overlap = 20
[parties.bank]
role = "active"
block = "customers"
[parties.shop]
role = "passive"
block = "{}"
"""


class Alignment:
    """One approved and started pairing of the town, whose parties `hold` a kind of message each."""

    def __init__(self, town: Town, block: str = "visitors", **hold: type) -> None:
        self.town = town
        for state in (town.bank, town.shop):
            (state / held_worker.HOLD).unlink(missing_ok=True)
        for name, kind in hold.items():
            (town.folder / name / held_worker.HOLD).write_text(kind.__name__)
        plan = town.folder / "align.toml"
        plan.write_text(PLAN.format(block))
        self.digest = town.approved(plan)
        self.start()
        for name in hold:
            until((self.folder(name) / held_worker.HELD).exists, bool)

    def start(self, *more: str) -> str:
        return good("request", "start", self.digest, *more, "-s", self.town.ana).out

    def folder(self, name: str) -> Path:
        return self.town.folder / name / "runs" / f"{self.digest}-1"

    def worker(self, name: str) -> int:
        return int((self.folder(name) / "pid").read_text())

    def go(self, name: str) -> None:
        (self.folder(name) / held_worker.GO).touch()

    def ended(self, **states: str) -> str:
        """What the analyst reads once the run has ended like this at these parties."""
        until(lambda: self.town.states(self.digest), lambda found: states.items() <= found.items())
        return good("request", "status", self.digest, "-s", self.town.ana).out

    def entries(self, name: str, event: AuditEvent) -> list[Entry]:
        log = AuditLog(self.town.folder / name / "audit.jsonl", name)
        return [e for e in log.entries() if e.event is event and e.object == f"request {self.digest}"]

    def check_cut_short(self, name: str) -> None:
        """The log has one end of the alignment, which tells what was deleted; nothing half done is left."""
        until(lambda: len(self.entries(name, AuditEvent.PSI_FINISHED)), (1).__eq__)
        (end,) = self.entries(name, AuditEvent.PSI_FINISHED)
        assert str(dict(end.detail)["alignment"]).startswith("not told: the run ended first")
        deleted = [*self.entries(name, AuditEvent.TEMPORARY_DELETED), end]
        assert any("blinded sets" in str(dict(entry.detail).get("deleted")) for entry in deleted)
        left = {path.name for path in self.folder(name).iterdir()}
        assert not left & {"temporary", "artifacts.bin", "result.json"}

    def check_taken_up(self) -> None:
        """The request is started again, finds the common people, and has counted once; both logs are whole."""
        for name in ("bank", "shop"):
            self.check_cut_short(name)
            self.go(name)
        said = self.start("--watch")
        assert "next: fedaccord request result" in said, said
        found = {}
        for name in ("bank", "shop"):
            rows = unpack_arrays((self.folder(name) / "artifacts.bin").read_bytes())["rows.common"]
            keys = _keys(self.town.folder / f"{name}.csv")
            found[name] = [keys[row] for row in rows]
            used = [dict(e.detail)["used"] for e in self.entries(name, AuditEvent.PSI_STARTED)]
            assert len(used) == 2
            assert len(set(used)) == 1, "taking it up is no second alignment"
            verify(self.town.folder / name / "audit.jsonl")
            assert not (self.folder(name) / "private.seed").exists()
        assert found["bank"] == found["shop"]
        assert len(set(found["bank"])) == COMMON


def _keys(file: Path) -> list[str]:
    return [line.split(",")[0] for line in file.read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with running_town(tmp_path_factory.mktemp("town"), HELD, apart=True) as made:
        yield made


@pytest.mark.parametrize(
    ("killed", "other", "kind"), [("bank", "shop", PsiMatches), ("shop", "bank", PsiResponse)]
)
def test_a_killed_worker(town: Town, killed: str, other: str, kind: type) -> None:
    alignment = Alignment(town, **{killed: kind})
    os.kill(alignment.worker(killed), signal.SIGKILL)
    said = alignment.ended(**{killed: "INTERRUPTED", other: "FAILED"})
    assert f"{killed} INTERRUPTED worker_ended used 1 of 1 runs" in words_of(said)
    assert f"{other} FAILED peer_lost {killed} closed the link" in words_of(said)
    for reason in ("worker_ended", "peer_lost"):
        assert f"{reason}: {EXPLANATIONS[reason]}" in said
    assert "next: fedaccord request start" in said
    alignment.check_taken_up()


@pytest.mark.parametrize("how", ["kill", "end"])
def test_a_supervisor_that_is_killed_or_stopped(town: Town, how: str) -> None:
    """`end` is what Ctrl-C does."""
    alignment = Alignment(town, shop=PsiResponse)
    getattr(town.offices["bank"], how)()
    alignment.go("shop")
    until(lambda: len(alignment.entries("shop", AuditEvent.RUN_FAILED)), bool)
    (failed,) = alignment.entries("shop", AuditEvent.RUN_FAILED)
    assert dict(failed.detail)["detail"] == "bank stopped the run: interrupted"
    town.offices["bank"].serve()
    said = alignment.ended(bank="INTERRUPTED", shop="FAILED")
    assert f"interrupted: {EXPLANATIONS['interrupted']}" in said
    assert "next: fedaccord request start" in said
    alignment.check_taken_up()


def test_a_full_disk(town: Town) -> None:
    """Neither the shop's worker nor its supervisor can write a byte into a file until there is room again."""
    alignment = Alignment(town, shop=PsiSetup)
    office = town.offices["shop"].pid
    before = resource.prlimit(office, resource.RLIMIT_FSIZE)
    for pid in (office, alignment.worker("shop")):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        alignment.go("shop")
        said = alignment.ended(bank="FAILED", shop="REFUSED")
        assert "bank FAILED peer_stopped:disk_full" in words_of(said)
        assert f"shop REFUSED {EXPLANATIONS['disk_full']}" in words_of(said)
    finally:
        resource.prlimit(office, resource.RLIMIT_FSIZE, before)
    said = alignment.ended(bank="FAILED", shop="FAILED")
    assert "shop FAILED disk_full" in words_of(said)
    assert said.count(f"disk_full: {EXPLANATIONS['disk_full']}") == 1
    assert "next: fedaccord request start" in said
    alignment.check_taken_up()


def test_a_peer_that_falls_silent_and_comes_back(town: Town) -> None:
    (town.bank / held_worker.PATIENCE).write_text("15")
    alignment = Alignment(town, shop=PsiResponse)
    (town.bank / held_worker.PATIENCE).unlink()
    os.kill(alignment.worker("shop"), signal.SIGSTOP)
    try:
        said = alignment.ended(bank="FAILED")
    finally:
        os.kill(alignment.worker("shop"), signal.SIGCONT)
    assert "bank FAILED peer_timeout shop gave no sign of life for 15 s" in words_of(said)
    alignment.go("shop")
    said = alignment.ended(bank="FAILED", shop="FAILED")
    assert f"peer_timeout: {EXPLANATIONS['peer_timeout']}" in said
    assert "next: fedaccord request start" in said
    alignment.check_taken_up()


def test_nobody_in_common(town: Town) -> None:
    file = town.folder / "strangers.csv"
    file.write_text("\n".join(["person,visits", *(f"PERSON-X{n:02d},{n}" for n in range(30))]) + "\n")
    good("block", "add", file, "--name", "strangers", "--key", "person", "-s", town.shop)
    until(lambda: "strangers" in good("datasite", "show", "-s", town.ana).out, bool)
    alignment = Alignment(town, block="strangers")
    said = alignment.ended(bank="FAILED", shop="FAILED")
    assert f"overlap: {EXPLANATIONS['overlap']}" in said
    assert "next: when the cause is removed, ask with a new request" in said
    for name in ("bank", "shop"):
        alignment.check_cut_short(name)


def test_a_block_that_changed_between_two_alignments_is_shown_as_such(town: Town) -> None:
    first = Alignment(town)
    first.ended(bank="DONE", shop="DONE")
    lines = (town.folder / "shop.csv").read_text().splitlines()
    (town.folder / "less.csv").write_text("\n".join(lines[:-3]) + "\n")
    words = ("--name", "visitors", "--replace", "--key", "person", "--split", "split")
    good("block", "add", town.folder / "less.csv", *words, "-s", town.shop)
    now = Store(town.shop / "blocks").describe("visitors")
    assert now.version == 2
    until(lambda: "block visitors version 2" in good("datasite", "show", "-s", town.ana).out, bool)
    second = Alignment(town)
    second.ended(bank="DONE", shop="DONE")
    for name, whose in (("bank", "peer's set"), ("shop", "own set")):
        (entry,) = second.entries(name, AuditEvent.PSI_STARTED)
        said = str(dict(entry.detail)[whose])
        assert said.startswith("visitors v2")
        assert f"commitment {now.commitment[:16]}" in said
        assert said.endswith("changed since the last alignment")


def test_after_all_this_no_file_holds_a_key_but_the_blocks(town: Town) -> None:
    """Nor, of some keys, a plain hash or an encoding: in no log, paper, progress, run folder or printed line."""
    own = {f"PERSON-{group}{number:02d}".encode() for group in "CBS" for number in (1, 16)}
    wanted = [trace for key in own for trace in traces(key)]
    found, seen = [], set()
    for path in sorted(town.folder.rglob("*")):
        if not path.is_file() or path.suffix == ".csv":
            continue
        content = path.read_bytes()
        if path.is_relative_to(town.bank / "blocks") or path.is_relative_to(town.shop / "blocks"):
            seen |= {key for key in own if key in content}
        elif b"PERSON-" in content or any(trace in content for trace in wanted):
            found.append(path)
    assert not found
    assert seen == own, "the search finds what is there"
