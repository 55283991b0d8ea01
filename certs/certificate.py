"""Certificates and authorities as values: made from names and dates, read leniently, compared and checked."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import BundleError

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
# Clocks of nodes differ by minutes. A certificate must be valid at once on the slowest one.
CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True)
class TlsBundle:
    """A serving certificate with its key and authority: the PEM bytes in ``tls.crt``, ``tls.key`` and ``ca.crt``."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes = b""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that can issue: its certificate and its key in PEM."""

    certificate: x509.Certificate
    key: bytes = field(repr=False)


def load(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``pem``, each once. Unreadable ones are left out."""
    parts = (part.partition(_END) for part in pem.split(_BEGIN)[1:])
    blocks = (_BEGIN + body + end for body, end, _ in parts if end)
    return tuple(dict.fromkeys(filter(None, map(_load_one, blocks))))


def load_authorities(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``pem`` that declare themselves authorities."""
    return tuple(filter(_is_authority, load(pem)))


def leaf(pair: TlsBundle) -> x509.Certificate:
    """Return the certificate of a pair that this package read or made."""
    return load(pair.certificate)[0]


def authority_of(pair: TlsBundle) -> x509.Certificate:
    """Return the authority that issued the pair."""
    return load(pair.authority)[0]


def encode(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return the certificates as PEM, one after the other."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 digest of the DER form, in lower-case hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


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


def issue(names: Sequence[str], *, now: datetime, lifetime: timedelta) -> TlsBundle:
    """Issue a serving certificate for ``names`` (DNS names or IP addresses) by a fresh authority, EC P-256.

    ``now`` must carry its time zone. The authority's key is not stored.
    """
    return issue_serving(names, new_authority(now=now, lifetime=lifetime), now=now, lifetime=lifetime)


def new_authority(*, now: datetime, lifetime: timedelta) -> Authority:
    """Make an authority, EC P-256, that can issue serving certificates and no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Clients find the issuer by its name. If several have one name, a client may take the wrong one.
    serial = x509.random_serial_number()
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "gpu-topology-webhook authority"),
            x509.NameAttribute(NameOID.SERIAL_NUMBER, f"{serial:x}"),
        ]
    )
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, _pem(key))


def issue_serving(names: Sequence[str], authority: Authority, *, now: datetime, lifetime: timedelta) -> TlsBundle:
    """Issue a serving certificate with a fresh key, EC P-256. It ends with its authority at the latest."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-topology-webhook")])
    issuer, end = authority.certificate, min(now + lifetime, authority.certificate.not_valid_after_utc)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("expected the EC key of an authority that this module made")
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), now, end)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return TlsBundle(encode([certificate]), _pem(key), encode([issuer]))


def _load_one(pem: bytes) -> x509.Certificate | None:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.not_valid_after_utc, certificate.public_key()  # some faults show only on access
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return certificate


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
