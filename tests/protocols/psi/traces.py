"""What a key would look like where it must not be: as itself, encoded, or under a plain hash that could be guessed."""

import base64
import hashlib
from collections.abc import Iterable, Iterator

_HASHES = ("md5", "sha1", "sha256", "sha512", "blake2b")


def traces(key: bytes) -> Iterator[bytes]:
    """The key and its plain hashes, each as it is, in hex and in base64; the key in UTF-16 too."""
    yield from _forms(key)
    yield key.decode("latin-1").encode("utf-16-le")
    for name in _HASHES:
        yield from _forms(hashlib.new(name, key).digest())


def found(keys: Iterable[bytes], *contents: bytes) -> set[bytes]:
    """The keys, of ten bytes or more, of which one of the contents holds a trace."""
    return {key for key in keys if any(trace in content for trace in traces(key) for content in contents)}


def _forms(data: bytes) -> Iterator[bytes]:
    yield data
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # Inside longer data a text starts at one of three places; what is surely the same is left of its ends.
        for shift in range(3):
            yield encode(b"\0" * shift + data)[(4 if shift else 0) : -4]
