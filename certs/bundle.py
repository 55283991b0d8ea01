"""A serving certificate with its key and authority, and the checks that make it usable."""

import ssl
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.errors import BundleError


@dataclass(frozen=True)
class TlsBundle:
    """The PEM bytes in ``tls.crt``, ``tls.key`` and ``ca.crt`` of a Secret."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes = b""


def read_bundle(directory: Path) -> TlsBundle:
    """Read ``tls.crt``, ``tls.key`` and, if it exists, ``ca.crt``.

    Raises:
        BundleError: ``tls.crt`` or ``tls.key`` cannot be read.
    """
    try:
        certificate, key = ((directory / name).read_bytes() for name in ("tls.crt", "tls.key"))
    except OSError as error:
        raise BundleError(
            f"{directory}: expected tls.crt and tls.key: {error.strerror}: {error.filename}. "
            "Mount the webhook's TLS Secret there, or try --self-signed"
        ) from None
    authority = directory / "ca.crt"
    return TlsBundle(certificate, key, authority.read_bytes() if authority.exists() else b"")


def check_bundle(bundle: TlsBundle, *, now: datetime) -> None:
    """Check that handshakes with the bundle can succeed.

    Raises:
        BundleError: not PEM, key and certificate of different pairs, or a certificate outside its dates.
    """
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate)
    except ValueError as error:
        raise BundleError(f"tls.crt: expected a PEM certificate: {error}. Issue it again") from None
    try:
        key = serialization.load_pem_private_key(bundle.key, password=None)
    except (ValueError, TypeError) as error:
        raise BundleError(f"tls.key: expected an unencrypted PEM private key: {error}. Issue it again") from None
    if certificate.public_key() != key.public_key():
        raise BundleError("tls.key does not belong to tls.crt. Take both from one and the same Secret")
    if now >= certificate.not_valid_after_utc:
        raise BundleError(f"tls.crt ended on {certificate.not_valid_after_utc:%Y-%m-%d}. Issue it again")
    if now < certificate.not_valid_before_utc:
        raise BundleError(
            f"tls.crt begins only on {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC. Check this machine's clock"
        )


def authority_context(authority: bytes) -> ssl.SSLContext:
    """Return a client's TLS context that trusts only ``authority`` (PEM)."""
    return ssl.create_default_context(cadata=authority.decode("ascii"))
