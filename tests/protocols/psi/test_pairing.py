"""Alignment: exact, in the same order at both, and no key leaves a party."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.errors import OverlapError, ProtocolError, SubjectKeyError
from protocols.program import Program, Send, receive, simulate
from protocols.psi import PsiTerms, align_in_clear, psi_client, psi_server
from protocols.psi.blinding import Items, as_texts
from protocols.psi.curve import blind_keys, blind_points, new_secret
from protocols.psi.messages import PsiMatches, PsiRequest, PsiResponse, PsiSecret, PsiSetup
from protocols.seeds import injected
from protocols.wire import Message, encode
from tests.protocols.psi.sets import OTHER_SEED, SEED, align, people, play
from tests.protocols.psi.traces import found as traced

KEYS = st.lists(st.binary(min_size=1, max_size=12), unique=True, max_size=30)


@settings(max_examples=40, deadline=None)
@given(common=KEYS, bank_only=KEYS, shop_only=KEYS, order=st.randoms(use_true_random=False))
def test_it_is_set_intersection_in_one_order_at_both(common, bank_only, shop_only, order):
    bank = list({*common, *bank_only})
    shop = list({*common, *shop_only})
    order.shuffle(bank)
    order.shuffle(shop)
    if not set(bank) & set(shop):
        with pytest.raises(OverlapError):
            align(bank, shop)
        return
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


def test_no_key_nor_its_plain_hash_in_any_message_and_tags_only_of_common_people():
    bank, shop = people(40), people(30, start=30)
    messages: list[Message] = []
    align(bank, shop, observe=lambda sender, to, message: messages.append(message))
    assert traced({*bank, *shop}, *map(encode, messages)) == set()
    assert traced(bank, b"-".join(bank[:3])) == set(bank[:3])  # the search finds what is there
    assert isinstance(messages[-2], PsiMatches)
    assert messages[-2].items.shape == (10, 32)


def test_no_list_follows_the_order_of_a_file():
    """Blinded keys are sorted by their pseudo-random points: the n-th isn't the file's n-th, and differs every time."""
    sent: list[Message] = []
    keys = people(50)
    align(keys, keys, observe=lambda sender, to, message: sent.append(message))
    align(keys, keys, observe=lambda sender, to, message: sent.append(message))
    lists = [[bytes(item) for item in m.items] for m in sent if isinstance(m, PsiRequest | PsiSetup)]
    assert len(lists) == 4
    assert all(points == sorted(set(points)) for points in lists)
    assert len({points[0] for points in lists}) == 4


@pytest.mark.parametrize(
    ("bank", "shop"), [([b"a"], [b"a"]), ([b"a", b"b"], [b"b"]), ([b"b"], [b"a", b"b", b"c"])]
)
def test_small_sets_and_one_inside_the_other(bank, shop):
    left, right = align(bank, shop)
    assert len(left.rows) == len(right.rows) == len(set(bank) & set(shop))
    assert left.tag == right.tag
    assert (left.other_rows, right.other_rows) == (len(shop), len(bank))


def test_sets_of_very_different_size():
    bank, shop = people(3, start=998), people(1000)
    for one, other in ((bank, shop), (shop, bank)):
        left, right = align(one, other)
        assert {one[row] for row in left.rows} == {b"person-000998", b"person-000999"}
        assert [one[row] for row in left.rows] == [other[row] for row in right.rows]


@pytest.mark.parametrize(("bank", "shop"), [([], []), ([], [b"a"]), ([b"a"], [])])
def test_an_empty_set_is_an_error_that_says_so(bank, shop):
    with pytest.raises(OverlapError, match="has 0 people"):
        align(bank, shop)


def test_no_common_customer_is_an_error_at_both_that_names_the_keys_as_the_place_to_look():
    client, server = play(people(5), people(5, start=5))
    assert isinstance(client, OverlapError)
    assert isinstance(server, OverlapError)
    assert "overlap 0: no common customers" in str(client)
    assert "overlap <1" in str(server)
    assert "key rules" in client.remedy == server.remedy


def test_fewer_common_people_than_asked_for_are_told_to_the_other_side_as_a_bound_alone():
    """R22: overlap 7, at least 10 asked for: the server hears that it is below 10, gets no tag and no secret."""
    sent: list[Message] = []
    terms = PsiTerms(least=10)
    client, server = play(people(40), people(40, start=33), terms, observe=sent.append)
    assert "overlap 7" in str(client)
    assert "overlap <10" in str(server)
    assert "7" not in str(server)
    last = sent[-1]
    assert isinstance(last, PsiMatches)
    assert (last.of, last.items.shape) == (0, (0, 32))
    left, right = align(people(43), people(43, start=33), terms=terms)
    assert len(left.rows) == len(right.rows) == 10


def test_a_set_below_the_minimum_is_refused_before_it_is_answered():
    """A set of one is a question about a person, whatever the answer."""
    sent: list[Message] = []
    with pytest.raises(OverlapError, match="own set has 9 people"):
        align(people(9), people(40), terms=PsiTerms(least=10))
    prober = psi_client(people(9), "shop", SEED)
    client, server = play(prober, people(40), PsiTerms(least=10), observe=sent.append)
    assert isinstance(server, OverlapError)
    assert "set of bank has fewer people than the 10" in str(server)
    assert client is None
    assert {type(message) for message in sent} == {PsiRequest}


@pytest.mark.parametrize("keys", [[b"k1", b"k1", b"k2"], [b"k1", b""]])
def test_unusable_keys_are_refused_before_any_message(keys):
    sent: list[Message] = []
    with pytest.raises(SubjectKeyError) as client:
        align(keys, [b"k1"], observe=lambda sender, to, message: sent.append(message))
    with pytest.raises(SubjectKeyError) as server:
        next(psi_server(keys, "bank", SEED))
    assert not sent
    assert "k1" not in str(client.value) + str(server.value)


def test_more_common_people_than_allowed_end_the_run_before_they_are_named():
    keys = people(5)
    sent: list[Message] = []
    with pytest.raises(OverlapError, match="5 people are common, the request allows 4"):
        align(keys, keys, terms=PsiTerms(most=4), observe=lambda sender, to, message: sent.append(message))
    assert [type(message).__name__ for message in sent] == ["PsiRequest", "PsiSetup", "PsiResponse"]
    left, _ = align(keys, keys, terms=PsiTerms(most=5))
    assert len(left.rows) == 5


def test_in_clear_is_the_same_alignment():
    bank, shop = people(30), people(30, start=10)[::-1]
    programs = align(bank, shop)
    for one, other in zip(programs, align_in_clear(bank, shop, SEED), strict=True):
        assert one.rows.tolist() == other.rows.tolist()
        assert (one.tag, one.other_rows) == (other.tag, other.other_rows)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_lists_in_many_parts_give_the_same_alignment(length, monkeypatch):
    whole = align(people(9), people(9, start=3))
    monkeypatch.setattr("protocols.psi.terms.PART", length)
    monkeypatch.setattr("protocols.psi.blinding.PART", length)
    monkeypatch.setattr("protocols.psi.pairing.PART", length)
    sent: list[Message] = []
    parts = align(people(9), people(9, start=3), observe=lambda sender, to, message: sent.append(message))
    assert sum(isinstance(message, PsiRequest) for message in sent) == -(-9 // length)
    assert [one.rows.tolist() for one in parts] == [one.rows.tolist() for one in whole]
    assert parts[0].tag == whole[0].tag


def _serve(*told: Message) -> None:
    """A server with keys a, b that gets `told` from a client with the same keys at the end."""

    def lying():
        program = psi_client([b"a", b"b"], "shop", SEED)
        effect = next(program)
        while not isinstance(getattr(effect, "message", None), PsiMatches):
            effect = program.send((yield effect))
        for message in told:
            yield type(effect)("shop", message)

    _, server = play(lying(), [b"a", b"b"])
    raise server if server is not None else AssertionError("nothing was refused")


def _tags(*first_bytes: int) -> np.ndarray:
    return np.array([[byte] * 32 for byte in first_bytes], np.uint8)


def test_a_client_that_names_a_stranger_or_lies_about_its_list_is_refused():
    with pytest.raises(ProtocolError, match="match no key"):
        _serve(PsiMatches(1, _tags(0)), PsiSecret(bytes(32)))
    with pytest.raises(ProtocolError, match="out of order or repeated"):
        _serve(PsiMatches(2, _tags(1, 0)), PsiSecret(bytes(32)))
    with pytest.raises(ProtocolError, match="out of order or repeated"):
        _serve(PsiMatches(2, _tags(3)), PsiMatches(2, _tags(3)))
    with pytest.raises(ProtocolError, match="don't fit together"):
        _serve(PsiMatches(3, _tags(3)), PsiMatches(2, _tags(4)))
    with pytest.raises(ProtocolError, match="don't fit together"):
        _serve(PsiMatches(2, _tags(3)), PsiMatches(2, _tags(4, 5)))


@pytest.mark.parametrize("junk", [b"\xff" * 33, b"\x00" * 33, b"\x04" + b"\x01" * 32])
def test_bytes_that_are_no_points_are_a_protocol_error_naming_the_peer(junk):
    server = psi_server([b"a"], "bank", SEED)
    effect = next(server)
    while not hasattr(effect, "kind"):
        effect = server.send(effect.function(*effect.arguments))
    effect = server.send(PsiRequest(1, np.frombuffer(junk, np.uint8).reshape(1, 33)))

    def go_on() -> None:
        step = effect
        while True:
            step = server.send(step.function(*step.arguments) if hasattr(step, "function") else None)

    with pytest.raises(ProtocolError, match="bank sent points that are none"):
        go_on()


def test_dummies_of_both_sides_never_match_even_under_one_seed():
    """Both sets of 30 are filled up to 50: 20 dummies each, and 10 people in common."""
    bank, shop = people(30), people(30, start=20)
    left, right = align(bank, shop, seed=OTHER_SEED, terms=PsiTerms(bucket=50))
    assert [bank[row] for row in left.rows] == [shop[row] for row in right.rows]
    assert sorted(left.rows.tolist()) == list(range(20, 30))


def _points(raw: bytes) -> Items:
    return np.frombuffer(raw, np.uint8).reshape(-1, 33)


def _hostile(change: Callable[[Items], Items], of: int) -> Program[None]:
    """A server of the bank's own people which changes its true response, and says that it has `of` points."""
    asked = yield from receive("bank", PsiRequest)
    secret = new_secret()
    setup = _points(blind_keys(secret, [b"k" + key for key in people(30)]))
    yield Send("bank", PsiSetup(30, setup[np.argsort(as_texts(setup))]))
    yield Send("bank", PsiResponse(of, change(_points(blind_points(secret, asked.items.tobytes())))))
    raise _Answered  # what the client does next is the client's


