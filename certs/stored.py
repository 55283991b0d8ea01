"""The Secret in the API server: its owner, its content, and its writes."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from certs.errors import ForeignSecret, MissingSecret
from certs.material import Material, read_material, write_material
from certs.requests import Create, Get, Kind, Replace, Request
from certs.spec import CertificateSpec

CERT_MANAGER = "cert-manager.io/certificate-name"
"""Annotation of the Secrets that cert-manager makes: cert-manager.io, "Certificate"."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A Secret of this webhook."""

    manifest: Mapping[str, Any] = field(repr=False)
    material: Material
    request: str
    """The renewal that a person requests."""

    @property
    def resource_version(self) -> str:
        """The version of the object, which changes with each write."""
        return str(self.manifest["metadata"]["resourceVersion"])


def ask(spec: CertificateSpec) -> Request:
    """Return the request that reads the Secret."""
    return Get(Kind.SECRET, spec.secret)


def read_stored(secret: Mapping[str, Any] | None, spec: CertificateSpec) -> Stored | None:
    """Read the Secret; None if there is none.

    Raises:
        ForeignSecret: the Secret does not belong to this webhook.
    """
    if secret is None:
        return None
    annotations = secret["metadata"].get("annotations") or {}
    if secret.get("type") != spec.marks.secret_type:
        by = " that cert-manager made" if CERT_MANAGER in annotations else ""
        raise ForeignSecret(
            f"Secret {spec.namespace}/{spec.secret}: expected type {spec.marks.secret_type}, found one of type "
            f"{secret.get('type')}{by}. Mount it and give --tls DIR to use it; or name another with "
            "certificates.secret, or delete it, and one is made"
        )
    data = {key: _decoded(value) for key, value in (secret.get("data") or {}).items()}
    return Stored(secret, read_material(data), annotations.get(spec.marks.rotate, ""))


def missing(spec: CertificateSpec) -> MissingSecret:
    """Return the error for a missing Secret, with the commands that make one. The webhook fills in the values."""
    return MissingSecret(
        f"there is no Secret {spec.namespace}/{spec.secret}, and the webhook has no right to make one. Make it: "
        f"helm upgrade, or kubectl --namespace {spec.namespace} create secret generic {spec.secret} "
        f"--type={spec.marks.secret_type}"
    )


def write(stored: Stored | None, material: Material, spec: CertificateSpec, *, request: str) -> Request:
    """Create the Secret, or replace it if its version has not changed. Metadata of other writers stays.

    ``request`` is the part of a person's request that is still open.
    """
    data = {key: base64.b64encode(value).decode("ascii") for key, value in write_material(material).items()}
    if stored is None:
        place = {"name": spec.secret, "namespace": spec.namespace}
        header = {"apiVersion": "v1", "kind": "Secret", "type": spec.marks.secret_type, "metadata": place}
        return Create(Kind.SECRET, header | {"data": data})
    metadata = dict(stored.manifest["metadata"])
    annotations: dict[str, str] = dict(metadata.get("annotations") or {})
    annotations.pop(spec.marks.rotate, None)
    metadata["annotations"] = annotations | ({spec.marks.rotate: request} if request else {})
    manifest = dict(stored.manifest) | {"metadata": metadata, "data": data}
    return Replace(Kind.SECRET, spec.secret, manifest)


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
