import hashlib
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols import keys
from protocols.errors import RequestError
from protocols.request import (
    ComputationRequest,
    Difference,
    canonical,
    differences,
    digest,
    parse,
    parse_signed,
    party,
    sign_request,
    to_text,
)
from tests.protocols.samples import People, party_entry, release, sample_block, sample_request

PEOPLE = People()
REQUEST = sample_request(PEOPLE)


def edited(**changes: object) -> bytes:
    plain = json.loads(canonical(REQUEST)) | changes
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_the_digest_is_the_hash_of_the_canonical_bytes_and_survives_parsing() -> None:
    data = canonical(REQUEST)
    assert digest(REQUEST) == hashlib.sha256(data).hexdigest()
    assert parse(data) == REQUEST
    assert canonical(parse(data)) == data


def test_a_digest_is_the_same_in_every_release() -> None:
    """If this fails, every request that was approved before is void: the canonical form must not drift."""
    fixed = replace(
        REQUEST,
        analyst=replace(REQUEST.analyst, key="1" * 64),
        parties=tuple(replace(p, signing_key=str(i) * 64) for i, p in enumerate(REQUEST.parties, start=2)),
    )
    assert digest(fixed) == "1cb3597b45cfe1c151080e1337bfd35b51beecbca8821a796655487a15dea2c7"


