"""What openmined-psi does, measured: its exact structure, its two that aren't, and our two operations against it."""

import private_set_intersection.python as openmined
import pytest

from protocols.errors import ProtocolError
from protocols.psi.curve import POINT_BYTES, blind_keys, blind_points, inverse, new_secret
from tests.protocols.psi.sets import people


def _parts(points: bytes) -> list[bytes]:
    return [points[at : at + POINT_BYTES] for at in range(0, len(points), POINT_BYTES)]


@pytest.mark.parametrize("structure", list(openmined.DataStructure), ids=lambda structure: structure.name)
def test_only_the_raw_structure_names_nobody_who_is_not_common(structure):
    """400 keys at the client, none of them at the server, and a false positive rate of 0.5 for the whole query.

    GCS and Bloom filter give a query that is 400 times as large as announced false positives; RAW has none by
    construction, whatever the rate.
    """
    client = openmined.client.CreateWithNewKey(True)
    server = openmined.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.5, 1, [f"s{n}" for n in range(400)], structure)
    response = server.ProcessRequest(client.CreateRequest([f"c{n}" for n in range(400)]))
    found = client.GetIntersection(setup, response)
    assert (len(found) == 0) is (structure is openmined.DataStructure.RAW)


def test_our_operations_are_the_librarys_own_on_its_raw_structure():
    mine, theirs = people(40), people(40, start=25)
    a, b = new_secret(), new_secret()
    client, server = openmined.client.CreateFromKey(a, True), openmined.server.CreateFromKey(b, True)
    request = client.CreateRequest([key.decode() for key in mine])
    setup = server.CreateSetupMessage(0.0, 40, [key.decode() for key in theirs], openmined.DataStructure.RAW)
    response = server.ProcessRequest(request)

    blinded = blind_keys(a, mine)
    assert _parts(blinded) == list(request.encrypted_elements)
    held = blind_keys(b, theirs)
    assert sorted(_parts(held)) == list(setup.raw.encrypted_elements)
    again = blind_points(b, blinded)
    assert _parts(again) == list(response.encrypted_elements)
    plain = _parts(blind_points(inverse(a), again))
    found = [at for at, point in enumerate(plain) if point in set(_parts(held))]
    assert found == sorted(client.GetIntersection(setup, response)) == list(range(25, 40))


def test_parts_of_a_set_give_what_the_whole_gives():
    secret, keys = new_secret(), people(10)
    assert blind_keys(secret, keys[:3]) + blind_keys(secret, keys[3:]) == blind_keys(secret, keys)


def test_every_byte_string_is_a_key_of_its_own():
    keys = [bytes([byte]) for byte in range(256)] + [b"\xc3\xa9", b"e\xcc\x81", b"a\0", b"a\0b"]
    assert len(set(_parts(blind_keys(new_secret(), keys)))) == 260


def test_secrets_are_fresh_and_their_inverse_takes_them_away():
    secrets = {new_secret() for _ in range(20)}
    assert len(secrets) == 20
    for secret in secrets:
        assert len(secret) == len(inverse(secret)) == 32
        assert inverse(inverse(secret)) == secret


@pytest.mark.parametrize("junk", [b"\xff" * 33, b"\0" * 33, b"\x02", b"\x02" + b"\0" * 32 + b"\x02"])
def test_bytes_that_are_no_points_are_refused(junk):
    with pytest.raises(ProtocolError, match="no points"):
        blind_points(new_secret(), junk)
