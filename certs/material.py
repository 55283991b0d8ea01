"""The content of the Secret as a value: lenient reading, and writing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs.bundle import TlsBundle
from certs.certificate import encode, is_issued_by, is_key_of, load, load_authorities
from certs.issue import Authority

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""The usual names of these keys: kubernetes.io, "TLS Secrets"; cert-manager.io, "Certificate"."""
AUTHORITY_KEY = "ca.key"
NEXT_KEY = "next.key"
MOST_AUTHORITIES = 8
"""The most authorities in a Secret. Clocks that jump to and fro may make many, and clients try them all."""


@dataclass(frozen=True, slots=True)
class Material:
    """The usable content of the Secret, regardless of dates."""

    authorities: tuple[x509.Certificate, ...] = ()
    """The authorities that clients should trust. The first one issues. One of the others may be the next to issue, and
    the rest have issued certificates that some replicas may still serve."""
    authority_key: bytes = field(default=b"", repr=False)
    """The key of the first authority, PEM; empty if it is lost."""
    serving: TlsBundle | None = None
    """The pair that replicas should serve."""
    next: Authority | None = None
    """The one of the authorities that will issue as soon as clients trust it."""
    faults: tuple[str, ...] = field(default=(), compare=False)
    """The unusable parts, in words for a person."""

    @property
    def signer(self) -> Authority | None:
        """The authority that issues, or None if its key is lost."""
        return Authority(self.authorities[0], self.authority_key) if self.authority_key else None


def read_material(data: Mapping[str, bytes]) -> Material:
    """Read the usable values of the Secret; ``faults`` names the rest. A new Secret has no values."""
    if not data:
        return Material(faults=("the Secret is empty",))
    faults: list[str] = []
    authorities = load_authorities(data.get(AUTHORITIES, b""))
    if not authorities:
        faults.append(f"{AUTHORITIES}: expected the certificate of an authority, found none")
    upcoming = _authority_with(data.get(NEXT_KEY, b""), authorities[1:])
    if upcoming is None and NEXT_KEY in data:
        faults.append(f"{NEXT_KEY}: expected the key of an authority in {AUTHORITIES} other than the first")
    signer = _authority_with(data.get(AUTHORITY_KEY, b""), authorities[:1])
    # An authority without a key is no fault while its successor has one.
    if authorities and signer is None and upcoming is None:
        faults.append(f"{AUTHORITY_KEY}: expected the key of the first authority in {AUTHORITIES}")
    serving = _read_pair(data, authorities, faults)
    return Material(authorities, signer.key if signer else b"", serving, upcoming, tuple(faults))


def write_material(material: Material) -> dict[str, bytes]:
    """Return the values of a Secret with this content."""
    data = {AUTHORITIES: encode(material.authorities), AUTHORITY_KEY: material.authority_key}
    if material.serving is not None:
        data |= {CERTIFICATE: material.serving.certificate, KEY: material.serving.key}
    if material.next is not None:
        data[NEXT_KEY] = material.next.key
    return data


def leaf(pair: TlsBundle) -> x509.Certificate:
    """Return the certificate of a pair that this package read or made."""
    return load(pair.certificate)[0]


def authority_of(pair: TlsBundle) -> x509.Certificate:
    """Return the authority that issued the pair."""
    return load(pair.authority)[0]


def _read_pair(
    data: Mapping[str, bytes], authorities: tuple[x509.Certificate, ...], faults: list[str]
) -> TlsBundle | None:
    """Return the serving pair, if its parts belong together and one of the authorities issued it."""
    found = load(data.get(CERTIFICATE, b""))
    if not found:
        faults.append(f"{CERTIFICATE}: expected a PEM certificate, found none that can be read")
        return None
    if not is_key_of(data.get(KEY, b""), found[0]):
        faults.append(f"{KEY}: expected the unencrypted key of {CERTIFICATE}")
        return None
    issuer = next((each for each in authorities if is_issued_by(found[0], each)), None)
    if issuer is None:
        faults.append(f"{CERTIFICATE}: expected a certificate that an authority in {AUTHORITIES} issued")
        return None
    return TlsBundle(encode(found[:1]), data[KEY], encode([issuer]))


def _authority_with(key: bytes, authorities: tuple[x509.Certificate, ...]) -> Authority | None:
    """Return the one of the authorities that can issue with ``key`` (PEM), or None."""
    found = next((each for each in authorities if is_key_of(key, each)), None)
    if found is None or not isinstance(found.public_key(), ec.EllipticCurvePublicKey):
        return None
    return Authority(found, key)
