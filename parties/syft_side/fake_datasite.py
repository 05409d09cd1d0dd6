"""A datasite in memory, for tests and rehearsals; it passes the same test body as the one over syft.

Its owner's decisions are made by calling `approve` and `deny`; calls of an approved request go to `answer`, the
place of the supervisor's socket.
"""

from collections.abc import Callable, Mapping

from parties.shim import ACTIONS, REFUSAL_FIELDS, digest_of, refusal
from parties.syft_side.access import Decision, Standing, not_approved
from parties.syft_side.publication import Publication, description, parse_description
from protocols.errors import DatasiteError

Answer = Callable[[Mapping[str, object]], Mapping[str, object]]


class FakeDatasite:
    """A `Datasite` of one analyst without a server; `caller` stands for the analyst's verify key."""

    def __init__(self, name: str, answer: Answer, *, caller: str = "ab" * 32) -> None:
        self._name = name
        self._answer = answer
        self._caller = caller
        self._published: dict[str, Publication] = {}
        self._signed: dict[str, str] = {}
        self._decisions: dict[str, Decision] = {}

    @property
    def name(self) -> str:
        """The datasite's own name."""
        return self._name

    def publish(self, publication: Publication) -> None:
        """Publishes a block, by way of its text form as on a server."""
        copy = parse_description(description(publication), publication.mock.copy())
        self._published[publication.name] = copy

    def datasets(self) -> tuple[Publication, ...]:
        """The published blocks by name."""
        return tuple(publication for _, publication in sorted(self._published.items()))

    def submit(self, signed: str) -> str:
        """Keeps the signed request as pending; once."""
        digest = digest_of(signed)
        if digest not in self._signed:
            self._signed[digest] = signed
            self._decisions[digest] = Decision(standing=Standing.PENDING)
        return digest

    def submitted(self) -> tuple[str, ...]:
        """The signed requests' texts, in the order in which they came."""
        return tuple(self._signed.values())

    def approve(self, digest: str) -> None:
        """The owner approves."""
        self._decide(digest, Decision(standing=Standing.APPROVED))

    def deny(self, digest: str, reason: str) -> None:
        """The owner denies, also after an approval."""
        self._decide(digest, Decision(standing=Standing.DENIED, reason=reason))

    def decision(self, digest: str) -> Decision:
        """How the request stands here."""
        return self._decisions.get(digest, Decision(standing=Standing.ABSENT))

    def call(self, digest: str, action: str, argument: str = "") -> dict[str, object]:
        """The answer of `answer`, reduced as the shim reduces the supervisor's."""
        decision = self.decision(digest)
        if decision.standing is not Standing.APPROVED:
            return not_approved(decision)
        if action not in ACTIONS:
            return refusal("action")
        question = {
            "action": "call",
            "request": digest,
            "call": action,
            "argument": argument,
            "caller": self._caller,
        }
        answer = dict(self._answer(question))
        if answer.get("ok") is True:
            return answer
        detail = {name: answer[name] for name in REFUSAL_FIELDS if name in answer}
        return refusal(str(answer.get("error", "internal")), **detail)

    def _decide(self, digest: str, decision: Decision) -> None:
        if digest not in self._decisions:
            raise DatasiteError(f"request {digest[:12]} was never submitted here")
        self._decisions[digest] = decision
