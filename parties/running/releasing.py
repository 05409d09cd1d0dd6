"""What of a run's report is told: first by the disclosure rules, then after earlier releases and the peers' words."""

from collections.abc import Mapping
from datetime import datetime

from parties.running.earlier import PEER, EarlierReleases, Held, release_of, votes_in
from protocols.disclosure import releasable
from protocols.program import Json, Outcome
from protocols.request import ComputationRequest


class Releasing:
    """One run's release; to make it records what is told of the role's block, if it has one."""

    def __init__(
        self,
        outcome: Outcome,
        keys: tuple[bytes, ...],
        earlier: EarlierReleases,
        request: ComputationRequest,
        role: str,
        run: int,
        now: datetime,
    ) -> None:
        self._report, self._k = outcome.report, request.minimum_group
        self._released: Mapping[str, Json] = releasable(self._report, self._k)
        self._earlier, self._release = earlier, release_of(request, role, run, now)
        self._held = Held()
        if self._release is not None:
            votes = votes_in(self._released)
            self._held = earlier.compare(self._release, keys, outcome.people, self._k, votes)

    @property
    def held(self) -> bool:
        """Whether the peers must hold back too."""
        return bool(self._held.everything)

    def told(self, *, held_somewhere: bool) -> dict[str, Json]:
        """The report for the analyst, once it is known whether any party of the run holds back."""
        if held_somewhere and not self.held:
            self._held = Held(everything=PEER)
            if self._release is not None:
                self._earlier.hold(self._release)
        return self._held.of(self._released, self._report, self._k)
