"""One run at one party: `python -m parties.running.worker RUN_FOLDER`.

The process reads `run.json`, meets the other party's worker, runs its role's program past the gate and leaves what
`parties.running.runspec` describes. It knows the link's key, the block it may read and its run folder; neither syft nor
the party's signing key. It stops at a word on stdin, at the end of stdin (its supervisor is gone) and at SIGTERM, and
says to its peer why; its exit status says how it ended.
"""

import hashlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from parties import catalog
from parties.computation import NO_DATA, Computation, Inputs
from parties.control.socket import call
from parties.home.disk import for_want_of_room
from parties.home.private_files import make_private_folder, write_json, write_private
from parties.links.connect import Connected, Connecting, peers_of
from parties.links.handshake import agreed_step, hello, led_step
from parties.running.checkpoints import KEPT, Checkpoints
from parties.running.drive import Driver, drive, largest_message, made_up
from parties.running.earlier import RELEASED, EarlierReleases
from parties.running.ending import End, ending
from parties.running.heads import Giving, HeadExchange
from parties.running.link_identity import link_identity
from parties.running.parting import Parting
from parties.running.passing import delete_passing, passing_at
from parties.running.pen import WorkerPen
from parties.running.progress import ProgressFile
from parties.running.releasing import Releasing
from parties.running.runspec import (
    ARTIFACTS_FILE,
    CHECKPOINTS,
    RESULT_FILE,
    SEED_FILE,
    TEMPORARY,
    TRAFFIC_FILE,
    ExitCode,
    State,
    load_spec,
)
from parties.running.stopping import StopFlag
from parties.running.traffic import Traffic
from parties.running.worker_tools import Tools, check_papers
from protocols import seeds, wire
from protocols.approval import check_expiry
from protocols.audit import AuditEvent
from protocols.errors import (
    FedaccordError,
    LinkError,
    StateError,
    Stopped,
)
from protocols.gate import Gate, ReleaseKey
from protocols.program import Checkpoint, Outcome, Program
from protocols.psi import Crew, aligned_roles, all_cores, crew_of
from protocols.request import parse_signed
from vertical.table import PartyData

_log = logging.getLogger(__name__)
BLINDED = "blinded sets and their exponents in memory"
"""What an alignment leaves nowhere else: it went with the helpers and the program, which have ended by then."""
ALIGNMENT_TAG = "alignment_tag"
"""The artifact, as bytes of text, in which a program that pairs people leaves the alignment's tag."""


def run(folder: Path, tools: Tools | None = None, *, stdin: int = 0) -> ExitCode:
    """Runs what `run.json` in the folder says, to one of its ends; nothing that goes wrong is raised."""
    stop = StopFlag()
    stop.on_signal()
    stop.watch(stdin)
    try:
        worker = Worker(folder, tools or Tools(), stop)
    except FedaccordError as problem:
        _log.error("%s (%s)", problem, problem.code)  # without run.json there is nobody else to tell
        return ExitCode.FAILED
    except OSError as problem:  # the first word of progress
        if not for_want_of_room(problem):
            raise
        _log.error("%s", problem)
        return ExitCode.DISK_FULL
    return worker.run()


