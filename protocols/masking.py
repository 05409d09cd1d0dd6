"""Sums of which nobody sees the terms: each client hides its words under masks that only cancel in the sum.

In a round each of the clients A < B < C holds words x (n,) modulo 2^64 and a new X25519 key, which it signs with the
key that the others know it by. For an attempt among a named group it sends

    y_A = x_A + p_AB + p_AC + s_A,    y_B = x_B - p_AB + p_BC + s_B,    y_C = x_C - p_AC - p_BC + s_C

where p_AB is the ChaCha20 keystream of a key that HKDF-SHA256 makes of the secret of A and B, the round, the attempt
and the group with its keys, and s_A that of a seed which A draws. When every one of the group has sent its y, each
tells its seed, once in a round: then the sum of all x is known, and of no smaller group, whoever adds up what.

The seeds are why a lost client does no harm: the round is tried again with the others under new masks, and an answer of
the lost one that comes late, or was never lost, is hidden for ever, since nobody tells the seeds of two attempts. After
Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning" (CCS 2017), without its shares
of keys: nobody's masks are ever opened by others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from protocols import keys
from protocols.errors import ApprovalError, ProtocolError
from protocols.records import canonical_json, signing_bytes

Words: TypeAlias = NDArray[np.uint64]
Draw: TypeAlias = Callable[[int], bytes]
"""So many bytes that nobody can guess. Never a run's private seed: two attempts to run would share masks."""
SEED_BYTES = 32
LEAST_CLIENTS = 3
"""Of the sum of two, each knows the other's term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a role is to the others of a run, and how it proves that.

    `context` names the run, such as its request's digest; `keys` are the public keys (Ed25519, hex) of all roles, from
    a source that the one who relays messages can't change; `sign` signs with the key of this `role`.
    """

    role: str
    context: str
    keys: Mapping[str, str]
    sign: Callable[[bytes], str]


def identities(roles: Sequence[str], context: str = "simulated") -> dict[str, Identity]:
    """Identities with new keys, for a run in one process."""
    pairs = {role: keys.generate_key() for role in roles}
    public = {role: keys.public_hex(key) for role, key in pairs.items()}
    return {role: identity_of(role, context, public, key) for role, key in pairs.items()}


