"""The objects of one installation: the Secret with its certificates, and the webhook configuration that trusts them.

Both are read leniently into values, and written so that nobody else's work is lost.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs import SecretError
from certs.certificate import Authority, TlsBundle, encode, is_issued_by, is_key_of, load, load_authorities

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""The usual names of these keys: kubernetes.io, "TLS Secrets"; cert-manager.io, "Certificate"."""
AUTHORITY_KEY = "ca.key"
NEXT_KEY = "next.key"
CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation of the Secrets that cert-manager makes: cert-manager.io, "Certificate"."""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateSpec:
    """The names and lifetimes of the certificates of one installation."""

    namespace: str
    secret: str
    secret_type: str
    """The type of the Secret. It can never be changed, so it marks for good whose the Secret is."""
    rotate: str
    """The annotation of the Secret by which a person requests a renewal: ``serving`` or ``authority``."""
    service: str
    configuration: str
    """The name of the MutatingWebhookConfiguration."""
    lifetime: timedelta
    authority_lifetime: timedelta
    additional_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names in a serving certificate: those of the Service that the API server and others may use."""
        service = f"{self.service}.{self.namespace}"
        return (self.service, service, f"{service}.svc", f"{service}.svc.cluster.local", *self.additional_names)


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


@dataclass(frozen=True, slots=True)
class Stored:
    """A Secret of this webhook."""

    manifest: Mapping[str, Any] = field(repr=False)
    material: Material
    request: str
    """The renewal that a person requests."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Our webhooks in a MutatingWebhookConfiguration, as read."""

    resource_version: str
    bundles: Mapping[str, bytes]
    """The decoded ``caBundle`` of each webhook, by its name; empty if it has none."""

    @property
    def trusted(self) -> frozenset[x509.Certificate]:
        """The authorities that all our webhooks name."""
        return frozenset.intersection(*(frozenset(load_authorities(bundle)) for bundle in self.bundles.values()))

    @property
    def named(self) -> tuple[x509.Certificate, ...]:
        """The authorities that at least one of our webhooks names."""
        return tuple(dict.fromkeys(each for bundle in self.bundles.values() for each in load_authorities(bundle)))


def read_secret(secret: Mapping[str, Any] | None, spec: CertificateSpec) -> Stored | None:
    """Read the Secret; None if there is none.

    Raises:
        SecretError: the Secret does not belong to this webhook.
    """
    if secret is None:
        return None
    annotations = secret["metadata"].get("annotations") or {}
    if secret.get("type") != spec.secret_type:
        by = " that cert-manager made" if CERT_MANAGER in annotations else ""
        raise SecretError(
            f"Secret {spec.namespace}/{spec.secret}: expected type {spec.secret_type}, found one of type "
            f"{secret.get('type')}{by}. Mount it and give --tls DIR to use it; or name another with "
            "certificates.secret, or delete it, and one is made"
        )
    data = {key: _decoded(value) for key, value in (secret.get("data") or {}).items()}
    return Stored(secret, read_material(data), annotations.get(spec.rotate, ""))


def missing(spec: CertificateSpec) -> SecretError:
    """Return the error for a missing Secret, with the commands that make one. The webhook fills in the values."""
    return SecretError(
        f"there is no Secret {spec.namespace}/{spec.secret}, and the webhook has no right to make one. Make it: "
        f"helm upgrade, or kubectl --namespace {spec.namespace} create secret generic {spec.secret} "
        f"--type={spec.secret_type}"
    )


def written_secret(stored: Stored | None, material: Material, spec: CertificateSpec, *, request: str) -> Object:
    """Return the Secret with this content: a new one, or the stored one, whose version and other metadata stay.

    ``request`` is the part of a person's request that is still open.
    """
    data = {key: base64.b64encode(value).decode("ascii") for key, value in write_material(material).items()}
    if stored is None:
        place = {"name": spec.secret, "namespace": spec.namespace}
        return {"apiVersion": "v1", "kind": "Secret", "type": spec.secret_type, "metadata": place, "data": data}
    metadata = dict(stored.manifest["metadata"])
    annotations: dict[str, str] = dict(metadata.get("annotations") or {})
    annotations.pop(spec.rotate, None)
    metadata["annotations"] = annotations | ({spec.rotate: request} if request else {})
    return dict(stored.manifest) | {"metadata": metadata, "data": data}


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


def read_registration(configuration: Mapping[str, Any] | None, spec: CertificateSpec) -> Registration | None:
    """Read our webhooks from the configuration; None if there is no configuration or it has none of ours.

    A webhook is ours if it calls our Service, or a URL instead of a Service.
    """
    if configuration is None:
        return None
    bundles = {}
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        service = client.get("service")
        if service is None or (service.get("namespace"), service.get("name")) == (spec.namespace, spec.service):
            bundles[str(webhook.get("name"))] = _decoded(client.get("caBundle"))
    version = str((configuration.get("metadata") or {}).get("resourceVersion", ""))
    return Registration(version, bundles) if bundles else None


def repair(registration: Registration, bundle: bytes) -> Object | None:
    """Return a strategic merge patch that gives each of our webhooks ``bundle``; None if all have it.

    The patch fails with a conflict if the configuration has changed since it was read. So a replica that read an older
    Secret cannot overwrite the work of a replica that read a newer one.
    """
    text = base64.b64encode(bundle).decode("ascii")
    wrong = [name for name, found in registration.bundles.items() if found != bundle]
    if not wrong:
        return None
    webhooks = [{"name": name, "clientConfig": {"caBundle": text}} for name in wrong]
    return {"metadata": {"resourceVersion": registration.resource_version}, "webhooks": webhooks}


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


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
