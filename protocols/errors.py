"""One family of exceptions. The text is for the local log; a peer or the analyst only ever sees the code.

A text says who, what was expected, what came and what to do; it never contains a key or a cell of private
data.
"""

from __future__ import annotations

import re
from typing import ClassVar

INTERNAL = "internal"
"""The code of every exception that isn't ours: its text could contain anything, so nothing of it is told."""


class FedaccordError(Exception):
    """The root of the family. `remedy` says what the reader can do; it may be empty.

    It is a note of the exception too, so that a traceback or a notebook shows it.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy
        if remedy:
            self.add_note(remedy)


class ProtocolError(FedaccordError):
    """A program broke the rules of the conversation, or its peer did."""

    code = "protocol"


class WireError(FedaccordError):
    """Bytes that are no valid message, or a message that cannot be written."""

    code = "wire"


class DeadlockError(FedaccordError):
    """Every program waits for a message that nobody will send."""

    code = "deadlock"


class RequestError(FedaccordError):
    """A computation request is malformed, not canonical, or wrongly signed."""

    code = "request"


class PolicyError(FedaccordError):
    """A party's policy forbids the request: its purpose, who asks, a column or a setting."""

    code = "policy"


class ApprovalError(FedaccordError):
    """A signature, decision or countersignature does not hold."""

    code = "approval"


class ExpiredError(FedaccordError):
    """The request's time is over."""

    code = "expired"


class RunsUsedError(FedaccordError):
    """All approved runs of the request are used."""

    code = "runs_used"


class AlignmentsUsedError(FedaccordError):
    """All alignments that a party allows with a peer are used: `used` of `allowed`."""

    code = "alignments_used"

    def __init__(self, message: str, *, used: int = 0, allowed: int = 0, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.used, self.allowed = used, allowed


class NotApprovedError(FedaccordError):
    """Approvals are missing; the text says whose."""

    code = "not_approved"


class GateError(FedaccordError):
    """A message is not covered by the release manifest."""

    code = "gate"


class AuditError(FedaccordError):
    """The audit log is broken, cut short or incomplete."""

    code = "audit"


class KeyFileError(FedaccordError):
    """A key or certificate file cannot be read, written or trusted."""

    code = "key"


class BlockError(FedaccordError):
    """A feature block is malformed or not the one that was committed to."""

    code = "block"


class SubjectKeyError(FedaccordError):
    """Subject keys are missing, ambiguous or repeated."""

    code = "subject_key"


class OverlapError(FedaccordError):
    """The parties have too few people in common."""

    code = "overlap"


class ConfigError(FedaccordError):
    """A setting is out of its range."""

    code = "config"


class StateError(FedaccordError):
    """The party's state folder is missing, damaged or in use."""

    code = "state"


class DiskFullError(StateError):
    """The disk that holds a party's state folder has no room."""

    code = "disk_full"


class HelperLost(StateError):
    """A helper process of an alignment was gone before its work was done."""

    code = "helper_lost"


class RosterError(FedaccordError):
    """The request's parties differ from the address book."""

    code = "roster"


class LinkError(FedaccordError):
    """The link between two parties failed."""

    code = "link"


class PeerLost(LinkError):
    """The connection ended without a word."""

    code = "peer_lost"


class PeerTimeout(LinkError):
    """The peer was silent for too long."""

    code = "peer_timeout"


class PeerRefused(LinkError):
    """The peer could not be reached or did not accept us."""

    code = "peer_refused"


class PortInUse(LinkError):
    """No port of the configured range is free."""

    code = "port_in_use"


class CodeDigestError(FedaccordError):
    """The computation's code here is not the code that was approved."""

    code = "code_digest"


class DatasiteError(FedaccordError):
    """The control plane failed or answered in an unknown way."""

    code = "datasite"


class DataMissingError(FedaccordError):
    """A requested block or column is not here."""

    code = "data_missing"


class ModelError(FedaccordError):
    """A stored model is missing, withdrawn or incomplete, or is none of the one that was asked for."""

    code = "model"


class Stopped(FedaccordError):
    """A run ended before its time, for a reason that is nobody's fault."""

    code = "stopped"


class CancelledRun(Stopped):
    """Somebody entitled to it cancelled the run."""

    code = "cancelled"


class RevokedRun(Stopped):
    """An approval was revoked while the run was going on."""

    code = "revoked"


class InterruptedRun(Stopped):
    """The process had to stop; the run can be resumed."""

    code = "interrupted"


class PeerStopped(Stopped):
    """The peer ended the run. `reason` is the code that it gave, or "unknown" if that was no code."""

    code = "peer_stopped"

    def __init__(self, message: str, *, reason: str = "unknown", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        # The reason comes from another machine: only something shaped like a code may reach our logs.
        self.reason = reason if re.fullmatch(r"[a-z][a-z_]{0,39}", reason) else "unknown"


PEER_FAULTS = (LinkError, PeerStopped, WireError, GateError, ProtocolError)
"""What can go wrong with a peer: it is lost or silent, stops, or sends what isn't allowed or can't be read."""


def to_wire(error: BaseException) -> str:
    """The code that a peer or the analyst may see; "internal" for exceptions that aren't of our family."""
    return error.code if isinstance(error, FedaccordError) else INTERNAL