def identity_of(role: str, context: str, public: Mapping[str, str], key: Ed25519PrivateKey) -> Identity:
    """The identity of the role that holds this key."""
    return Identity(role=role, context=context, keys=public, sign=lambda data: keys.sign(key, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskKey:
    """The public X25519 key (hex) of a role for one round, signed (hex) with the key that the others know it by."""

    role: str
    public: str
    signature: str


def check_key(key: MaskKey, number: int, identity: Identity) -> None:
    """ApprovalError naming the role unless it takes part in this run and signed the key for this run and round."""
    known = identity.keys.get(key.role)
    if known is None:
        raise ApprovalError("a mask key is of a role that has no part in this run")
    try:
        bytes.fromhex(key.public)
        keys.verify(known, _signed(identity.context, key.role, number, key.public), key.signature)
    except (ApprovalError, ValueError):
        raise ApprovalError(
            f"the mask key of {key.role} for round {number} isn't signed by {key.role}",
            remedy="who relays the keys may have put its own in its place: ask its people before you run again",
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a sum in a round (both from 1) among the holders of these keys."""

    context: str
    number: int
    attempt: int
    keys: tuple[MaskKey, ...]

    def info(self, label: str) -> bytes:
        """What a mask is derived for: it differs in every run, round, attempt and group, and by the label."""
        group = hashlib.sha256(canonical_json([[key.role, key.public] for key in self.keys])).hexdigest()
        return canonical_json([label, self.context, self.number, self.attempt, group])


class Masks:
    """One client's masks in one round; everything in it is new and is forgotten with it. `key` is what others need.

    An error means that somebody doesn't keep to the protocol, and that nothing more should be sent in this run.
    """

    def __init__(self, identity: Identity, number: int, *, least: int, draw: Draw = os.urandom) -> None:
        """For round `number`, among at least `least` clients."""
        self._identity, self._number, self._draw = identity, number, draw
        self._least = max(least, LEAST_CLIENTS)
        self._private = X25519PrivateKey.from_private_bytes(draw(32))
        raw = self._private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )
        signed = _signed(identity.context, identity.role, number, raw.hex())
        self.key = MaskKey(role=identity.role, public=raw.hex(), signature=identity.sign(signed))
        self._attempt: Attempt | None = None
        self._seed = b""
        self._told = False

    def hide(self, words: Words, attempt: int, others: Sequence[MaskKey]) -> Words:
        """The words (n,) under new masks, for this attempt among the holders of these keys, our own among them.

        Raises ApprovalError for a key that its role didn't sign, ProtocolError for a group that is too small, lacks us
        or isn't part of the last attempt's, an attempt that isn't later than the last one, or when our seed is told.
        """
        terms = Attempt(
            context=self._identity.context, number=self._number, attempt=attempt, keys=tuple(others)
        )
        self._check(terms)
        self._attempt, self._seed = terms, self._draw(SEED_BYTES)
        hidden = words + own_mask(self._seed, terms, self._identity.role, len(words))
        for key in others:
            if key.role != self._identity.role:
                mask = self._pair_mask(terms, key, len(words))
                hidden = hidden + mask if self._identity.role < key.role else hidden - mask
        return hidden

    def tell_seed(self, attempt: int) -> bytes:
        """The seed of our own mask in the last attempt, once. ProtocolError for another attempt, or a second time."""
        if self._attempt is None or self._attempt.attempt != attempt or self._told:
            raise ProtocolError(f"round {self._number}: asked for a seed that may not be told")
        self._told = True
        return self._seed

    def _check(self, terms: Attempt) -> None:
        where, last = f"round {self._number}, attempt {terms.attempt}", self._attempt
        if self._told:
            raise ProtocolError(f"{where}: this round's seed is told, a second sum would show a single term")
        if terms.attempt <= (0 if last is None else last.attempt):
            raise ProtocolError(f"{where}: came before; masks are used once")
        roles = [key.role for key in terms.keys]
        if len(set(roles)) != len(roles) or len(roles) < self._least:
            raise ProtocolError(f"{where}: {len(set(roles))} clients, a sum needs {self._least} or more")
        if self.key not in terms.keys:
            raise ProtocolError(f"{where}: our own key isn't among the keys")
        if last is not None and not set(terms.keys) < set(last.keys):
            raise ProtocolError(f"{where}: the group isn't a part of the last attempt's, with its keys")
        for key in terms.keys:
            check_key(key, self._number, self._identity)

    def _pair_mask(self, terms: Attempt, other: MaskKey, count: int) -> Words:
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other.public)))
        except ValueError:  # of another length, or a point of small order, whose secret everybody knows
            raise ProtocolError(f"the mask key of {other.role} is no key") from None
        pair = " ".join(sorted((self._identity.role, other.role)))
        return _keystream(secret, terms.info(f"pair {pair}"), count)


def own_mask(seed: bytes, terms: Attempt, role: str, count: int) -> Words:
    """The mask (count,) that a role's seed stands for in this attempt."""
    return _keystream(seed, terms.info(f"own {role}"), count)


def unmasked_sum(terms: Attempt, hidden: Mapping[str, Words], seeds: Mapping[str, bytes]) -> Words:
    """The sum (n,) modulo 2^64 of what all of an attempt's clients hid, whose seeds these are.

    Raises ProtocolError unless there is one of each for each of them, all of one length.
    """
    roles = {key.role for key in terms.keys}
    if hidden.keys() != roles or seeds.keys() != roles or len({len(words) for words in hidden.values()}) != 1:
        raise ProtocolError("a sum needs as many words, and a seed, of every client of the attempt")
    (count,) = {len(words) for words in hidden.values()}
    total = np.zeros(count, np.uint64)
    for role in sorted(roles):
        total = total + hidden[role] - own_mask(seeds[role], terms, role, count)
    return total


def _signed(context: str, role: str, number: int, public: str) -> bytes:
    return signing_bytes("mask key", canonical_json([context, role, number, public]))


def _keystream(secret: bytes, info: bytes, count: int) -> Words:
    # Each derived key makes one keystream, so that the nonce may be constant.
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(secret)
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, np.dtype("<u8")).astype(np.uint64)
