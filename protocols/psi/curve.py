"""The one use of openmined-psi: keys and points blinded under a secret exponent.

The library's client and server both compute H(key)^secret, a point of P-256, and point^secret. Its exact structure,
RAW, is the sorted list of such points; comparing points is all that its client does with it. So two operations serve
both sides, on any part of a set and in any process:

    blind_keys(s, keys)       H(key)^s for each key                  client.CreateRequest
    blind_points(s, points)   point^s for each point                 server.ProcessRequest
    inverse(s)                the exponent that takes s away again

GCS and Bloom filter, the library's other structures, are smaller and name people who aren't common (a test shows it);
nothing here uses them.
"""

from collections.abc import Sequence

from protocols.errors import ProtocolError

POINT_BYTES = 33
"""A compressed point of P-256."""
SECRET_BYTES = 32
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Number of points of P-256 (FIPS 186-5, SP 800-186 section 3.2.1.3)."""


def new_secret() -> bytes:
    """A fresh secret exponent from the library's own source, (32,)."""
    import private_set_intersection.python as openmined

    secret: bytes = openmined.client.CreateWithNewKey(True).GetPrivateKeyBytes()
    return secret


def inverse(secret: bytes) -> bytes:
    """The exponent t with (point^secret)^t = point."""
    return pow(int.from_bytes(secret, "big"), -1, _ORDER).to_bytes(SECRET_BYTES, "big")


def blind_keys(secret: bytes, keys: Sequence[bytes]) -> bytes:
    """One point for each key, in the order of the keys, one after the other."""
    import private_set_intersection.python as openmined

    # The library wants str; latin-1 maps every byte string to a different one.
    texts = [key.decode("latin-1") for key in keys]
    request = openmined.client.CreateFromKey(secret, True).CreateRequest(texts)
    return b"".join(request.encrypted_elements)


def blind_points(secret: bytes, points: bytes) -> bytes:
    """Each point blinded once more, in the same order. ProtocolError for bytes that are no points of the curve."""
    import private_set_intersection.python as openmined

    parts = [points[at : at + POINT_BYTES] for at in range(0, len(points), POINT_BYTES)]
    try:
        request = openmined.Request(reveal_intersection=True, encrypted_elements=parts)
        answer = openmined.server.CreateFromKey(secret, True).ProcessRequest(request)
    except Exception as problem:  # the library raises RuntimeError and more, with no common class
        raise ProtocolError("these bytes are no points of the curve") from problem
    return b"".join(answer.encrypted_elements)
