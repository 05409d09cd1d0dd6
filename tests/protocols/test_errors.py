"""The codes are an interface: stable, distinct, and the only thing that leaves."""

from __future__ import annotations

import copy
import subprocess
import sys
import traceback

import pytest

from protocols import errors
from protocols.errors import FedaccordError, PeerStopped, to_wire

CODES = {
    "ProtocolError": "protocol",
    "WireError": "wire",
    "DeadlockError": "deadlock",
    "RequestError": "request",
    "ApprovalError": "approval",
    "ExpiredError": "expired",
    "RunsUsedError": "runs_used",
    "AlignmentsUsedError": "alignments_used",
    "NotApprovedError": "not_approved",
    "GateError": "gate",
    "AuditError": "audit",
    "KeyFileError": "key",
    "BlockError": "block",
    "SubjectKeyError": "subject_key",
    "OverlapError": "overlap",
    "ConfigError": "config",
    "StateError": "state",
    "DiskFullError": "disk_full",
    "HelperLost": "helper_lost",
    "RosterError": "roster",
    "LinkError": "link",
    "PeerLost": "peer_lost",
    "PeerTimeout": "peer_timeout",
    "PeerRefused": "peer_refused",
    "PortInUse": "port_in_use",
    "CodeDigestError": "code_digest",
    "PolicyError": "policy",
    "DatasiteError": "datasite",
    "DataMissingError": "data_missing",
    "ModelError": "model",
    "Stopped": "stopped",
    "CancelledRun": "cancelled",
    "RevokedRun": "revoked",
    "InterruptedRun": "interrupted",
    "PeerStopped": "peer_stopped",
}


def family() -> dict[str, type[FedaccordError]]:
    found = {name: item for name, item in vars(errors).items() if isinstance(item, type)}
    return {
        name: item
        for name, item in found.items()
        if issubclass(item, FedaccordError) and item is not FedaccordError
    }


def test_codes_are_the_published_ones_and_distinct():
    assert {name: item.code for name, item in family().items()} == CODES
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("name", sorted(CODES))
def test_each_carries_text_remedy_and_only_its_code_to_the_wire(name):
    error = family()[name]("the secret is 4711", remedy="look away")
    assert str(error) == "the secret is 4711"
    assert error.remedy == "look away"
    assert to_wire(error) == CODES[name]
    again = copy.copy(error)
    assert (str(again), again.remedy, type(again)) == (str(error), error.remedy, type(error))


@pytest.mark.parametrize(
    "error", [ValueError("4711"), KeyError("4711"), KeyboardInterrupt(), RecursionError()]
)
def test_foreign_exceptions_tell_nothing(error):
    assert to_wire(error) == "internal"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("revoked", "revoked"), ("peer_lost", "peer_lost"), ("", "unknown"), ("x" * 41, "unknown")]
    + [(text, "unknown") for text in ("Bad", "a b", "a\nb", "revoked\n", "<b>", "_a", "é")],
)
def test_a_peers_reason_is_kept_only_if_it_looks_like_a_code(reason, kept):
    assert PeerStopped("bank ended the run", reason=reason).reason == kept


def test_links_and_stops_can_be_caught_together():
    links = {name for name, item in family().items() if issubclass(item, errors.LinkError)}
    stops = {name for name, item in family().items() if issubclass(item, errors.Stopped)}
    assert links == {"LinkError", "PeerLost", "PeerTimeout", "PeerRefused", "PortInUse"}
    assert stops == {"Stopped", "CancelledRun", "RevokedRun", "InterruptedRun", "PeerStopped"}


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("protocols, protocols.errors", {"numpy", "torch", "cryptography"}),
        ("protocols.wire, protocols.program, protocols.seeds", {"torch", "cryptography"}),
        ("protocols.keys", {"torch", "numpy"}),
    ],
)
def test_importing_stays_light(modules, unwanted):
    program = f"import sys, {modules}; print(*sorted({unwanted!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_traceback_shows_the_remedy_and_nothing_where_there_is_none() -> None:
    told = traceback.format_exception(errors.BlockError("no column 'x'", remedy="it has a, b"))
    assert told[-1] == "it has a, b\n"
    assert traceback.format_exception(errors.BlockError("no"))[-1] == "protocols.errors.BlockError: no\n"
    stopped = PeerStopped("ended", remedy="start again")
    assert copy.copy(stopped).__notes__ == ["start again"]
