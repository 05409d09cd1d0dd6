"""The codec: random messages survive, hostile bytes never do anything but WireError."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from dataclasses import FrozenInstanceError, dataclass

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocols.errors import GateError, WireError
from protocols.framing import DTYPES
from protocols.wire import (
    HEADER_LIMIT,
    Message,
    array,
    decode,
    encode,
    encoded_size,
    pack_arrays,
    shapes,
    unpack_arrays,
)


@dataclass(frozen=True, slots=True)
class Everything(Message):
    step: int
    loss: float
    last: bool
    note: str
    raw: bytes
    tags: tuple[str, ...]
    aligned: NDArray[np.float32] = array(np.float32, 2)
    rows: NDArray[np.int64] = array(np.int64, 1)
    mask: NDArray[np.bool_] = array(np.bool_, 1)
    scalar: NDArray[np.float64] = array(np.float64, 0)


@dataclass(frozen=True, slots=True)
class Other(Message):
    step: int


@dataclass(frozen=True, slots=True)
class Empty(Message):
    pass


@dataclass(frozen=True, slots=True)
class Pair(Message):
    left: NDArray[np.uint8] = array(np.uint8, 1)
    right: NDArray[np.uint8] = array(np.uint8, 1)

    def check(self) -> None:
        if self.left.shape != self.right.shape:
            raise ValueError("left and right differ in length")


KINDS = (Everything, Other, Empty, Pair)


def example(**changes: object) -> Everything:
    values: dict[str, object] = {
        "step": 3,
        "loss": 0.5,
        "last": True,
        "note": "né",
        "raw": b"\x00\xff",
        "tags": ("a", "", "é"),
        "aligned": np.arange(6, dtype=np.float32).reshape(2, 3),
        "rows": np.array([4, 5]),
        "mask": np.array([True, False, True]),
        "scalar": np.array(2.5),
    }
    return Everything(**{**values, **changes})


def text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def arrays(dtype: type, ndim: int) -> st.SearchStrategy:
    shape = hnp.array_shapes(min_dims=ndim, max_dims=ndim, min_side=0, max_side=4) if ndim else st.just(())
    return hnp.arrays(np.dtype(dtype), shape)


messages = st.builds(
    Everything,
    step=st.integers(-(2**63), 2**63 - 1),
    loss=st.floats(allow_nan=False, allow_infinity=False),
    last=st.booleans(),
    note=text(),
    raw=st.binary(max_size=40),
    tags=st.lists(text(), max_size=4).map(tuple),
    aligned=arrays(np.float32, 2),
    rows=arrays(np.int64, 1),
    mask=arrays(np.bool_, 1),
    scalar=arrays(np.float64, 0),
)


# Round trips


@given(messages)
def test_a_message_survives(message):
    data = encode(message)
    again = decode(data, KINDS)
    assert type(again) is Everything
    assert again == message
    assert hash(again) == hash(message)
    for name in ("aligned", "rows", "mask", "scalar"):
        left, right = getattr(message, name), getattr(again, name)
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()  # NaN, -0.0 and all
        assert not right.flags.writeable
    for name in ("step", "loss", "last", "note", "raw", "tags"):
        assert getattr(again, name) == getattr(message, name)
        assert type(getattr(again, name)) is type(getattr(message, name))


@given(messages)
def test_encoding_is_unique_and_its_size_known(message):
    data = encode(message)
    assert encode(decode(data, KINDS)) == data
    assert encoded_size(message) == len(data)


def test_a_message_without_fields_survives():
    assert decode(encode(Empty()), KINDS) == Empty()


def test_the_bytes_of_one_message():
    """Written by hand from the format's description: a change here is a new format and needs a new magic."""
    message = Pair(left=np.array([1, 2], np.uint8), right=np.array([3, 4], np.uint8))
    header = b'{"kind":"Pair","fields":{"left":["uint8",[2]],"right":["uint8",[2]]}}'
    start = 4 + 4 + len(header)
    expected = b"FDM1" + struct.pack("<I", len(header)) + header
    expected += bytes(-start % 16) + b"\1\2" + bytes(14) + b"\3\4"
    assert encode(message) == expected


