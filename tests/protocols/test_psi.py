"""Alignment: exact, in the same order at both, and no key leaves a party."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.errors import OverlapError, ProtocolError, SubjectKeyError
from protocols.gate import Trace
from protocols.program import simulate
from protocols.psi import (
    Alignment,
    PsiMatches,
    PsiRequest,
    PsiSetup,
    psi_client,
    psi_manifest,
    psi_server,
)
from protocols.seeds import injected
from protocols.wire import Message, encode

SEED = injected(1, "bank")
KEYS = st.lists(st.binary(min_size=1, max_size=12), unique=True, max_size=30)


def align(
    bank: list[bytes], shop: list[bytes], *, seed: bytes = SEED, observe=None, limit: int | None = None
):
    programs = {"bank": psi_client(bank, "shop", seed, limit=limit), "shop": psi_server(shop, "bank")}
    results = simulate(programs, observe=observe)
    left, right = results["bank"], results["shop"]
    assert isinstance(left, Alignment)
    assert isinstance(right, Alignment)
    return left, right


@settings(max_examples=40, deadline=None)
@given(common=KEYS, bank_only=KEYS, shop_only=KEYS, order=st.randoms(use_true_random=False))
def test_it_is_set_intersection_in_one_order_at_both(common, bank_only, shop_only, order):
    bank = list({*common, *bank_only})
    shop = list({*common, *shop_only})
    order.shuffle(bank)
    order.shuffle(shop)
    left, right = align(bank, shop)
    found = [bank[row] for row in left.rows]
    assert set(found) == set(bank) & set(shop)
    assert len(found) == len(set(found))
    assert found == [shop[row] for row in right.rows]
    assert left.tag == right.tag


def test_ac_05_order_and_identity_whatever_the_order_of_the_files():
    bank, shop = [b"c3", b"a1", b"b2", b"d4"], [b"b2", b"z9", b"a1", b"d4"]
    amounts, spends = (
        {b"c3": 30, b"a1": 10, b"b2": 20, b"d4": 40},
        {b"b2": 200, b"z9": 900, b"a1": 100, b"d4": 400},
    )
    seen = set()
    for turn in range(4):
        left, right = align(bank[turn:] + bank[:turn], shop[-turn:] + shop[:-turn])
        pairs = [
            (amounts[(bank[turn:] + bank[:turn])[i]], spends[(shop[-turn:] + shop[:-turn])[j]])
            for i, j in zip(left.rows, right.rows, strict=True)
        ]
        assert set(pairs) == {(10, 100), (20, 200), (40, 400)}
        assert left.tag == right.tag
        seen.add((tuple(pairs), left.tag))
    assert len(seen) == 1


def test_another_seed_gives_another_tag_and_the_tag_is_no_plain_hash():
    keys = [b"k%d" % i for i in range(8)]
    first, _ = align(keys, keys)
    again, _ = align(keys, keys)
    other, _ = align(keys, keys, seed=injected(2, "bank"))
    assert first.tag == again.tag != other.tag
    assert sorted(first.rows) == sorted(other.rows) == list(range(8))


def test_no_key_in_any_message_and_tags_only_of_common_people():
    bank = [b"customer-%04d" % i for i in range(40)]
    shop = [b"customer-%04d" % i for i in range(30, 60)]
    messages: list[Message] = []
    align(bank, shop, observe=lambda sender, to, message: messages.append(message))
    for message in messages:
        data = encode(message)
        assert not any(key in data for key in {*bank, *shop})
    assert messages[-1].tags.shape == (10, 32)


def test_the_request_does_not_follow_the_order_of_the_file():
    """The n-th blinded key of a request isn't the file's n-th: the server's answer keeps the request's order."""
    keys = [b"%03d" % i for i in range(50)]
    program = psi_client(keys, "shop", SEED)
    effect = next(program)
    blinded_keys = effect.arguments[0]
    assert sorted(blinded_keys) == keys
    assert blinded_keys != keys


@pytest.mark.parametrize(
    ("bank", "shop"), [([], []), ([], [b"a"]), ([b"a"], []), ([b"a"], [b"b"]), ([b"a"], [b"a"])]
)
def test_small_sets(bank, shop):
    left, right = align(bank, shop)
    assert len(left.rows) == len(right.rows) == len(set(bank) & set(shop))
    assert left.tag == right.tag


@pytest.mark.parametrize("keys", [[b"k1", b"k1", b"k2"], [b"k1", b""]])
def test_unusable_keys_are_refused_before_any_message(keys):
    sent: list[Message] = []
    with pytest.raises(SubjectKeyError) as client:
        align(keys, [b"k1"], observe=lambda sender, to, message: sent.append(message))
    with pytest.raises(SubjectKeyError) as server:
        next(psi_server(keys, "bank"))
    assert not sent
    assert "k1" not in str(client.value) + str(server.value)


def test_more_common_people_than_allowed_end_the_run_before_they_are_named():
    keys = [b"%d" % i for i in range(5)]
    sent: list[Message] = []
    with pytest.raises(OverlapError, match="5 people are common, the request allows 4"):
        align(keys, keys, limit=4, observe=lambda sender, to, message: sent.append(message))
    assert [type(message).__name__ for message in sent] == ["PsiRequest", "PsiSetup", "PsiResponse"]
    left, _ = align(keys, keys, limit=5)
    assert len(left.rows) == 5


def _serve(matches: PsiMatches) -> None:
    """A server with keys a, b that gets `matches` at the end."""
    server = psi_server([b"a", b"b"], "bank")
    client = psi_client([b"a", b"b"], "shop", SEED)
    request = _drive(client, None)
    next(server)
    effect = server.send(request.message)
    effect = server.send(effect.function(*effect.arguments))
    server.send(None)
    server.send(None)
    assert type(effect.message) is PsiSetup
    server.send(matches)


def _drive(program, value):
    effect = program.send(value)
    while not hasattr(effect, "message"):
        effect = program.send(effect.function(*effect.arguments))
    return effect


def test_a_client_that_names_a_stranger_is_refused():
    secret = bytes(32)
    with pytest.raises(ProtocolError, match="match no key"):
        _serve(PsiMatches(secret, np.zeros((1, 32), np.uint8)))
    with pytest.raises(ProtocolError, match="wrong size"):
        _serve(PsiMatches(b"", np.zeros((1, 32), np.uint8)))
    with pytest.raises(ProtocolError, match="wrong size"):
        _serve(PsiMatches(secret, np.zeros((0, 31), np.uint8)))


@pytest.mark.parametrize("junk", [b"\xff\xff", b"\x0a\x04junk\x10\x01", b"\x10\x00"])
def test_junk_from_the_peer_is_a_protocol_error(junk):
    server = psi_server([b"a"], "bank")
    next(server)
    effect = server.send(PsiRequest(junk))
    with pytest.raises(ProtocolError):
        effect.function(*effect.arguments)


@pytest.mark.parametrize(("bank", "shop", "common"), [(1, 1, 1), (40, 700, 3), (500, 500, 500), (3000, 5, 5)])
def test_the_manifest_fits_and_is_tight(bank, shop, common):
    bank_keys = [b"b%d" % i for i in range(bank - common)] + [b"c%d" % i for i in range(common)]
    shop_keys = [b"c%d" % i for i in range(common)] + [b"s%d" % i for i in range(shop - common)]
    trace = Trace()
    align(bank_keys, shop_keys, observe=trace.observe)
    manifest = psi_manifest("bank", "shop", bank, shop, common)
    trace.fits(manifest)
    assert min(trace.fill(manifest).values()) == 1.0
