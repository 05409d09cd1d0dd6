"""The shim: the only code that an owner approves in syft, and the thin client of the supervisor that it calls.

An analyst submits four lines of text, the same for every request but for the request's digest. They run in the syft
process, which knows no party key: `dispatch` hands digest, action and argument to the supervisor's socket, and
everything that matters (approvals, counters, expiry, spawning) is decided there. Who calls is read from syft's own
frames, and the code that is being run is compared with the template once more.
"""

import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from parties.control.socket import call as call_supervisor
from protocols.errors import DatasiteError, RequestError, to_wire
from protocols.request import digest as request_digest
from protocols.request import parse_signed

ARGUMENTS = ("request", "action", "argument")
"""The shim's parameters: the signed request is pinned by a policy, the two others are the analyst's."""
ACTIONS = ("start", "status", "cancel", "result")
EXECUTION_LIMIT = 1_000_000
"""syft doesn't enforce it; the count that holds is the supervisor's. A number that can be compared."""
STATE_VARIABLE = "FEDACCORD_STATE"
"""Environment variable by which the launcher tells the syft process where the state folder is."""
ANSWER_LIMIT = 1 << 20
"""Bytes of one answer: syft keeps every result for ever, so an answer holds released numbers and nothing else."""
REFUSAL_FIELDS = ("used", "allowed", "state")
"""What of a refusal may reach the analyst beside its code; never a message, which is for the owner's log."""
SYFT_FRAME = ("syft.service.code.user_code", "execute_byte_code")

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def function_name(digest: str) -> str:
    """Name of the shim for the request of this digest (64 hex digits); RequestError for anything else."""
    if not _DIGEST.match(digest):
        raise RequestError("a request digest has 64 hex digits")
    return f"run_{digest}"


def source(digest: str) -> str:
    """The shim's exact text for the request of this digest."""
    return (
        f"def {function_name(digest)}(request, action, argument):\n"
        f"    # fedaccord shim, version 1: the signed request {digest} and nothing else\n"
        f"    import parties.shim\n"
        f"    return parties.shim.dispatch(request, action, argument)\n"
    )


def digest_of(signed: str) -> str:
    """Digest of the request in a signed request's text, the analyst's signature verified. Raises RequestError."""
    return request_digest(parse_signed(signed).request)


def refusal(code: str, **detail: object) -> dict[str, object]:
    """The answer that a call was refused, with its typed code."""
    return {"ok": False, "error": code, **detail}


def dispatch(request: str, action: str, argument: str) -> dict[str, object]:
    """The supervisor's answer to one call of the shim, as a small plain dict; never raises.

    `request` is the signed request's text, `action` one of ACTIONS, `argument` the action's argument as text. A
    refusal is {"ok": False, "error": code}: syft would hide the text of an exception, and ours is for the owner's log.
    """
    try:
        return _small(_ask(request, action, argument))
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: the analyst gets a code, the owner's log the trace.
        traceback.print_exception(error)
        return refusal(to_wire(error))


def _ask(request: str, action: str, argument: str) -> dict[str, object]:
    if not (type(request) is type(action) is type(argument) is str):
        raise RequestError("the shim takes three texts")
    if action not in ACTIONS:
        return refusal("action")
    digest = digest_of(request)
    caller = calling_key(digest)
    question: dict[str, object] = {
        "action": "call",
        "request": digest,
        "call": action,
        "argument": argument,
        "caller": caller,
    }
    answer = call_supervisor(_state_folder(), question)
    if answer.get("ok") is True:
        return answer
    detail = {name: answer[name] for name in REFUSAL_FIELDS if name in answer}
    return refusal(str(answer.get("error", "internal")), **detail)


def calling_key(digest: str, frame: Callable[[], FrameType | None] = sys._getframe) -> str:
    """Verify key (hex) of the analyst whose call runs here, read from syft's frame further up the stack.

    Raises DatasiteError when there is no such frame, when the code that syft runs isn't the shim of this digest, or
    when the caller isn't its author: then nothing is passed on.
    """
    found = frame()
    while found is not None and (found.f_globals.get("__name__"), found.f_code.co_name) != SYFT_FRAME:
        found = found.f_back
    if found is None:
        raise DatasiteError("the shim wasn't called by syft", remedy="call it through a datasite")
    code, context = found.f_locals.get("code_item"), found.f_locals.get("context")
    if getattr(code, "raw_code", None) != source(digest) or getattr(
        code, "service_func_name", None
    ) != function_name(digest):
        raise DatasiteError(f"syft runs other code than the shim of request {digest[:12]}")
    author, caller = getattr(code, "user_verify_key", None), getattr(context, "credentials", None)
    if author is None or caller is None or str(author) != str(caller) or not _DIGEST.match(str(caller)):
        raise DatasiteError(f"the shim of request {digest[:12]} was called by somebody else than its author")
    return str(caller)


def _state_folder() -> Path:
    folder = os.environ.get(STATE_VARIABLE)
    if not folder:
        raise DatasiteError(
            f"{STATE_VARIABLE} is not set in the syft process", remedy="start it with the launcher"
        )
    return Path(folder)


def _small(answer: dict[str, object]) -> dict[str, object]:
    """A copy of plain JSON values only; DatasiteError when it is larger than an answer may be."""
    text = json.dumps(answer, allow_nan=False)
    if len(text) > ANSWER_LIMIT:
        raise DatasiteError(f"an answer of {len(text)} bytes, at most {ANSWER_LIMIT} may go through syft")
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise DatasiteError("the supervisor's answer is not an object")
    return plain
