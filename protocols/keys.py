"""Ed25519 signatures, key files, link certificates and fingerprints.

Public keys and signatures travel as lower-case hex (64 and 128 digits). Verifying raises; it never returns
a bool that somebody could forget to look at. No error text holds key material or passphrases.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocols.errors import ApprovalError, ConfigError, KeyFileError

CERTIFICATE_YEARS = 10

_KEY_FILE_LIMIT = 1 << 14  # bytes; an Ed25519 key under a passphrase has about 300
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")  # one label of a DNS name
_BOTH_ENDS = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_FIELD = 2**255 - 19
_ORDER_EIGHT_Y = 2707385501144840649318225287225658788936804267575313519463743609750303402022
# The y coordinates of the eight points whose order divides 8 (RFC 8032, section 5.1, has the curve).
_SMALL_ORDER_Y = (0, 1, _FIELD - 1, _ORDER_EIGHT_Y, _FIELD - _ORDER_EIGHT_Y)


def generate_key() -> Ed25519PrivateKey:
    """A new signing key."""
    return Ed25519PrivateKey.generate()


def save_key(path: Path, key: Ed25519PrivateKey, passphrase: bytes | None) -> None:
    """Write the key as PKCS8 PEM, mode 0600, under the passphrase if there is one.

    Raises KeyFileError if the file exists (keys are never overwritten), cannot be written, or the passphrase
    is empty.
    """
    if passphrase is not None and not passphrase:
        raise KeyFileError("the passphrase is empty", remedy="Give a passphrase, or none at all.")
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyFileError(f"{path} exists; keys are never overwritten", remedy="Move it away.") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # half a key would block its own second try
        path.unlink(missing_ok=True)
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None


def load_key(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    """The key in the file.

    Raises KeyFileError if others may read the file, or it holds no Ed25519 key under this passphrase.
    """
    pem = _read_private(path)
    try:
        key = serialization.load_pem_private_key(pem, passphrase)
    except TypeError:  # pyca's way to say that a passphrase is missing or superfluous
        needs = "has no passphrase" if passphrase is not None else "needs its passphrase"
        raise KeyFileError(f"{path} {needs}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} is not a key, or not under this passphrase") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind than Ed25519")
    return key


def needs_passphrase(path: Path) -> bool:
    """Whether the key in the file lies under a passphrase. Raises KeyFileError if others may read the file."""
    return _read_private(path).startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")


def _read_private(path: Path) -> bytes:
    """The file's bytes, if it is a regular file that only its owner can read (checked on the open file)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path} is not a file")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise KeyFileError(f"{path} has mode {mode:04o}, expected 0600", remedy=f"chmod 600 {path}")
        if status.st_size > _KEY_FILE_LIMIT:
            raise KeyFileError(f"{path} is too long for a key")
        return os.read(descriptor, _KEY_FILE_LIMIT)
    finally:
        os.close(descriptor)


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public half, 64 hex digits."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()


def sign(key: Ed25519PrivateKey, data: bytes) -> str:
    """The signature of the data, 128 hex digits."""
    return key.sign(data).hex()


def verify(public_hex: str, data: bytes, signature_hex: str) -> None:
    """Return if the signature is that key's signature of the data; else raise ApprovalError."""
    key = _public_key(public_hex)
    if not re.fullmatch(r"[0-9a-f]{128}", signature_hex):
        raise ApprovalError("a signature is not 128 lower-case hex digits")
    try:
        key.verify(bytes.fromhex(signature_hex), data)
    except InvalidSignature:
        raise ApprovalError(f"the signature is not one of key {public_hex[:8]}... for this content") from None


def _public_key(text: str) -> Ed25519PublicKey:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ApprovalError("a public key is not 64 lower-case hex digits")
    raw = bytes.fromhex(text)
    # A key of small order accepts one signature for many contents: its holder could disown what he signed.
    if (int.from_bytes(raw, "little") & ((1 << 255) - 1)) % _FIELD in _SMALL_ORDER_Y:
        raise ApprovalError("a public key is a point of small order")
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:  # OpenSSL finds out when it verifies, other back ends may say so here
        raise ApprovalError("a public key is not a point of the curve") from None


def fingerprint(data: bytes) -> str:
    """SHA-256 for people to compare: 16 groups of 4 hex digits, joined by hyphens."""
    digits = hashlib.sha256(data).hexdigest()
    return "-".join(digits[start : start + 4] for start in range(0, 64, 4))


def link_certificate(name: str, *, now: datetime | None = None) -> tuple[bytes, bytes]:
    """A new key and its self-signed certificate for the link, both PEM: (key, certificate).

    `name` is one DNS label (ConfigError otherwise) and becomes the certificate's only name. It is valid for
    10 years from a day before `now` (clocks differ), for both ends of TLS, and not as an authority: the one
    who pins it trusts this key, nothing that it signs.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be a link name: expected 1-63 letters, digits and inner hyphens")
    key = Ed25519PrivateKey.generate()
    start = (now or datetime.now(UTC)) - timedelta(days=1)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=365 * CERTIFICATE_YEARS + 3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_BOTH_ENDS), critical=False)
        .sign(key, None)
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem, certificate.public_bytes(serialization.Encoding.PEM)


def _usage() -> x509.KeyUsage:
    """May sign TLS handshakes, nothing else."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def certificate_fingerprint(cert_pem: bytes | str) -> str:
    """SHA-256 of the certificate's DER bytes, 64 hex digits, as TLS peers see it.

    Raises KeyFileError unless the text is exactly one certificate and nothing else: a second one in the same
    text would become a second root of trust that nobody compared.
    """
    pem = cert_pem.encode("utf-8", "replace") if isinstance(cert_pem, str) else cert_pem
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        again = certificate.public_bytes(serialization.Encoding.PEM)
    except ValueError:
        raise KeyFileError("a link certificate is not a PEM certificate") from None
    if again.strip() != pem.replace(b"\r\n", b"\n").strip():
        raise KeyFileError("a link certificate holds more than one plain PEM certificate")
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def certificate_key(cert_pem: bytes | str) -> str:
    """The Ed25519 public key of a link certificate, 64 hex digits. KeyFileError for one of another kind."""
    pem = cert_pem.encode("utf-8", "replace") if isinstance(cert_pem, str) else cert_pem
    certificate_fingerprint(pem)
    key = x509.load_pem_x509_certificate(pem).public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError("a link certificate holds a key of another kind than Ed25519")
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
