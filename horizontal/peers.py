"""How an aggregator speaks with many clients, of whom any may fail, be late, lie or go away at any moment.

An error with one client, which a driver raises where the program sends to it or waits for it, costs this client the
round and nobody else anything. A client that is gone (its link is lost, its party has stopped) isn't asked again. One
that was only late is left alone until its answer has come, which is thrown away, and is asked again after that: so
nothing piles up at a slow client, and the others wait for it once and not in every round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

from horizontal.average import Arrays, Contribution, UpdateError, check_contribution
from horizontal.messages import Broadcast, Turn, Update
from protocols.errors import (
    PEER_FAULTS,
    FedaccordError,
    LinkError,
    PeerStopped,
    PeerTimeout,
    ProtocolError,
)
from protocols.program import Deadline, Effect, Send, receive

T = TypeVar("T", bound=Turn)
Answers = tuple[list[Contribution], dict[str, str]]
"""Usable contributions, and a code for each other client that was asked."""
_MOMENT = Deadline(0.001)
"""For what has come already."""


class Peers:
    """The clients of a run: who is gone and why, and what kind of answer each still owes."""

    def __init__(
        self,
        clients: Sequence[str],
        maximum_examples: int,
        check: Callable[[Contribution], None],
        deadline_s: float = 0.0,
    ) -> None:
        """`check` raises UpdateError for values that a method can't use; the answers to one message are waited for
        until `deadline_s` seconds after it was sent first (0: each as long as the driver waits)."""
        self.clients = tuple(clients)
        self.gone: dict[str, str] = {}
        self._owes: dict[str, type[Turn]] = {}
        self._maximum, self._check = maximum_examples, check
        self._deadline = Deadline(deadline_s)

    @property
    def present(self) -> list[str]:
        """The clients that can be asked, in the given order."""
        return [client for client in self.clients if client not in self.gone]

    def free(self) -> Generator[Effect, object, list[str]]:
        """The clients that can be asked now: those present that owe no answer. One that has come is thrown away."""
        if self._owes:
            yield _MOMENT
            yield from self._hear_owed()
        return [client for client in self.present if client not in self._owes]

    def ask(
        self, chosen: Sequence[str], message: Broadcast, model: Arrays, extras: Arrays
    ) -> Generator[Effect, object, Answers]:
        """One round trip with the chosen clients: each answer must have the layouts of `model` and `extras`."""
        updates, failures = yield from self.exchange(chosen, message, Update)
        used: list[Contribution] = []
        for client, update in updates.items():
            result = self._checked(client, update, model, extras)
            if isinstance(result, str):
                failures[client] = result
            else:
                used.append(result)
        return used, in_order(chosen, failures)

    def exchange(
        self, chosen: Sequence[str], message: Turn, kind: type[T]
    ) -> Generator[Effect, object, tuple[dict[str, T], dict[str, str]]]:
        """One round trip: the answers of this kind by client, and a code for each that gave none."""
        answers: dict[str, T] = {}
        failures: dict[str, str] = {}
        asked = []
        yield self._deadline
        for client in chosen:
            code = yield from self.tell(client, message)
            if code:
                failures[client] = code
            else:
                asked.append(client)
            # of a message that wasn't read in time the answer may still come
            if code in ("", PeerTimeout.code):
                self._owes[client] = kind
        for client in asked:
            answer = yield from self._answer(client, kind)
            if isinstance(answer, str):
                failures[client] = answer
            elif answer.topic != message.topic:
                failures[client] = ProtocolError.code
            else:
                answers[client] = answer
        return answers, in_order(chosen, failures)

    def leave_out(self, client: str, code: str) -> None:
        """Asks this client nothing any more, and waits for nothing of it."""
        self.gone.setdefault(client, code)
        self._owes.pop(client, None)

    def tell(self, client: str, message: Turn) -> Generator[Effect, object, str]:
        """Sends it; "" or the code of what went wrong."""
        try:
            yield Send(client, message)
        except (LinkError, PeerStopped) as problem:
            return self._note(client, problem)
        return ""

    def settle(self) -> Generator[Effect, object, None]:
        """Waits for what clients still owe from rounds in which they were late, so that nothing stays unread.

        One that doesn't answer now either is gone.
        """
        if self._owes:
            yield self._deadline
            yield from self._hear_owed()
        for client in tuple(self._owes):
            self.leave_out(client, PeerTimeout.code)

    def _hear_owed(self) -> Generator[Effect, object, None]:
        """Takes what is owed by those who have answered by now; nobody uses it any more."""
        for client, kind in tuple(self._owes.items()):
            yield from self._answer(client, kind)

    def _answer(self, client: str, kind: type[T]) -> Generator[Effect, object, T | str]:
        """The answer that the client owes, or a code; after a timeout it still owes it."""
        try:
            answer: T | str = yield from receive(client, kind)
        except PEER_FAULTS as problem:
            if isinstance(problem, PeerTimeout):
                return problem.code
            answer = self._note(client, problem)
        self._owes.pop(client, None)
        return answer

    def _checked(self, client: str, update: Update, model: Arrays, extras: Arrays) -> Contribution | str:
        if update.failure:
            return failure_code(update.failure)
        try:
            contribution = Contribution(
                client=client,
                examples=update.examples,
                arrays=update.arrays(),
                extras=update.extra_arrays(),
            )
            check_contribution(contribution, model, extras)
            if update.examples > self._maximum:
                raise UpdateError(f"{client}: {update.examples} rows, at most {self._maximum} are believed")
            self._check(contribution)
        except FedaccordError as problem:
            return problem.code
        return contribution

    def _note(self, client: str, problem: FedaccordError) -> str:
        if isinstance(problem, (LinkError, PeerStopped)) and not isinstance(problem, PeerTimeout):
            self.gone[client] = problem.code
            self._owes.pop(client, None)
        return problem.code


def failure_code(failure: str) -> str:
    """The code that a client gave, or \"unknown\"."""
    # It comes from another machine: only something shaped like a code may reach our report.
    return failure if re.fullmatch(r"[a-z][a-z_]{0,39}", failure) else "unknown"


def in_order(clients: Sequence[str], failures: Mapping[str, str]) -> dict[str, str]:
    """The failures in the order of the clients."""
    return {client: failures[client] for client in clients if client in failures}


def failed_text(failures: Mapping[str, str]) -> str:
    """The failures as the end of a sentence, or ""."""
    return "; failed: " + ", ".join(f"{c} ({code})" for c, code in failures.items()) if failures else ""
