"""Private set intersection as two programs: which people two parties have in common, and in which order.

Messages, in order (c keys at the client, s at the server, m in common):

1. `PsiRequest` client -> server: the client's keys, each hashed to a curve point and blinded with the client's
   own exponent. The server learns c.
2. `PsiSetup` server -> client: the server's keys, blinded with the server's exponent. The client learns s.
3. `PsiResponse` server -> client: the client's points, blinded once more by the server. The client removes its
   own exponent and compares with the setup: it learns which *of its own* keys are common.
4. `PsiMatches` client -> server: a fresh session secret and HMAC-SHA256(secret, key) of the common keys only,
   sorted. The server compares with the tags of its own keys and learns which of them are common.

Both sides order the common rows by tag, so row i is the same person at both without a key ever being sent and
independently of the order of the input. The structure is openmined-psi's RAW one: exact, no false positives.

Threat model. Honest-but-curious parties under the Diffie-Hellman assumption on P-256. Both learn the other's set size
and the common keys, nothing on any other key. The client learns the intersection first and may stop before message 4:
then the server learns only c. Not defended: a party that fills its set with guessed keys to test them (the gate
bounds how many), and a client that names fewer matches than there are. Anything derived from a key without the session
secret must stay out of logs: few or short keys can be guessed from a plain hash. `Alignment.tag` is safe to
log: it's an HMAC under the session secret.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from protocols.errors import OverlapError, ProtocolError, SubjectKeyError
from protocols.program import Program, Send, compute, receive
from protocols.request import Release
from protocols.wire import Message, array, encoded_size

if TYPE_CHECKING:
    import private_set_intersection.python as openmined

POINT_BYTES = 35
"""One blinded key on the wire: a compressed P-256 point (33) and its tag and length in the protobuf (2)."""

_TAG_BYTES = 32


@dataclass(frozen=True, slots=True)
class PsiRequest(Message):
    """The client's blinded keys, as openmined-psi's serialised request."""

    blinded: bytes


@dataclass(frozen=True, slots=True)
class PsiSetup(Message):
    """The server's blinded keys, sorted, as openmined-psi's serialised setup."""

    blinded: bytes


@dataclass(frozen=True, slots=True)
class PsiResponse(Message):
    """The client's keys, blinded by both, in the order of the request."""

    blinded: bytes


@dataclass(frozen=True, slots=True)
class PsiMatches(Message):
    """The session secret (32 bytes) and the sorted tags (m, 32) of the common keys."""

    secret: bytes
    tags: NDArray[np.uint8] = array(np.uint8, 2)


