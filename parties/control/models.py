"""The stored models of one party: which finished run a later request means, and whether it may still be used.

A model is the artifacts of a DONE run of a training. The request that uses it names the training request's digest; of
several runs the newest is meant, and the programs compare notes with the peer before anything else is sent.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from parties.control.endings import WITHDRAWN_FILE
from parties.control.runs import Ledger, RunState
from parties.control.workers import run_folder
from parties.home.documents import Documents, check_digest
from parties.home.state import State
from parties.running.runspec import ARTIFACTS_FILE
from protocols.errors import FedaccordError, ModelError
from protocols.request import ComputationRequest

ModelFits = Callable[[str, ComputationRequest], None]
"""Raises RequestError unless the request trains a model that the computation of this name uses."""
ModelUsedAlone = Callable[[ComputationRequest], bool]
"""Whether the request's party uses its part of the model by itself, whatever role it had in the training."""
ModelWanted = Callable[[ComputationRequest], str]
"""The digest of the training request whose model a request uses; "" when it uses none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """One party's part of a model: whose request it was trained for, by which of its runs, and where it lies."""

    digest: str
    run: int
    path: Path


class Models:
    """Looks models up in the ledger and the run folders; nothing is opened here."""

    def __init__(
        self, state: State, ledger: Ledger, wanted: ModelWanted, fits: ModelFits, alone: ModelUsedAlone
    ) -> None:
        self._state = state
        self._ledger = ledger
        self._wanted = wanted
        self._fits = fits
        self._alone = alone
        self._documents = Documents(state.folder)

    def check(self, request: ComputationRequest) -> None:
        """RequestError when the request names another one as its model that trains none; one that isn't here may yet
        come, and is looked for again at the start."""
        digest = self._wanted(request)
        if self._documents.knows(digest):
            self._fits(request.computation, self._documents.request(digest).request)

    def of(self, request: ComputationRequest) -> StoredModel | None:
        """The model that the request uses, None when it uses none.

        Raises ModelError when it isn't here, was withdrawn, or was trained between other parties; RequestError when the
        request that is named trains none.
        """
        digest = self._wanted(request)
        if not digest:
            return None
        found = self.find(digest)
        trained = self._documents.request(digest).request
        self._fits(request.computation, trained)
        if not self._same_parties(request, trained):
            raise ModelError(
                f"model {digest[:12]} was trained between other parties or in other roles than the request names",
                remedy="name the same parties in the same roles",
            )
        return found

    def find(self, digest: str) -> StoredModel:
        """The newest finished run of a training request. Raises ModelError when there is none that may be used."""
        try:
            row = self._ledger.find(check_digest(digest))
        except FedaccordError as error:
            raise ModelError(
                f"model {digest[:12]} is not known here", remedy="fedaccord model list"
            ) from error
        runs = self._ledger.done_runs(digest)
        if not runs:
            raise ModelError(
                f"model {digest[:12]}: no run of its request has finished here, it is {row.state}",
                remedy="train it first",
            )
        folder = run_folder(self._state.runs, digest, runs[-1])
        if row.state is RunState.REVOKED or (folder / WITHDRAWN_FILE).exists():
            raise ModelError(
                f"model {digest[:12]} was withdrawn: consent to its training ended",
                remedy="train again with a new request",
            )
        path = folder / ARTIFACTS_FILE
        if not path.is_file():
            raise ModelError(f"model {digest[:12]}: the files of its run are gone", remedy="train again")
        return StoredModel(digest=digest, run=runs[-1], path=path)

    def _same_parties(self, request: ComputationRequest, trained: ComputationRequest) -> bool:
        if self._alone(request):
            return set(_roster(request).values()) <= set(_roster(trained).values())
        return _roster(trained) == _roster(request)

    def users(self, digest: str) -> tuple[str, ...]:
        """Digests of the requests that are running now and use the model of this training request.

        One whose paper can't be read is among them: nobody can say that it doesn't.
        """
        running = dict.fromkeys(running for running, _ in self._ledger.running())
        return tuple(each for each in running if each != digest and self._may_use(each, digest))

    def _may_use(self, running: str, digest: str) -> bool:
        try:
            return self._wanted(self._documents.request(running).request) == digest
        except FedaccordError as error:
            print(f"WARNING: what request {running} uses can't be read: {error}", file=sys.stderr)
            return True


def _roster(request: ComputationRequest) -> dict[str, tuple[str, str]]:
    return {entry.role: (entry.name, entry.signing_key) for entry in request.parties}
