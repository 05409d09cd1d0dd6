"""Keys: published vectors, files that only their owner reads, certificates that work and vouch for nothing else."""

from __future__ import annotations

import hashlib
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import ApprovalError, ConfigError, KeyFileError
from protocols.keys import (
    certificate_fingerprint,
    fingerprint,
    generate_key,
    link_certificate,
    load_key,
    needs_passphrase,
    public_hex,
    save_key,
    sign,
    verify,
)

# RFC 8032, section 7.1, test 3: secret key, public key, message, signature
SECRET = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
PUBLIC = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
MESSAGE = "af82"
SIGNATURE = (
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)
KEY = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
FIELD = 2**255 - 19


# Signatures


def test_the_published_vector():
    assert public_hex(KEY) == PUBLIC
    assert sign(KEY, bytes.fromhex(MESSAGE)) == SIGNATURE
    verify(PUBLIC, bytes.fromhex(MESSAGE), SIGNATURE)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_signature_holds_for_its_content_only(data, other):
    signature = sign(OTHER, data)
    verify(public_hex(OTHER), data, signature)
    if other != data:
        with pytest.raises(ApprovalError):
            verify(public_hex(OTHER), other, signature)
    with pytest.raises(ApprovalError):
        verify(PUBLIC, data, signature)


@given(st.integers(0, 511))
def test_no_bit_of_a_signature_can_change(position):
    raw = bytearray.fromhex(SIGNATURE)
    raw[position // 8] ^= 1 << position % 8
    with pytest.raises(ApprovalError):
        verify(PUBLIC, bytes.fromhex(MESSAGE), raw.hex())


ORDER = 2**252 + 27742317777372353535851937790883648493


def test_a_signature_has_one_spelling():
    """s + L signs the same content in sloppy implementations: then a signed record would have two digests."""
    raw = bytes.fromhex(SIGNATURE)
    twin = int.from_bytes(raw[32:], "little") + ORDER
    with pytest.raises(ApprovalError):
        verify(PUBLIC, bytes.fromhex(MESSAGE), (raw[:32] + twin.to_bytes(32, "little")).hex())


@pytest.mark.parametrize(
    "text",
    [
        "",
        SIGNATURE[:-1],
        SIGNATURE + "0",
        SIGNATURE.upper(),
        SIGNATURE + "\n",
        " " + SIGNATURE[1:],
        "g" * 128,
    ],
)
def test_malformed_signatures(text):
    with pytest.raises(ApprovalError, match="signature"):
        verify(PUBLIC, bytes.fromhex(MESSAGE), text)


@pytest.mark.parametrize(
    "text", ["", PUBLIC[:-1], PUBLIC + "0", PUBLIC.upper(), PUBLIC + "\n", "0x" + PUBLIC[2:], None, 3]
)
def test_malformed_public_keys(text):
    with pytest.raises(ApprovalError, match="public key"):
        verify(text, b"", SIGNATURE)


def test_public_keys_of_small_order_are_refused():
    """Under the neutral element (0, 1) one signature, R = the same point and s = 0, holds for every content."""
    neutral = (1).to_bytes(32, "little").hex()
    forged = neutral + bytes(32).hex()
    for content in (b"approve", b"deny"):
        with pytest.raises(ApprovalError, match="small order"):
            verify(neutral, content, forged)


def small_order_points() -> list[tuple[int, int]]:
    """All points whose order divides 8, found by arithmetic on the curve -x^2 + y^2 = 1 + d x^2 y^2."""
    d = -121665 * pow(121666, -1, FIELD) % FIELD

    def root(square: int) -> int | None:
        candidate = pow(square, (FIELD + 3) // 8, FIELD)
        if (candidate * candidate - square) % FIELD:
            candidate = candidate * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
        return candidate if (candidate * candidate - square) % FIELD == 0 else None

    def add(p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
        t = d * p[0] * q[0] * p[1] * q[1] % FIELD
        x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + t, -1, FIELD)
        y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - t, -1, FIELD)
        return x % FIELD, y % FIELD

    def times(n: int, p: tuple[int, int]) -> tuple[int, int]:
        total = (0, 1)
        while n:
            if n & 1:
                total = add(total, p)
            p, n = add(p, p), n >> 1
        return total

    found: set[tuple[int, int]] = set()
    y = 2
    while len(found) < 8:  # L times any point has an order that divides 8
        x = root((y * y - 1) * pow(d * y * y + 1, -1, FIELD) % FIELD)
        if x is not None:
            torsion = times(ORDER, (x, y))
            found |= {times(n, torsion) for n in range(8)}
        y += 1
    return sorted(found)


def test_all_eight_points_of_small_order_are_refused_in_all_spellings():
    points = small_order_points()
    assert len(points) == 8
    for x, y in points:
        for value in (y, y + FIELD) if y < 19 else (y,):
            for sign_bit in {x & 1, 1} if x == 0 else {x & 1}:
                raw = (value | sign_bit << 255).to_bytes(32, "little")
                with pytest.raises(ApprovalError, match="small order"):
                    verify(raw.hex(), b"", SIGNATURE)
    verify(PUBLIC, bytes.fromhex(MESSAGE), SIGNATURE)


def test_a_public_key_off_the_curve_verifies_nothing():
    off = (2).to_bytes(32, "little").hex()  # no x belongs to y = 2
    with pytest.raises(ApprovalError):
        verify(off, b"", SIGNATURE)


# Files


@pytest.mark.parametrize("passphrase", [None, b"correct horse", "müde".encode()])
def test_a_key_survives_its_file(tmp_path: Path, passphrase):
    path = tmp_path / "owner.pem"
    save_key(path, KEY, passphrase)
    assert path.stat().st_mode & 0o777 == 0o600
    assert public_hex(load_key(path, passphrase)) == PUBLIC
    assert (b"ENCRYPTED" in path.read_bytes()) == (passphrase is not None)


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        save_key(tmp_path / "owner.pem", KEY, None)
    finally:
        os.umask(before)
    assert (tmp_path / "owner.pem").stat().st_mode & 0o777 == 0o600


def test_a_key_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "owner.pem"
    save_key(path, KEY, None)
    kept = path.read_bytes()
    with pytest.raises(KeyFileError, match="never overwritten"):
        save_key(path, OTHER, None)
    assert path.read_bytes() == kept
    (tmp_path / "link.pem").symlink_to(tmp_path / "elsewhere.pem")
    with pytest.raises(KeyFileError, match="never overwritten"):
        save_key(tmp_path / "link.pem", OTHER, None)
    assert not (tmp_path / "elsewhere.pem").exists()


def test_an_empty_passphrase_is_a_mistake(tmp_path: Path):
    with pytest.raises(KeyFileError, match="passphrase is empty"):
        save_key(tmp_path / "owner.pem", KEY, b"")
    assert not (tmp_path / "owner.pem").exists()


def test_a_folder_that_does_not_exist(tmp_path: Path):
    with pytest.raises(KeyFileError, match="cannot be written"):
        save_key(tmp_path / "no" / "owner.pem", KEY, None)
    with pytest.raises(KeyFileError, match="cannot be read"):
        load_key(tmp_path / "no" / "owner.pem", None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o601])
