"""Asking the supervisor of a state folder, with a refusal raised as an error of ours."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from parties.control.socket import Answer, call
from protocols.errors import FedaccordError

POLL = 0.2  # seconds between two looks at a task


class Refusal(FedaccordError):
    """The supervisor or a datasite refused; `reason` is its typed code, `answer` all that it said."""

    code: ClassVar[str] = "refused"

    def __init__(self, message: str, *, reason: str, answer: Mapping[str, object], remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason
        self.answer = answer


def ask(folder: Path, action: str, *, timeout: float = 60.0, **fields: object) -> Answer:
    """The supervisor's answer to one action. Raises StateError when none runs, Refusal when it refuses."""
    answer = call(folder, {"action": action, **fields}, timeout)
    return accepted(answer, "the supervisor")


def accepted(answer: Answer, who: str) -> Answer:
    """The answer, if it isn't a refusal; else Refusal naming who refused and why."""
    if answer.get("ok") is True:
        return answer
    code = str(answer.get("error", "internal"))
    message = str(answer.get("message") or explained(code, answer))
    raise Refusal(f"{who}: {message}", reason=code, answer=answer, remedy=str(answer.get("remedy", "")))


def task_end(
    folder: Path, kind: str, about: str, seconds: float, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[str, str]:
    """State and problems of the steward's newest task about a block, an e-mail or a digest, once it isn't queued.

    "queued" when it still is after `seconds`: the syft server isn't up, or busy. Raises like `ask`.
    """
    end = time.monotonic() + seconds
    while True:
        answer = ask(folder, "task_state", kind=kind, about=about)
        if answer["state"] != "queued" or time.monotonic() >= end:
            return str(answer["state"]), str(answer["problems"])
        sleep(POLL)


def explained(code: str, answer: Mapping[str, object]) -> str:
    """What a refusal's code means; datasites send codes only."""
    text = EXPLANATIONS.get(code, f"refused ({code})")
    if code == "runs_used" and "used" in answer:
        text = f"used {answer['used']} of {answer['allowed']} runs"
    if code == "alignments_used" and "used" in answer:
        text = f"{text}: used {answer['used']} of {answer['allowed']}"
    if code == "state" and answer.get("state"):
        text = f"the request is {answer['state']} there, which doesn't allow that (see `fedaccord request status`)"
    return f"{text}: {answer['reason']}" if answer.get("reason") else text


EXPLANATIONS = {
    "action": "it doesn't know this action",
    "alignments_used": "no alignment is left of those that this party allows with the other one",
    "approval": "an approval is malformed, altered or for another request",
    "audit": "its audit log can't be written or is damaged; its owner has to mend that first",
    "block": "a data block was replaced or its content has changed; ask with a new request",
    "cancelled": "the run was cancelled",
    "code_digest": "its code is another release than the request names",
    "config": "its policy or address book can't be used as it is; its owner has to mend that first",
    "data_missing": "a block or column of the request isn't there",
    "datasite": "the datasite can't serve the call",
    "disk_full": "the disk of its state folder is full; once its owner has made room, the run can be "
    "started again",
    "expired": "the request has expired; ask with a new one",
    "gate": "a message was not covered by the manifest, and was stopped",
    "helper_lost": "a process that did a part of the alignment's work was ended there, mostly for want "
    "of memory; the run can be started again",
    "internal": "an internal error; the owner's log has the details",
    "interrupted": "its datasite stopped; once it serves again, the run can be started again",
    "link": "the connection between the parties failed; the run can be started again",
    "model": "the trained model that the request names isn't there, is incomplete or was withdrawn; one whose memory "
    "was deleted predicts for common people alone, when that is asked for",
    "not_approved": "the request isn't approved there",
    "overlap": "fewer people are common than the request asks for, or none: compare key columns and "
    "key rules",
    "peer_lost": "its connection to the other party ended without a word; the run can be started again",
    "peer_refused": "the other party's worker couldn't be reached or didn't accept it: both must be "
    "served and start together",
    "peer_timeout": "the other party was silent for too long; once it answers, the run can be started again",
    "policy": "its policy forbids the request: the purpose, who asks, a column or a setting",
    "port_in_use": "no free port to listen for the other party's worker",
    "protocol": "a program broke the rules of the conversation, or sent what can't be",
    "request": "the request isn't known there, or isn't yours",
    "revoked": "the request was revoked or denied for good",
    "roster": "the roster differs from its address book (unknown peer, key, certificate or address)",
    "runs_used": "all runs of the request are used",
    "state": "the request isn't in the state for that",
    "subject_key": "keys of its block are missing or repeated",
    "wire": "a message could not be read",
    "worker_ended": "its worker process was killed or crashed; the run can be started again",
}
"""What the codes of refusals, and the reasons of a run's end, mean to an analyst."""