class Worker:
    """The state of one run while it goes on."""

    def __init__(self, folder: Path, tools: Tools, stop: StopFlag) -> None:
        """Reads what the run is; ConfigError or RequestError when that can't be read."""
        self._folder = folder
        self._tools = tools
        self._stop = stop
        self._spec = load_spec(folder)
        self._request = parse_signed(self._spec.request).request
        self._earlier = EarlierReleases(Path(self._spec.state) / RELEASED)
        self._traffic = Traffic(entry.role for entry in peers_of(self._request, self._spec.role))
        self._pen = WorkerPen(self._spec, self._request, tools.now)
        self._progress = ProgressFile(folder, self._traffic)
        self._checkpoints: Checkpoints  # opened with the seed
        self._heads: HeadExchange  # made when all have met
        self._connected = Connected(links={}, peers=())
        self._gate: Gate | None = None
        self._aligned = not aligned_roles(self._request.manifest)  # or has nothing to align

    def run(self) -> ExitCode:
        """Works, and writes the end whatever it is."""
        try:
            with crew_of(self._spec.cores or all_cores()) as crew:
                self._work(crew)
            end = End(state=State.DONE)
        except Exception as problem:  # a run always ends in a state; the log gets the trace
            end = ending(self._stop.asked or problem)
            _log.error("%s: %s", end.reason, problem, exc_info=not isinstance(problem, FedaccordError))
        self._close(end.code)
        return self._end(end)

    def _work(self, crew: Crew) -> None:
        computation = check_papers(self._spec, self._request, self._tools)
        seed = self._seed()
        star = computation.star
        kept = KEPT if star is None else star.kept(self._request.parameters)
        self._checkpoints = Checkpoints(self._folder / CHECKPOINTS, seed, kept=kept)
        connecting = Connecting(self._spec, self._request, self._hello(), self._check, self._pen.turned_away)
        try:
            self._progress.phase("connect")
            inputs = Inputs(
                role=self._spec.role,
                settings=self._request,
                data=self._data(computation),
                seed=seed,
                observe=self._progress.observe,
                model=self._tools.open_model(self._spec, computation),
                crew=crew,
                identity=link_identity(self._spec, self._request) if star is not None else None,
            )
            program = _program(computation, inputs)
            kinds = computation.kinds()
        except BaseException as problem:
            connecting.give_up(problem)
            raise
        self._connected = connecting.finish(self._tools.now)
        self._stop.tell(self._close)
        for peer in self._connected.peers:
            self._pen.met(peer)
            self._progress.warn(peer.skew)
        step = self._step(computation)
        self._checkpoints.clear_after(step)
        used: Mapping[ReleaseKey, int] = {}
        if step:
            state, used = self._checkpoints.load(step)
            program.close()
            program = _program(computation, replace(inputs, resume=state))
        gate = self._gate = self._tools.gate(self._request, self._spec.role, used)
        self._heads = HeadExchange(
            self._connected.links,
            self._connected.peers,
            self._request,
            self._pen,
            Giving(sign=self._head, seconds=self._spec.heads_s, clock=time.monotonic),
        )
        driver = self._driver(computation, gate, kinds)
        outcome = drive(program, driver)
        if not self._connected.links:  # nobody was sent a message: the run counts from its release on
            self._ask("run_committed")
        self._finish(outcome, driver, computation, inputs.data.keys)

    def _check(self) -> None:
        """Raises the stop that was asked for, and ExpiredError from the request's date on: nobody agreed to more."""
        self._stop.check()
        check_expiry(self._request, self._tools.now())

    def _data(self, computation: Computation) -> PartyData:
        if computation.has_block(self._spec.role):
            return self._tools.open_data(self._spec, self._request)
        return NO_DATA

    def _step(self, computation: Computation) -> int:
        """From which checkpoint the program goes on, 0 for none."""
        own, peers = self._checkpoints.steps(), self._connected.peers
        if computation.star is None:
            return agreed_step(own, peers)
        if self._spec.role == computation.star.centre:
            return led_step(own, own)
        return led_step(own, {step for peer in peers for step in peer.held})

    def _seed(self) -> seeds.PrivateSeed:
        """The injected seed, the one that an earlier attempt of this run drew, or a new one."""
        path = self._folder / SEED_FILE
        if self._spec.seed:
            return bytes.fromhex(self._spec.seed)
        if not path.exists():
            write_private(path, seeds.draw())
        return path.read_bytes()

    def _hello(self) -> Callable[[], bytes]:
        """Makes this side's hello at the moment when it is sent: it says what our clock shows."""
        held = self._checkpoints.steps()
        digest, role, approvals, head = self._spec.digest, self._spec.role, self._spec.approvals, self._head()
        return lambda: hello(digest, role, approvals, head, held, self._tools.now())

    def _head(self) -> str:
        """The head of this party's log, signed by the supervisor: this process has no signing key."""
        return str(self._ask("sign_head").get("head"))

    def _ask(self, action: str) -> dict[str, object]:
        request = {"action": action, "digest": self._spec.digest, "run": self._spec.run}
        answer = call(Path(self._spec.state), request)
        if answer.get("ok") is not True:
            raise StateError(f"the supervisor refused {action}: {answer.get('error')}")
        return answer

    def _reserve(self, first: int, last: int) -> None:
        if first == 1:
            self._ask("run_committed")
        self._pen.reserve(first, last)

    def _driver(self, computation: Computation, gate: Gate, kinds: tuple[type[wire.Message], ...]) -> Driver:
        role, manifest, message_s = self._spec.role, self._request.manifest, self._spec.message_s
        if computation.star is not None and computation.star.is_spoke(role):
            # the centre may wait so long for each of the others first
            message_s *= len(self._request.parties)

        def save(checkpoint: Checkpoint) -> None:
            self._checkpoints.save(checkpoint, gate)
            self._heads.give()

        return Driver(
            links=self._connected.links,
            gate=gate,
            kinds=kinds,
            inbound_limits={peer: largest_message(manifest, peer, role) for peer in self._connected.links},
            reserve=self._reserve,
            traffic=self._traffic,
            take=self._heads.take,
            check=self._check,
            save=save,
            message_s=message_s,
        )

    def _finish(
        self, outcome: Outcome, driver: Driver, computation: Computation, keys: tuple[bytes, ...]
    ) -> None:
        """Writes what the run leaves, then exchanges closing heads: only with them is it DONE.

        The closing head covers the alignment and what was sent and received; what is held back and the end come after
        it. At the centre of a star those are left out with whom something went wrong: each is named in the log.
        """
        releasing = Releasing(
            outcome,
            keys,
            self._earlier,
            self._request,
            self._spec.role,
            self._spec.run,
            self._tools.now(),
        )
        write_private(self._folder / ARTIFACTS_FILE, wire.pack_arrays(dict(outcome.artifacts)))
        write_json(self._folder / TRAFFIC_FILE, {"releases": [asdict(use) for use in driver.gate.summary()]})
        if not self._aligned:
            tag = outcome.artifacts.get(ALIGNMENT_TAG)
            self._pen.aligned("" if tag is None else tag.tobytes().decode())
            self._aligned = True
        self._pen.program_finished(self._traffic)
        self._progress.phase("goodbye")
        shown = releasing.told(held_somewhere=self._part(driver, computation, releasing.held))
        self._pen.suppressed(shown)
        result = {
            "digest": self._spec.digest,
            "run": self._spec.run,
            "role": self._spec.role,
            "report": shown,
        }
        write_private(self._folder / RESULT_FILE, json.dumps(result, sort_keys=True, allow_nan=False))

    def _part(self, driver: Driver, computation: Computation, held: bool) -> bool:
        """Parts from all peers; whether this side or another holds back."""
        star = computation.star
        parting = Parting(
            links=self._connected.links,
            request=self._request,
            traffic=self._traffic,
            pen=self._pen,
            heads=self._heads,
            check=self._stop.check,
            held=held,
            may_miss=star is not None and star.centre == self._spec.role,
        )
        return parting.exchange(self._head(), driver.faults)

    def _close(self, code: str) -> None:
        for link in self._connected.links.values():
            link.close(code)

    def _end(self, end: End) -> ExitCode:
        """Deletes what passes, logs the end once, and says it last, so that whoever reads it finds all in place.

        What can't be logged or said here for want of room is left to the supervisor.
        """
        logged = True
        try:
            self._delete(end.state)
            if not self._aligned:
                self._pen.alignment_cut_short(end.reason, self._gate.summary() if self._gate else ())
            result = self._folder / RESULT_FILE
            released = hashlib.sha256(result.read_bytes()).hexdigest() if end.state is State.DONE else ""
            self._pen.end(end, self._traffic, released)
        except (OSError, FedaccordError) as problem:
            _log.exception("the end could not be recorded")
            logged = False
            end = end if end.state is not State.DONE else ending(problem)
        try:
            self._progress.end(end.state, end.reason, end.note, logged=logged)
        except OSError as problem:
            if not for_want_of_room(problem):
                raise
            _log.exception("the last word could not be written")
            return ExitCode.DISK_FULL
        return ExitCode[end.state.name]

    def _delete(self, state: State) -> None:
        """Deletes what passes, and logs what was there."""
        there = [*delete_passing(self._folder, passing_at(state))]
        if aligned_roles(self._request.manifest):
            there.append(BLINDED)
        if there:
            self._pen.write(AuditEvent.TEMPORARY_DELETED, deleted=", ".join(there))


def _program(computation: Computation, inputs: Inputs) -> Program[Outcome]:
    try:
        program = computation.program(inputs)
    except (LinkError, Stopped) as problem:
        raise made_up(problem) from problem
    catalog.one_thread()
    return program


def main(arguments: list[str]) -> int:
    """The command: one argument, the run folder."""
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    folder = Path(arguments[0]).resolve()
    tempfile.tempdir = os.environ["TMPDIR"] = str(make_private_folder(folder / TEMPORARY))
    return run(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
