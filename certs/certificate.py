"""Functions of certificates: lenient reading, comparison, dates and names."""

import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def load(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``pem``, each once. Unreadable ones are left out."""
    found = dict.fromkeys(filter(None, map(_load_one, _BLOCK.findall(pem))))
    return tuple(found)


def load_authorities(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``pem`` that may issue certificates."""
    return tuple(filter(is_authority, load(pem)))


def encode(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return the certificates as PEM, one after the other."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 digest of the DER form, in lower-case hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether the certificate declares itself an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def is_in_date(certificate: x509.Certificate, now: datetime) -> bool:
    """Return whether the certificate is valid at the time ``now``."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def due(certificate: x509.Certificate) -> datetime:
    """Return the time of replacement of the certificate: after two thirds of its life."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether ``authority`` signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def is_key_of(key: bytes, certificate: x509.Certificate) -> bool:
    """Return whether ``key`` (PEM, unencrypted) is the private key of ``certificate``."""
    try:
        return serialization.load_pem_private_key(key, password=None).public_key() == certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and IP addresses of the certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return frozenset((*found.get_values_for_type(x509.DNSName), *addresses))


def normal_name(name: str) -> str:
    """Return ``name`` in the spelling of :func:`names`, because addresses have many spellings."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _load_one(pem: bytes) -> x509.Certificate | None:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.not_valid_after_utc, certificate.public_key()  # some faults show only on access
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return certificate