def test_a_file_that_others_can_touch_is_refused(tmp_path: Path, mode):
    path = tmp_path / "owner.pem"
    save_key(path, KEY, None)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}") as caught:
        load_key(path, None)
    assert caught.value.remedy == f"chmod 600 {path}"


@pytest.mark.parametrize(("saved", "given"), [(None, b"x"), (b"x", None), (b"x", b"y"), (b"x", b"")])
def test_another_passphrase(tmp_path: Path, saved, given):
    path = tmp_path / "owner.pem"
    save_key(path, KEY, saved)
    with pytest.raises(KeyFileError, match="passphrase"):
        load_key(path, given)


def write_private(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("content", [b"", b"secret", b"\0" * 100, b"A" * (1 << 15)])
def test_files_that_hold_no_key(tmp_path: Path, content):
    with pytest.raises(KeyFileError) as caught:
        load_key(write_private(tmp_path / "owner.pem", content), None)
    assert "secret" not in str(caught.value)


def test_a_key_of_another_kind(tmp_path: Path):
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(KeyFileError, match="another kind"):
        load_key(write_private(tmp_path / "owner.pem", pem), None)


@pytest.mark.parametrize("cut", [2, 30, 60, 100])
def test_a_file_that_was_cut(tmp_path: Path, cut):
    path = tmp_path / "owner.pem"
    save_key(path, KEY, None)
    write_private(path, path.read_bytes()[:-cut])
    with pytest.raises(KeyFileError):
        load_key(path, None)


def test_a_folder_and_a_pipe_are_no_files(tmp_path: Path):
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("folder", "pipe"):
        with pytest.raises(KeyFileError, match="is not a file"):
            load_key(tmp_path / name, None)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(KeyFileError, match="No space left"):
            save_key(tmp_path / "owner.pem", KEY, None)
    save_key(tmp_path / "owner.pem", KEY, None)
    assert public_hex(load_key(tmp_path / "owner.pem", None)) == PUBLIC


# Fingerprints


def test_fingerprints_are_sha256_in_groups():
    text = fingerprint(b"card")
    assert text.replace("-", "") == hashlib.sha256(b"card").hexdigest()
    assert [len(group) for group in text.split("-")] == [4] * 16


def test_generated_keys_differ():
    assert public_hex(generate_key()) != public_hex(generate_key())


# Link certificates


def test_a_certificate_says_what_it_is_for():
    now = datetime(2030, 6, 1, tzinfo=UTC)
    _, pem = link_certificate("bank", now=now)
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["bank"]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert certificate.not_valid_before_utc < now
    assert 3650 <= (certificate.not_valid_after_utc - now).days <= 3653
    assert (
        certificate_fingerprint(pem)
        == hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    )
    assert certificate_fingerprint(pem.decode()) == certificate_fingerprint(pem)


@pytest.mark.parametrize(
    "name", ["", "a b", "bank.example", "*", "-bank", "bank-", "b" * 64, "bänk", "bank\n", "b_k"]
)
def test_names_that_no_certificate_can_carry(name):
    with pytest.raises(ConfigError, match="link name"):
        link_certificate(name)


def test_a_second_certificate_is_not_smuggled_in():
    _, pem = link_certificate("bank")
    key, other = link_certificate("stranger")
    for text in (pem + other, pem + b"more", b"more" + pem, pem + key, other[:60] + pem, b"", b"\xff", key):
        with pytest.raises(KeyFileError):
            certificate_fingerprint(text)
    assert certificate_fingerprint(pem.replace(b"\n", b"\r\n")) == certificate_fingerprint(pem)
    assert certificate_fingerprint(b"\n" + pem + b"\n") == certificate_fingerprint(pem)
    with pytest.raises(KeyFileError):
        certificate_fingerprint("\ud800")


def context(purpose: int, folder: Path, mine: tuple[bytes, bytes], pinned: bytes) -> ssl.SSLContext:
    folder.mkdir(exist_ok=True)
    (folder / "mine.pem").write_bytes(mine[0] + mine[1])
    made = ssl.SSLContext(purpose)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(folder / "mine.pem")
    made.load_verify_locations(cadata=pinned.decode())
    return made


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """One byte from the client to the server after a full handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="bank"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[0].write(b"x")
    assert ends[1].read(1) == b"x"


def test_two_ends_that_pinned_each_other_shake_hands_and_strangers_do_not(tmp_path: Path):
    bank, shop, stranger = link_certificate("bank"), link_certificate("shop"), link_certificate("shop")
    server = context(ssl.PROTOCOL_TLS_SERVER, tmp_path / "bank", bank, shop[1])
    shake_hands(server, context(ssl.PROTOCOL_TLS_CLIENT, tmp_path / "shop", shop, bank[1]))
    with pytest.raises(ssl.SSLError):
        shake_hands(server, context(ssl.PROTOCOL_TLS_CLIENT, tmp_path / "stranger", stranger, bank[1]))
    with pytest.raises(ssl.SSLError):
        shake_hands(server, context(ssl.PROTOCOL_TLS_CLIENT, tmp_path / "shop", shop, stranger[1]))


def issued_by(key_pem: bytes, certificate_pem: bytes) -> tuple[bytes, bytes]:
    """A certificate that a pinned peer signs for somebody else."""
    issuer = x509.load_pem_x509_certificate(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    other_key, other_pem = link_certificate("shop")
    template = x509.load_pem_x509_certificate(other_pem)
    made = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(issuer.subject)
        .public_key(template.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("shop")]), critical=False)
        .sign(key, None)
    )
    return other_key, made.public_bytes(serialization.Encoding.PEM)


def test_a_pinned_peer_cannot_vouch_for_others(tmp_path: Path):
    bank, shop = link_certificate("bank"), link_certificate("shop")
    server = context(ssl.PROTOCOL_TLS_SERVER, tmp_path / "bank", bank, shop[1])
    other = issued_by(*shop)
    with pytest.raises(ssl.SSLError):
        shake_hands(server, context(ssl.PROTOCOL_TLS_CLIENT, tmp_path / "other", other, bank[1]))


@pytest.mark.parametrize("passphrase", [None, b"open"])
def test_a_key_file_says_whether_it_needs_a_passphrase(tmp_path, passphrase):
    save_key(tmp_path / "key.pem", generate_key(), passphrase)
    assert needs_passphrase(tmp_path / "key.pem") is (passphrase is not None)
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(KeyFileError, match="0644"):
        needs_passphrase(tmp_path / "key.pem")