class _Answered(Exception):
    pass


@pytest.mark.parametrize(
    ("change", "of", "told"),
    [
        (lambda points: np.repeat(points[:1], 30, axis=0), 30, "answered different psi points with one"),
        (lambda points: np.concatenate([points[:29], points[:1]]), 30, "different psi points with one"),
        (lambda points: points[:29], 29, "answered 29 psi points, asked were 30"),
        (lambda points: np.concatenate([points, points[:1]]), 31, "answered 31 psi points, asked were 30"),
        (lambda points: np.insert(points[:, 1:], 0, 255, axis=1), 30, "shop sent points that are none"),
    ],
    ids=["one for all", "one twice", "one less", "one more", "no points"],
)
def test_a_server_that_answers_falsely_gets_no_tag(change, of, told):
    """One known point for all would make the client name everybody, and the secret would let their keys be guessed."""
    sent: list[Message] = []
    ends: list[Exception] = []

    def client() -> Program[None]:
        try:
            yield from psi_client(people(30), "shop", SEED)
        except ProtocolError as problem:
            ends.append(problem)

    def server() -> Program[None]:
        with pytest.raises(_Answered):
            yield from _hostile(change, of)

    simulate({"bank": client(), "shop": server()}, observe=lambda *seen: sent.append(seen[2]))
    (problem,) = ends
    assert told in str(problem)
    assert not [message for message in sent if isinstance(message, PsiMatches | PsiSecret)]


def test_a_client_that_names_more_people_than_the_request_allows_is_refused():
    """Both sets are the same 30 people; the client holds to no bound, the server to 20."""

    programs = {
        "bank": psi_client(people(30), "shop", SEED),
        "shop": psi_server(people(30), "bank", OTHER_SEED, PsiTerms(most=20)),
    }
    with pytest.raises(ProtocolError, match="bank names 30 common people, the request allows 20"):
        simulate(programs)
