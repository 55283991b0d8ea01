"""The issue of certificate authorities and serving certificates, from names and dates alone."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.bundle import TlsBundle
from certs.certificate import encode

# Clocks of nodes differ by minutes. A certificate must be valid at once on the slowest one.
CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that can issue: its certificate and its key in PEM."""

    certificate: x509.Certificate
    key: bytes = field(repr=False)


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