def test_big_endian_arrays_travel_little_endian():
    message = example(aligned=np.array([[1.0]], dtype=">f4"))
    assert struct.pack("<f", 1.0) in encode(message)
    assert decode(encode(message), KINDS).aligned[0, 0] == 1.0


def test_decoded_arrays_share_the_received_bytes_and_are_aligned():
    data = encode(example())
    message = decode(data, KINDS)
    assert np.shares_memory(message.aligned, np.frombuffer(data, np.uint8))
    assert all(getattr(message, name).flags.aligned for name in ("aligned", "rows", "scalar"))


# Construction


def test_arrays_are_private_read_only_c_ordered_copies():
    source = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    message = example(aligned=source)
    source[:] = 7
    assert message.aligned.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert message.aligned.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        message.aligned[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        message.step = 4


def test_a_subclass_of_array_becomes_a_plain_one():
    assert type(example(rows=np.array([1, 2]).view(np.recarray)).rows) is np.ndarray


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", True),
        ("step", 1.0),
        ("step", np.int64(1)),
        ("step", 2**63),
        ("step", -(2**63) - 1),
        ("loss", math.nan),
        ("loss", math.inf),
        ("loss", 10**400),
        ("loss", True),
        ("loss", "secret"),
        ("last", 1),
        ("note", b"secret"),
        ("note", "secret\ud800"),
        ("raw", "secret"),
        ("raw", bytearray(b"secret")),
        ("tags", ["secret"]),
        ("tags", ("secret", 1)),
        ("tags", ("secret\udfff",)),
        ("aligned", [[1.0]]),
        ("aligned", np.zeros((1, 1))),
        ("aligned", np.zeros(1, np.float32)),
        ("rows", np.zeros(1, np.int32)),
        ("mask", np.zeros(1, np.uint8)),
        ("rows", np.array([object()])),
        ("scalar", np.float64(1.0)),
    ],
)
def test_wrong_fields_are_refused_by_name_and_without_their_value(field, value):
    with pytest.raises(WireError, match=rf"^Everything\.{field}: ") as caught:
        example(**{field: value})
    assert "secret" not in str(caught.value)


def test_a_whole_number_is_welcome_as_a_float():
    message = example(loss=2)
    assert type(message.loss) is float
    assert decode(encode(message), KINDS) == message


def test_a_kinds_own_rule_holds_at_construction_and_after_decoding():
    with pytest.raises(ValueError, match="differ in length"):
        Pair(left=np.zeros(1, np.uint8), right=np.zeros(2, np.uint8))
    data = encode(Pair(left=np.zeros(1, np.uint8), right=np.zeros(1, np.uint8)))
    lying = reframed(data, lambda header: header["fields"]["right"][1].__setitem__(0, 2)) + b"\0"
    with pytest.raises(WireError, match="differ in length"):
        decode(lying, KINDS)


def test_errors_of_our_family_inside_a_rule_become_wire_errors():
    @dataclass(frozen=True, slots=True)
    class Odd(Message):
        n: int

        def check(self) -> None:
            if self.n:
                raise GateError("odd")

    data = encode(Odd(0)).replace(b'"n":0', b'"n":1')
    with pytest.raises(WireError, match="Odd: odd"):
        decode(data, [Odd])


@pytest.mark.parametrize("annotation", ["list[int]", "int | None", "object", "complex", "tuple[int, ...]"])
def test_fields_that_messages_cannot_hold_are_our_own_mistake(annotation):
    kind = dataclass(frozen=True, slots=True)(
        type("Bad", (Message,), {"__annotations__": {"x": annotation}, "__module__": __name__})
    )
    with pytest.raises(TypeError, match=r"Bad\.x"):
        kind(x=None)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.complex64, np.object_, np.str_, np.datetime64, np.longdouble]
)
def test_other_dtypes_cannot_be_declared(dtype):
    with pytest.raises(TypeError):
        array(dtype, 1)


def test_annotations_that_are_not_postponed_work_too():
    kind = dataclass(frozen=True, slots=True)(
        type("Now", (Message,), {"__annotations__": {"a": int, "b": tuple[str, ...]}, "__module__": __name__})
    )
    message = kind(a=1, b=("x",))
    assert decode(encode(message), [kind]) == message


