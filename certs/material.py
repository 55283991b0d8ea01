"""What the Secret holds, as a value: read from whatever is left of it, and written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.bundle import TlsBundle
from certs.certificate import encode, is_issued_by, is_key_of, load, load_authorities
from certs.issue import Authority

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""The names that everybody uses: kubernetes.io, "TLS Secrets"; cert-manager.io, "Certificate"."""
AUTHORITY_KEY = "ca.key"
PREVIOUS_CERTIFICATE, PREVIOUS_KEY = "previous.crt", "previous.key"
MOST_AUTHORITIES = 8
"""Clocks that jump to and fro may make many; clients try them all."""


@dataclass(frozen=True, slots=True)
class Material:
    """The usable content of the Secret; dates are not looked at."""

    authorities: tuple[x509.Certificate, ...] = ()
    """Whom clients should trust. The first one issues, the others have issued what some replicas still serve."""
    authority_key: bytes = field(default=b"", repr=False)
    """Of the first authority, PEM; empty if it is lost."""
    serving: TlsBundle | None = None
    """What replicas should serve, once clients trust its authority."""
    previous: TlsBundle | None = None
    """What they serve until then; only for those that start meanwhile."""
    faults: tuple[str, ...] = field(default=(), compare=False)
    """What was not usable, in words for a person."""

    @property
    def signer(self) -> Authority | None:
        """The authority that issues, if its key is there."""
        return Authority(self.authorities[0], self.authority_key) if self.authority_key else None

    @property
    def is_settled(self) -> bool:
        """Whether there is one authority only and nothing from before it."""
        return len(self.authorities) == 1 and self.previous is None


def read_material(data: Mapping[str, bytes]) -> Material:
    """What can be used of the values of the Secret; the rest is named in ``faults``. A new Secret has no values."""
    if not data:
        return Material(faults=("the Secret is empty",))
    faults: list[str] = []
    authorities = load_authorities(data.get(AUTHORITIES, b""))
    if not authorities:
        faults.append(f"{AUTHORITIES}: expected the certificate of an authority, found none")
    key = data.get(AUTHORITY_KEY, b"")
    if authorities and not _can_issue(key, authorities[0]):
        faults.append(f"{AUTHORITY_KEY}: expected the key of the first authority in {AUTHORITIES}")
        key = b""
    serving = _read_pair(data, CERTIFICATE, KEY, authorities, faults)
    previous = None
    if PREVIOUS_CERTIFICATE in data:
        previous = _read_pair(data, PREVIOUS_CERTIFICATE, PREVIOUS_KEY, authorities, faults)
    return Material(authorities, key if authorities else b"", serving, previous, tuple(faults))


def write_material(material: Material) -> dict[str, bytes]:
    """The values of a Secret with this content."""
    data = {AUTHORITIES: encode(material.authorities), AUTHORITY_KEY: material.authority_key}
    if material.serving is not None:
        data |= {CERTIFICATE: material.serving.certificate, KEY: material.serving.key}
    if material.previous is not None:
        data |= {PREVIOUS_CERTIFICATE: material.previous.certificate, PREVIOUS_KEY: material.previous.key}
    return data


def leaf(pair: TlsBundle) -> x509.Certificate:
    """The certificate of a pair that was read or made here."""
    return load(pair.certificate)[0]


def authority_of(pair: TlsBundle) -> x509.Certificate:
    """Who issued it."""
    return load(pair.authority)[0]


def _read_pair(
    data: Mapping[str, bytes],
    certificate_key: str,
    key_key: str,
    authorities: tuple[x509.Certificate, ...],
    faults: list[str],
) -> TlsBundle | None:
    """The pair, if its parts belong together and one of the authorities issued it."""
    found = load(data.get(certificate_key, b""))
    if not found:
        faults.append(f"{certificate_key}: expected a PEM certificate, found none that can be read")
        return None
    if not is_key_of(data.get(key_key, b""), found[0]):
        faults.append(f"{key_key}: expected the unencrypted key of {certificate_key}")
        return None
    issuer = next((each for each in authorities if is_issued_by(found[0], each)), None)
    if issuer is None:
        faults.append(f"{certificate_key}: expected a certificate that an authority in {AUTHORITIES} issued")
        return None
    return TlsBundle(encode(found[:1]), data[key_key], encode([issuer]))


def _can_issue(key: bytes, authority: x509.Certificate) -> bool:
    return is_key_of(key, authority) and isinstance(
        serialization.load_pem_private_key(key, password=None), ec.EllipticCurvePrivateKey
    )