@pytest.mark.parametrize("name", [f.name for f in fields(ComputationRequest)])
def test_a_missing_field_is_named(name: str) -> None:
    plain = json.loads(canonical(REQUEST))
    del plain[name]
    with pytest.raises(RequestError, match=f"missing field '{name}'"):
        parse(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(RequestError, match="unknown field 'extra'"):
        parse(edited(extra=1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runs", 1.0),
        ("runs", True),
        ("runs", "1"),
        ("purpose", 3),
        ("analyst", "ana"),
        ("parties", {}),
        ("manifest", None),
        ("public_seed", None),
        ("analyst_receives", "metrics"),
    ],
)
def test_a_mistyped_field_is_named(field: str, value: object) -> None:
    with pytest.raises(RequestError, match=rf"\.{field}: expected"):
        parse(edited(**{field: value}))


def test_a_wrong_field_inside_a_list_is_named_with_its_place() -> None:
    plain = json.loads(canonical(REQUEST))
    plain["manifest"][1]["repetitions"] = 0
    with pytest.raises(RequestError, match=r"manifest\[1\]\.repetitions: expected 1 or more"):
        parse(edited(manifest=plain["manifest"]))


def test_bytes_that_are_not_canonical_are_refused() -> None:
    data = canonical(REQUEST)
    plain = json.loads(data)
    others = [
        json.dumps(plain).encode(),
        json.dumps(dict(reversed(plain.items())), separators=(",", ":")).encode(),
        data + b"\n",
        b" " + data,
        data.replace(b'"runs":1', b'"runs":1,"runs":1'),
        data.replace(b'"Ana"', b'"\\u0041na"'),
        data.replace(b"0.5", b"0.50"),
        data.replace(b"0.5", b"5e-1"),
        b"\xef\xbb\xbf" + data,
        data.decode().encode("utf-16"),
    ]
    for other in others:
        assert other != data
        with pytest.raises(RequestError):
            parse(other)


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b"\xff", b"NaN", b"[" * 100_000, b"1" * 5000, b" " * (1 << 23)]
)
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with pytest.raises(RequestError):
        parse(data)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_without_a_canonical_form_is_refused(number: str) -> None:
    with pytest.raises(RequestError):
        parse(canonical(REQUEST).replace(b"0.5", number.encode()))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_other_bytes_have_the_same_request(data: st.DataObject) -> None:
    original = bytearray(canonical(REQUEST))
    place = data.draw(st.integers(0, len(original) - 1))
    original[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != original[place]))
    try:
        parsed = parse(bytes(original))
    except RequestError:
        return
    assert digest(parsed) == hashlib.sha256(original).hexdigest() != digest(REQUEST)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"purpose": ""}, "purpose"),
        ({"purpose": " "}, "purpose"),
        ({"purpose": "credit\u202e"}, "purpose"),
        ({"purpose_text": "a\x1b[2J"}, "purpose_text"),
        ({"parties": ()}, "parties"),
        ({"parties": (REQUEST.parties[0], REQUEST.parties[0])}, "parties.role"),
        ({"parties": (REQUEST.parties[0], replace(REQUEST.parties[0], role="passive"))}, "parties.name"),
        (
            {"parties": (REQUEST.parties[0], party_entry("retailer", "passive", PEOPLE.bank))},
            "parties.signing_key",
        ),
        (
            {"parties": (REQUEST.parties[0], party_entry("retailer", "passive", PEOPLE.analyst))},
            "analyst.key",
        ),
        ({"blocks": (replace(sample_block(), role="other"),)}, "blocks.role"),
        ({"blocks": (sample_block(), sample_block())}, "blocks"),
        ({"manifest": (release("A", "active", "nobody"),)}, "manifest.receiver"),
        ({"manifest": (release("A", "nobody", "active"),)}, "manifest.sender"),
        ({"manifest": (release("A", "active", "passive"),) * 2}, "manifest"),
        ({"expires": "2030-02-01T00:00:00"}, "expires"),
        ({"expires": "2030-02-01T00:00:00+00:00"}, "expires"),
        ({"expires": "2030-02-01T01:00:00+01:00"}, "expires"),
        ({"expires": "2030-02-30T00:00:00Z"}, "expires"),
        ({"expires": "2030-02-01Z"}, "expires"),
        ({"expires": "soon"}, "expires"),
        ({"runs": 0}, "runs"),
        ({"minimum_group": 0}, "minimum_group"),
        ({"minimum_overlap": 0}, "minimum_overlap"),
        ({"public_seed": -1}, "public_seed"),
        ({"public_seed": 1 << 63}, "public_seed"),
        ({"nonce": "c" * 31}, "nonce"),
        ({"nonce": "C" * 32}, "nonce"),
        ({"code_digest": "b" * 63}, "code_digest"),
        ({"parameters": (("b", 1), ("a", 1))}, "parameters"),
        ({"parameters": (("a", 1), ("a", 2))}, "parameters"),
        ({"parameters": (("a", float("nan")),)}, r"parameters\[0\]"),
        ({"parameters": (("a", None),)}, r"parameters\[0\]"),
        ({"parameters": [("a", 1)]}, "parameters"),
    ],
)
def test_a_wrong_request_cannot_be_made(changes: dict[str, object], field: str) -> None:
    with pytest.raises(RequestError, match=rf"^{field}"):
        sample_request(PEOPLE, **changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"columns": ("age", "age")}, "columns"),
        ({"columns": ("age", "income")}, "columns"),
        ({"columns": ("age", "customer")}, "columns"),
        ({"label": "customer"}, "columns"),
        ({"columns": ("",)}, "columns"),
        ({"columns": "age"}, "columns"),
        ({"version": 0}, "version"),
        ({"rows": 0}, "rows"),
        ({"commitment": "x" * 64}, "commitment"),
        ({"key_rule": ""}, "key_rule"),
    ],
)
def test_a_wrong_block_cannot_be_made(changes: dict[str, object], field: str) -> None:
    with pytest.raises(RequestError, match=rf"^{field}"):
        replace(sample_block(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"repetitions": 0},
        {"max_bytes": 0},
        {"shapes": (("a", (1,)), ("a", (2,)))},
        {"shapes": (("a", (-1,)),)},
        {"shapes": (("a b", (1,)),)},
        {"shapes": (("a", (1.5,)),)},
        {"learns": ""},
        {"receiver": "active"},
    ],
)
def test_a_wrong_release_cannot_be_made(changes: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=rf"^{next(iter(changes))}"):
        release("A", "active", str(changes.pop("receiver", "passive")), **changes)


