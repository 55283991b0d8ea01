"""The webhook configuration: which authorities it makes API servers trust, since when, and how that is put right."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from certs.certificate import fingerprint, load_authorities
from certs.spec import CertificateSpec


@dataclass(frozen=True, slots=True)
class Registration:
    """Our webhooks in a MutatingWebhookConfiguration, as it was read."""

    resource_version: str
    bundles: Mapping[str, bytes]
    """``caBundle``, decoded, by the name of the webhook; empty where there is none."""

    @property
    def trusted(self) -> frozenset[str]:
        """Fingerprints of the authorities that all our webhooks name."""
        each = [frozenset(map(fingerprint, load_authorities(bundle))) for bundle in self.bundles.values()]
        return frozenset.intersection(*each) if each else frozenset()

    @property
    def named(self) -> tuple[x509.Certificate, ...]:
        """The authorities that at least one of them names."""
        return tuple(
            dict.fromkeys(authority for bundle in self.bundles.values() for authority in load_authorities(bundle))
        )


@dataclass(frozen=True, slots=True)
class Trust:
    """What one observer knows about it, by its own clock."""

    since: Mapping[str, float]
    """By fingerprint, since when every look has found the authority."""
    at: float
    """When it last looked."""

    def is_settled(self, authority: x509.Certificate, *, settle: float) -> bool:
        """Whether every API server should know the authority by now."""
        since = self.since.get(fingerprint(authority))
        return since is not None and self.at - since >= settle

    def has(self, authority: x509.Certificate) -> bool:
        """Whether the configuration names the authority."""
        return fingerprint(authority) in self.since


def read_registration(configuration: Mapping[str, Any], spec: CertificateSpec) -> Registration | None:
    """Our webhooks in the configuration; None if it has none.

    Ours are those that are reached at our Service, or at a URL instead of a Service.
    """
    bundles = {}
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        service = client.get("service")
        if service is None or (service.get("namespace"), service.get("name")) == (spec.namespace, spec.service):
            bundles[str(webhook.get("name"))] = _decoded(client.get("caBundle"))
    version = str((configuration.get("metadata") or {}).get("resourceVersion", ""))
    return Registration(version, bundles) if bundles else None


def observe(before: Trust | None, registration: Registration, now: float, *, settle: float) -> Trust:
    """What is known after another look; who has not looked for ``settle`` seconds begins anew."""
    known = before.since if before is not None and now - before.at <= settle else {}
    return Trust({each: known.get(each, now) for each in registration.trusted}, now)


def repair(registration: Registration, bundle: bytes) -> dict[str, Any] | None:
    """A strategic merge patch that gives each of our webhooks ``bundle``; None if they have it.

    It fails with a conflict when the configuration is no longer the one that was read. So whoever read the Secret
    after it cannot overwrite what was written by a replica that read a newer Secret.
    """
    text = base64.b64encode(bundle).decode("ascii")
    wrong = [name for name, found in registration.bundles.items() if found != bundle]
    if not wrong:
        return None
    webhooks = [{"name": name, "clientConfig": {"caBundle": text}} for name in wrong]
    return {"metadata": {"resourceVersion": registration.resource_version}, "webhooks": webhooks}


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