PSI_KINDS: tuple[type[Message], ...] = (PsiRequest, PsiSetup, PsiResponse, PsiMatches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Own row indices of the common people, (m,) int64, in the order both parties share; `tag` names that order."""

    rows: NDArray[np.int64]
    tag: str


def psi_client(
    keys: Sequence[bytes], server: str, seed: bytes, *, limit: int | None = None
) -> Program[Alignment]:
    """The client's side; see the module's docstring for the messages.

    `seed` is this party's private seed; the session secret comes from it. Raises SubjectKeyError for an unusable or
    repeated key, before any message; OverlapError when more than `limit` people are common, before message 4.
    """
    _check_keys(keys)
    hidden_order = _secret(seed, "psi request order")
    shuffled = sorted(range(len(keys)), key=lambda row: _tag(hidden_order, keys[row]))
    client, blinded = yield from compute(_blind, [keys[row] for row in shuffled])
    yield Send(server, PsiRequest(blinded))
    setup = yield from receive(server, PsiSetup)
    response = yield from receive(server, PsiResponse)
    found = yield from compute(_intersect, client, setup.blinded, response.blinded, len(keys))
    if limit is not None and len(found) > limit:
        raise OverlapError(
            f"{len(found)} people are common, the request allows {limit}", remedy="ask with a larger bound"
        )
    secret = _secret(seed, "psi session")
    ordered = sorted((_tag(secret, keys[shuffled[position]]), shuffled[position]) for position in found)
    tags = np.frombuffer(b"".join(tag for tag, _ in ordered), np.uint8).reshape(-1, _TAG_BYTES)
    yield Send(server, PsiMatches(secret, tags))
    return _alignment(secret, [tag for tag, _ in ordered], [row for _, row in ordered])


def psi_server(keys: Sequence[bytes], client: str) -> Program[Alignment]:
    """The server's side; raises SubjectKeyError like the client, ProtocolError for a tag of a key it doesn't hold."""
    _check_keys(keys)
    request = yield from receive(client, PsiRequest)
    setup, response = yield from compute(_answer, keys, request.blinded, client)
    yield Send(client, PsiSetup(setup))
    yield Send(client, PsiResponse(response))
    matches = yield from receive(client, PsiMatches)
    if len(matches.secret) != _TAG_BYTES or matches.tags.shape[1] != _TAG_BYTES:
        raise ProtocolError(f"{client} sent psi tags of a wrong size")
    row_of = {_tag(matches.secret, key): row for row, key in enumerate(keys)}
    tags = [bytes(tag) for tag in matches.tags]
    if tags != sorted(set(tags)) or not row_of.keys() >= set(tags):
        raise ProtocolError(f"{client} sent psi tags that are unsorted, repeated or match no key here")
    return _alignment(matches.secret, tags, [row_of[tag] for tag in tags])


def align_in_clear(
    client_keys: Sequence[bytes], server_keys: Sequence[bytes], seed: bytes
) -> tuple[Alignment, Alignment]:
    """Both sides' alignments, as the two programs give them, for somebody who holds both sets of keys anyway.

    Only where the data are public or invented (research, benchmarks); a test compares it with the programs.
    """
    _check_keys(client_keys)
    _check_keys(server_keys)
    secret = _secret(seed, "psi session")
    place = {key: row for row, key in enumerate(server_keys)}
    common = sorted(
        (_tag(secret, key), row, place[key]) for row, key in enumerate(client_keys) if key in place
    )
    tags = [tag for tag, _, _ in common]
    return _alignment(secret, tags, [row for _, row, _ in common]), _alignment(
        secret, tags, [row for _, _, row in common]
    )


def psi_manifest(
    client: str, server: str, client_rows: int, server_rows: int, max_overlap: int
) -> tuple[Release, ...]:
    """The four releases of one alignment; byte bounds are those of the largest possible message of each kind."""
    common = min(client_rows, server_rows, max_overlap)
    tags = PsiMatches(bytes(_TAG_BYTES), np.zeros((common, _TAG_BYTES), np.uint8))
    size_request = POINT_BYTES * client_rows + 2  # 2: the flag that the client learns the intersection
    size_setup = POINT_BYTES * server_rows + _length_prefix(POINT_BYTES * server_rows)
    size_response = POINT_BYTES * client_rows
    return (
        _bytes_release(PsiRequest, client, server, size_request, "how many keys the other party offers"),
        _bytes_release(PsiSetup, server, client, size_setup, "how many keys the other party offers"),
        _bytes_release(
            PsiResponse,
            server,
            client,
            size_response,
            "which of its own keys are common (it learns this first)",
        ),
        Release(
            kind="PsiMatches",
            sender=client,
            receiver=server,
            shapes=(("secret", (_TAG_BYTES,)), ("tags", (common, _TAG_BYTES))),
            repetitions=1,
            max_bytes=encoded_size(tags),
            learns="which of its own keys are common, and the order of the common rows",
        ),
    )


def _bytes_release(
    kind: type[PsiRequest] | type[PsiSetup] | type[PsiResponse],
    sender: str,
    receiver: str,
    size: int,
    learns: str,
) -> Release:
    return Release(
        kind=kind.__name__,
        sender=sender,
        receiver=receiver,
        shapes=(("blinded", (size,)),),
        repetitions=1,
        max_bytes=encoded_size(kind(bytes(size))),
        learns=learns,
    )


def _length_prefix(size: int) -> int:
    """Bytes of tag and length before a protobuf submessage of `size` bytes."""
    return 1 + max(1, (size.bit_length() + 6) // 7)


def _check_keys(keys: Sequence[bytes]) -> None:
    if any(not key for key in keys):
        raise SubjectKeyError("a subject key is empty", remedy="leave rows without a key out of the block")
    repeated = len(keys) - len(set(keys))
    if repeated:
        raise SubjectKeyError(
            f"{repeated} of {len(keys)} rows repeat the subject key of another row",
            remedy="keep one row per person before the alignment",
        )


def _blind(keys: Sequence[bytes]) -> tuple["openmined.client", bytes]:
    """A client with a fresh secret exponent, and its request."""
    import private_set_intersection.python as openmined

    client = openmined.client.CreateWithNewKey(True)
    return client, client.CreateRequest(_text(keys)).SerializeToString()


def _answer(keys: Sequence[bytes], request: bytes, client: str) -> tuple[bytes, bytes]:
    """Setup and response of a server with a fresh secret exponent."""
    import private_set_intersection.python as openmined

    server = openmined.server.CreateWithNewKey(True)
    try:
        parsed = openmined.Request()
        parsed.ParseFromString(request)
        response = server.ProcessRequest(parsed)
    except (
        Exception
    ) as problem:  # the library raises RuntimeError and protobuf's own errors, with no common class
        raise ProtocolError(f"{client} sent a psi request that isn't one") from problem
    expected = max(1, len(parsed.encrypted_elements))
    setup = server.CreateSetupMessage(0.0, expected, _text(keys), openmined.DataStructure.RAW)
    return setup.SerializeToString(), response.SerializeToString()


def _intersect(client: "openmined.client", setup: bytes, response: bytes, size: int) -> list[int]:
    """Positions in the request of the common keys."""
    import private_set_intersection.python as openmined

    try:
        parsed_setup, parsed_response = openmined.ServerSetup(), openmined.Response()
        parsed_setup.ParseFromString(setup)
        parsed_response.ParseFromString(response)
        if len(parsed_response.encrypted_elements) != size:
            raise ValueError("one answer per key of the request was due")
        return list(client.GetIntersection(parsed_setup, parsed_response))
    except Exception as problem:  # as in _answer
        raise ProtocolError("the psi server's answer isn't one to this request") from problem


def _text(keys: Sequence[bytes]) -> list[str]:
    """The library wants str; latin-1 maps every byte string to a different one."""
    return [key.decode("latin-1") for key in keys]


def _secret(seed: bytes, purpose: str) -> bytes:
    return hmac.digest(seed, purpose.encode(), hashlib.sha256)


def _tag(secret: bytes, key: bytes) -> bytes:
    return hmac.digest(secret, key, hashlib.sha256)


def _alignment(secret: bytes, tags: Sequence[bytes], rows: Sequence[int]) -> Alignment:
    order = np.asarray(rows, dtype=np.int64)
    order.setflags(write=False)
    return Alignment(
        rows=order, tag=hmac.new(secret, b"alignment" + b"".join(tags), hashlib.sha256).hexdigest()
    )
