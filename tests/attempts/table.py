"""Every way to try to run what mustn't run, at every place where it can be tried: one table, one line each.

A cell is either a refusal, the code with which it must be refused and logged, or the reason why it can't be tried
there. `test_attempts.py` makes the attempts over the real supervisor and the real handshake, and
`tests/full_path/test_refused_attempts.py` those through syft; both go through this table, so that no cell is left out.
"""

from enum import StrEnum

import pytest
from _pytest.mark.structures import ParameterSet


class Way(StrEnum):
    """Where somebody tries."""

    SHIM = "syft shim"
    SOCKET = "supervisor socket"
    HANDSHAKE = "peer handshake"
    RESUME = "resume"


class Attempt(StrEnum):
    """What somebody tries with."""

    NONE = "no approval of the peer"
    STALE = "approvals from before block or policy changed"
    ALTERED = "an approval altered after it was signed"
    OTHER_PARTY = "our own approval passed off as the peer's"
    OTHER_DIGEST = "approvals of another request"
    EXPIRED = "approvals of an expired request"
    REVOKED = "approvals of a revoked request"
    USED_UP = "approvals whose runs are used"
    FORGED = "a countersignature made with another key"
    UNKNOWN_KEY = "a roster key that the address book doesn't hold"
    REPLAYED = "the same start once more"
    OTHER_CODE = "approvals for another computation code"


class Impossible(str):
    """Why a cell can't be tried."""


Cell = tuple[Attempt, Way]

TABLE: dict[Attempt, dict[Way, str]] = {
    Attempt.NONE: {
        Way.SHIM: "not_approved",
        Way.SOCKET: "not_approved",
        Way.HANDSHAKE: "not_approved",
        Way.RESUME: "not_approved",
    },
    Attempt.STALE: {
        Way.SHIM: "not_approved",
        Way.SOCKET: "not_approved",
        Way.HANDSHAKE: Impossible(
            "only a party itself knows its policy and its newest block, and looks before a worker exists:"
            " a worker opens the approved content or nothing (test_a_block_whose_content_changed_after_approval)"
        ),
        Way.RESUME: "block",
    },
    Attempt.ALTERED: dict.fromkeys(Way, "approval"),
    Attempt.OTHER_PARTY: dict.fromkeys(Way, "approval"),
    Attempt.OTHER_DIGEST: dict.fromkeys(Way, "approval"),
    Attempt.EXPIRED: dict.fromkeys(Way, "expired"),
    Attempt.REVOKED: {
        Way.SHIM: "not_approved",  # the steward has denied it in syft too, and so syft itself refuses
        Way.SOCKET: "revoked",
        Way.HANDSHAKE: "revoked",
        Way.RESUME: "revoked",
    },
    Attempt.USED_UP: {
        Way.SHIM: "runs_used",
        Way.SOCKET: "runs_used",
        Way.HANDSHAKE: "state",  # a worker that nobody reserved a run for asks for the first message
        Way.RESUME: "runs_used",
    },
    Attempt.FORGED: dict.fromkeys(Way, "approval"),
    Attempt.UNKNOWN_KEY: {
        Way.SHIM: "roster",
        Way.SOCKET: "roster",
        Way.HANDSHAKE: "peer_refused",
        Way.RESUME: "roster",
    },
    Attempt.REPLAYED: {
        Way.SHIM: "runs_used",
        Way.SOCKET: "runs_used",
        Way.HANDSHAKE: "peer_refused",
        Way.RESUME: "runs_used",
    },
    Attempt.OTHER_CODE: dict.fromkeys(Way, "code_digest"),
}


def cells(*ways: Way) -> list[ParameterSet]:
    """The cells of these ways that can be tried, with their codes, as parameters of a test."""
    return [
        pytest.param(attempt, way, code, id=f"{way}: {attempt}")
        for attempt, line in TABLE.items()
        for way, code in line.items()
        if way in ways and not isinstance(code, Impossible)
    ]