# Equality


def test_equal_means_bit_equal():
    assert example() == example()
    assert example(scalar=np.array(np.nan)) == example(scalar=np.array(np.nan))
    assert example(scalar=np.array(0.0)) != example(scalar=np.array(-0.0))
    assert example() != example(step=4)
    assert Other(1) != Empty()
    assert Other(1) != 1
    assert len({Other(1), Other(1), Other(2)}) == 2


def test_shapes():
    assert shapes(example()) == {
        "note": (3,),  # bytes of UTF-8
        "raw": (2,),
        "tags": (3,),
        "aligned": (2, 3),
        "rows": (2,),
        "mask": (3,),
        "scalar": (),
    }


# Hostile bytes


def reframed(data: bytes, change) -> bytes:
    """The same buffers under a changed header, well padded: only the header lies."""
    length = struct.unpack_from("<I", data, 4)[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    return with_header(data, json.dumps(header, separators=(",", ":")).encode())


def with_header(data: bytes, raw: bytes) -> bytes:
    length = struct.unpack_from("<I", data, 4)[0]
    body = data[-(-(8 + length) // 16) * 16 :]
    head = data[:4] + struct.pack("<I", len(raw)) + raw
    return head + bytes(-len(head) % 16) + body if body else head


def refused(data: bytes, kinds=KINDS, **options) -> None:
    with pytest.raises(WireError):
        decode(data, kinds, **options)


@given(st.binary(max_size=300))
def test_random_bytes(data):
    refused(data)
    refused(b"FDM1" + data)
    refused(b"FDM1" + struct.pack("<I", len(data)) + data)
    with pytest.raises(WireError):
        unpack_arrays(b"FDA1" + struct.pack("<I", len(data) // 2) + data)


def test_every_truncation_and_every_extension():
    data = encode(example())
    for length in range(len(data)):
        refused(data[:length])
    refused(data + b"\0")
    refused(data + data)


@settings(max_examples=300)
@given(messages, st.data())
def test_flipped_bits_are_refused_or_give_another_valid_message(message, draw):
    data = bytearray(encode(message))
    for _ in range(draw.draw(st.integers(1, 3))):
        position = draw.draw(st.integers(0, len(data) * 8 - 1))
        data[position // 8] ^= 1 << position % 8
    try:
        again = decode(bytes(data), KINDS)
    except WireError:
        return
    assert encode(again) == bytes(data)  # no two encodings of one message: what decodes is canonical


def test_every_single_bit_of_header_and_padding_matters():
    message = example()
    data = encode(message)
    length = struct.unpack_from("<I", data, 4)[0]
    for position in range(8 * (8 + length)):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        try:
            again = decode(bytes(changed), KINDS)
        except WireError:
            continue
        assert again != message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(
    st.sampled_from(["step", "loss", "last", "note", "raw", "tags", "aligned", "rows", "mask", "scalar"]),
    json_values,
)
def test_any_other_value_in_a_field_of_the_header(name, value):
    message = example()
    changed = reframed(encode(message), lambda header: header["fields"].__setitem__(name, value))
    try:
        again = decode(changed, KINDS)
    except WireError:
        return
    if changed == encode(message):
        assert again == message  # hypothesis drew the value that was there
        return
    assert name in ("step", "loss", "last")
    assert encode(again) == changed
    assert getattr(again, name) == value
    assert type(getattr(again, name)) is type(value)


@pytest.mark.parametrize(
    "lie",
    [
        ["float32", [2, 5]],
        ["float32", [2, 2]],
        ["float32", [3, 2, 1]],
        ["float32", [6]],
        ["float32", [-2, -3]],
        ["float32", [True, 6]],
        ["float32", [2.0, 3]],
        ["float32", [2**62, 2**62]],
        ["float32", [0, 10**18]],
        ["float32", [10**4000, 1]],
        ["float32", [2, None]],
        ["float32", {"0": 2}],
        ["float64", [2, 3]],
        ["object", [2, 3]],
        ["O", [2, 3]],
        ["V8", [2, 3]],
        ["<f4", [2, 3]],
        ["float32,float32", [2, 3]],
        ["float32"],
        ["float32", [2, 3], 0],
        "float32",
        24,
        None,
    ],
)
def test_lying_array_descriptions(lie):
    refused(reframed(encode(example()), lambda header: header["fields"].__setitem__("aligned", lie)))


@pytest.mark.parametrize("lie", [-1, 10**12, 2**64, 10**4000, True, 2.0, "2", [2], None])
@pytest.mark.parametrize("name", ["note", "raw"])
def test_lying_lengths(name, lie):
    refused(reframed(encode(example()), lambda header: header["fields"].__setitem__(name, lie)))


@pytest.mark.parametrize(
    "lie", [[3, -1, 1], [1, 0, 20], [1, 0], [2, 1], [True, 0, 2], [10**30], 3, {}, [[1], 0, 2]]
)
def test_lying_lengths_of_texts(lie):
    refused(reframed(encode(example()), lambda header: header["fields"].__setitem__("tags", lie)))


@pytest.mark.parametrize("length", [0, 1, 2**16, 2**16 + 1, 2**31, 2**32 - 1])
def test_lying_header_length(length):
    data = bytearray(encode(example()))
    struct.pack_into("<I", data, 4, length)
    refused(bytes(data))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind":"Other","fields":{"step":1,"step":2}}',
        b'{"kind":"Other","kind":"Other","fields":{"step":1}}',
        b'{"kind":"Other","fields":{"step":1}} ',
        b'{"kind": "Other","fields":{"step":1}}',
        b'{"fields":{"step":1},"kind":"Other"}',
        b'{"kind":"Other","fields":{"step":1},"more":0}',
        b'{"kind":"Other","fields":{"step":1,"more":0}}',
        b'{"kind":"Other","fields":{}}',
        b'{"kind":"Other","fields":[1]}',
        b'{"kind":"Other"}',
        b'{"kind":["Other"],"fields":{"step":1}}',
        b'{"kind":"Message","fields":{}}',
        b'{"kind":"Everyone","fields":{}}',
        b'{"kind":"\\u004fther","fields":{"step":1}}',
        b'{"kind":"Other","fields":{"step":01}}',
        b'{"kind":"Other","fields":{"step":-0}}',
        b'{"kind":"Other","fields":{"step":1.0}}',
        b'{"kind":"Other","fields":{"step":1e0}}',
        b'{"kind":"Other","fields":{"step":NaN}}',
        b'{"kind":"Other","fields":{"step":-Infinity}}',
        b'{"kind":"Other","fields":{"step":1e999}}',
        b'{"kind":"Other","fields":{"step":true}}',
        b'{"kind":"Other","fields":{"step":null}}',
        b'{"kind":"Other","fields":{"step":9223372036854775808}}',
        b'{"kind":"Other","fields":{"step":' + b"9" * 5000 + b"}}",
        b'{"kind":"Other","fields":{"step":' + b"[" * 30000 + b"]" * 30000 + b"}}",
        b'{"a":' * 10000 + b"1" + b"}" * 10000,
        b"[" * 60000,
        b"[]",
        b"null",
        b"",
        b'\xef\xbb\xbf{"kind":"Other","fields":{"step":1}}',
        '{"kind":"Other","fields":{"step":1}}'.encode("utf-16"),
        b'{"kind":"\xff","fields":{"step":1}}',
    ],
)
def test_header_trickery(raw):
    assert decode(with_header(encode(Other(1)), b'{"kind":"Other","fields":{"step":1}}'), KINDS) == Other(1)
    refused(with_header(encode(Other(1)), raw))


def test_padding_must_be_zero():
    data = bytearray(encode(Pair(left=np.array([1], np.uint8), right=np.array([2], np.uint8))))
    data[-2] = 1
    refused(bytes(data))


@pytest.mark.parametrize("value", [2, 128, 255])
def test_bools_are_zero_or_one(value):
    data = pack_arrays({"mask": np.array([True, False, True])})
    assert data.endswith(b"\1\0\1")
    assert unpack_arrays(data)["mask"].tolist() == [True, False, True]
    with pytest.raises(WireError, match="0 and 1"):
        unpack_arrays(data[:-1] + bytes([value]))


def test_text_must_be_utf8():
    data = encode(example(note="né"))
    assert data.count("né".encode()) == 1
    refused(data.replace("né".encode(), b"n\xc3\x28"))


def test_a_cut_through_a_character_is_refused():
    data = encode(example(tags=("é", "é")))
    refused(reframed(data, lambda header: header["fields"].__setitem__("tags", [1, 3])))


def test_only_expected_kinds():
    data = encode(Other(1))
    refused(data, kinds=[Everything])
    refused(data, kinds=[])
    refused(data, kinds=[Message])


def test_the_limit_counts_all_bytes():
    data = encode(example())
    assert decode(data, KINDS, limit=len(data)) == example()
    refused(data, limit=len(data) - 1)


@pytest.mark.parametrize("wrap", [bytearray, memoryview, list, lambda data: data.decode("latin-1")])
def test_only_bytes_are_read(wrap):
    refused(wrap(encode(example())))


def test_too_many_texts_are_refused_when_written():
    with pytest.raises(WireError, match="limit"):
        encode(example(tags=("",) * HEADER_LIMIT))


def test_lies_never_cost_memory():
    data = encode(example())
    lies = [reframed(data, lambda h, n=n: h["fields"].__setitem__("raw", n)) for n in (2**26, 2**40)]
    lies += [
        reframed(data, lambda h, s=s: h["fields"].__setitem__("aligned", ["float32", s]))
        for s in ([2**24, 1], [0, 2**40], [2**12, 2**12])
    ]
    tracemalloc.start()
    try:
        for lie in lies:
            refused(lie)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


# Packed arrays

any_array = st.sampled_from(sorted(DTYPES)).flatmap(
    lambda name: hnp.arrays(np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
array_sets = st.dictionaries(text(), any_array, max_size=4)


@given(array_sets)
def test_packed_arrays_survive_in_order_of_names(arrays):
    data = pack_arrays(arrays)
    again = unpack_arrays(data)
    assert list(again) == sorted(arrays)
    for name, value in arrays.items():
        assert again[name].dtype == value.dtype
        assert again[name].shape == value.shape
        assert again[name].tobytes() == value.tobytes()
        assert not again[name].flags.writeable
    assert pack_arrays(dict(reversed(arrays.items()))) == data


@settings(max_examples=200)
@given(array_sets, st.data())
def test_damaged_packed_arrays(arrays, draw):
    data = pack_arrays(arrays)
    cut = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(WireError):
        unpack_arrays(data[:cut])
    changed = bytearray(data)
    position = draw.draw(st.integers(0, len(data) * 8 - 1))
    changed[position // 8] ^= 1 << position % 8
    try:
        again = unpack_arrays(bytes(changed))
    except WireError:
        return
    assert pack_arrays(again) == bytes(changed)


def test_packed_arrays_keep_views_and_transposes():
    source = np.arange(12).reshape(3, 4)
    again = unpack_arrays(pack_arrays({"t": source.T, "s": source[:, ::2]}))
    assert (again["t"] == source.T).all()
    assert (again["s"] == source[:, ::2]).all()


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), np.zeros(1, np.float16), [1], 1.0])
def test_other_things_cannot_be_packed(value):
    with pytest.raises(WireError, match=r"^weight: "):
        pack_arrays({"weight": value})


def test_too_many_arrays_are_refused_when_written():
    one = np.zeros(0, np.uint8)
    with pytest.raises(WireError, match="50000 arrays"):
        pack_arrays({str(n): one for n in range(50000)})


def test_messages_and_packed_arrays_are_not_confused():
    refused(pack_arrays({}))
    with pytest.raises(WireError):
        unpack_arrays(encode(Empty()))


def test_packed_arrays_out_of_order_and_over_the_limit():
    data = pack_arrays({"a": np.array([1], np.uint8), "b": np.array([2], np.uint8)})
    with pytest.raises(WireError, match="sorted"):
        unpack_arrays(data.replace(b'"a"', b'"c"'))
    with pytest.raises(WireError, match="limit"):
        unpack_arrays(data, limit=len(data) - 1)
