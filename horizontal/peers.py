"""How an aggregator speaks with many clients, of whom any may fail, be late, lie or go away at any moment.

An error with one client, which a driver raises where the program sends to it or waits for it, costs this client the
round and nobody else anything. A client that is gone (its link is lost, its party has stopped) isn't asked again; one
that was only late is, and what it still owes from an earlier round is skipped when it comes.
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


class Peers:
    """The clients of a run: who is gone and why, and how many answers each still owes."""

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
        self._owed = dict.fromkeys(clients, 0)
        self._maximum, self._check = maximum_examples, check
        self._deadline = Deadline(deadline_s)

    @property
    def present(self) -> list[str]:
        """The clients that can be asked, in the given order."""
        return [client for client in self.clients if client not in self.gone]

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
            if code := (yield from self.tell(client, message)):
                failures[client] = code
            else:
                asked.append(client)
                self._owed[client] += 1
        for client in asked:
            answer = yield from self._answer(client, message, kind)
            if isinstance(answer, str):
                failures[client] = answer
            else:
                answers[client] = answer
        return answers, in_order(chosen, failures)

    def leave_out(self, client: str, code: str) -> None:
        """Asks this client nothing any more."""
        self.gone.setdefault(client, code)

    def tell(self, client: str, message: Turn) -> Generator[Effect, object, str]:
        """Sends it; "" or the code of what went wrong."""
        try:
            yield Send(client, message)
        except (LinkError, PeerStopped) as problem:
            return self._note(client, problem)
        return ""

    def settle(self, kind: type[Turn] = Update) -> Generator[Effect, object, None]:
        """Waits for what present clients still owe from rounds in which they were late, so that nothing stays unread.

        One that doesn't answer now either is gone.
        """
        yield self._deadline
        for client in self.present:
            while self._owed[client]:
                try:
                    yield from receive(client, kind)
                except PEER_FAULTS as problem:
                    self.gone[client] = problem.code
                    break
                self._owed[client] -= 1

    def _answer(self, client: str, message: Turn, kind: type[T]) -> Generator[Effect, object, T | str]:
        """The client's answer to this message, past any that it owed to earlier ones; or a code."""
        while True:
            try:
                answer = yield from receive(client, kind)
            except PEER_FAULTS as problem:
                if not isinstance(
                    problem, LinkError
                ):  # it has come, but could not be read; else it may come late
                    self._owed[client] -= 1
                return self._note(client, problem)
            self._owed[client] -= 1
            if answer.topic == message.topic:
                return answer
            if self._owed[client] < 1:
                return ProtocolError.code

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