@pytest.mark.parametrize(
    "address", ["host", "host:1", "host:2-1", "host:0-5", "host:1-65536", "a b:1-2", "host:1-2\n", "::1:1-2"]
)
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(RequestError, match=r"^address"):
        party_entry("bank", "active", PEOPLE.bank, address)


@pytest.mark.parametrize("address", ["", "127.0.0.1:7000-7000", "bank.example:1-65535", "[::1]:7000-7009"])
def test_a_right_address_is_taken(address: str) -> None:
    assert party_entry("bank", "active", PEOPLE.bank, address).address == address


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "a b", "x" * 65, "bank\n", "\u0431ank"])
def test_a_party_name_that_is_no_safe_file_name_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match=r"^name"):
        replace(REQUEST.parties[0], name=name)


def test_party_is_found_by_role_and_a_wrong_role_says_which_there_are() -> None:
    assert party(REQUEST, "passive").name == "retailer"
    with pytest.raises(RequestError, match="'bank' is not in the request; it has active, passive"):
        party(REQUEST, "bank")


def test_a_signed_request_travels_as_text() -> None:
    signed = sign_request(REQUEST, PEOPLE.analyst)
    assert parse_signed(to_text(signed)) == signed


def test_only_the_analyst_of_the_request_can_sign_it() -> None:
    with pytest.raises(RequestError, match=r"^analyst\.key"):
        sign_request(REQUEST, PEOPLE.bank)


def test_an_altered_signed_request_is_refused() -> None:
    text = to_text(sign_request(REQUEST, PEOPLE.analyst))
    with pytest.raises(RequestError, match="altered"):
        parse_signed(text.replace('"runs":1', '"runs":2'))
    with pytest.raises(RequestError):
        parse_signed(text + "\ud800")


def test_a_bare_signature_of_the_canonical_bytes_is_no_request_signature() -> None:
    signed = replace(
        sign_request(REQUEST, PEOPLE.analyst), signature=keys.sign(PEOPLE.analyst, canonical(REQUEST))
    )
    with pytest.raises(RequestError, match="altered"):
        parse_signed(to_text(signed))


def test_differences_go_down_to_the_manifest_line() -> None:
    wider = replace(REQUEST.manifest[0], max_bytes=501)
    new = replace(REQUEST, runs=2, manifest=(wider, REQUEST.manifest[1]))
    assert differences(REQUEST, new) == (
        Difference(field="runs", old="1", new="2"),
        Difference(field="manifest[Values passive -> active].max_bytes", old="500", new="501"),
    )


def test_an_added_line_a_removed_line_and_a_new_order_are_differences() -> None:
    more = release("More", "active", "passive")
    new = replace(REQUEST, manifest=(REQUEST.manifest[1], REQUEST.manifest[0], more), blocks=())
    found = {d.field: d for d in differences(REQUEST, new)}
    assert found["manifest[More active -> passive].repetitions"].old is None
    assert found["blocks[active/customers].columns"] == Difference(
        field="blocks[active/customers].columns", old='["age","hours"]', new=None
    )
    swapped = replace(REQUEST, manifest=REQUEST.manifest[::-1])
    assert [d.field for d in differences(REQUEST, swapped)] == ["manifest (order)"]


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "runs": st.integers(1, 3),
        "purpose": st.sampled_from(["credit risk", "other"]),
        "parameters": st.sampled_from(
            [(("a", 1),), (("a", 1.0),), (("a", True),), (("a", "1"),), (("a", 0.0),), (("a", -0.0),)]
        ),
        "parties": st.sampled_from([REQUEST.parties, REQUEST.parties[::-1]]),
        "analyst_receives": st.sampled_from([("metrics",), ()]),
        "manifest": st.permutations(REQUEST.manifest).map(tuple),
    },
)


@given(CHANGES, CHANGES)
@settings(max_examples=200, deadline=None)
def test_no_difference_exactly_when_the_digests_are_equal(
    old: dict[str, object], new: dict[str, object]
) -> None:
    a, b = sample_request(PEOPLE, **old), sample_request(PEOPLE, **new)
    assert (differences(a, b) == ()) == (digest(a) == digest(b))
