"""The webhook configuration: which authorities it makes API servers trust, how long, and how it is put right."""

import base64
import binascii
from collections.abc import Iterable, Mapping
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
    def trusted(self) -> frozenset[x509.Certificate]:
        """The authorities that all our webhooks name."""
        return frozenset.intersection(*(frozenset(load_authorities(bundle)) for bundle in self.bundles.values()))

    @property
    def named(self) -> tuple[x509.Certificate, ...]:
        """The authorities that at least one of them names."""
        return tuple(
            dict.fromkeys(authority for bundle in self.bundles.values() for authority in load_authorities(bundle))
        )


@dataclass(frozen=True, slots=True)
class Steady:
    """Authorities that one observer has found at every look, and since when, by its own clock."""

    since: Mapping[str, float]
    """By fingerprint."""
    at: float
    """When it last looked."""

    def has(self, authority: x509.Certificate) -> bool:
        """Whether the last look found the authority."""
        return fingerprint(authority) in self.since

    def seconds(self, authority: x509.Certificate) -> float:
        """How long every look has found the authority; 0 if the last one did not."""
        return self.at - self.since.get(fingerprint(authority), self.at)


def observe(before: Steady | None, found: Iterable[x509.Certificate], now: float, *, gap: float) -> Steady:
    """What is known after another look, which found these authorities.

    An observer that has not looked for ``gap`` seconds begins anew: the API server may have been away, for others too.
    """
    known = before.since if before is not None and now - before.at <= gap else {}
    return Steady({name: known.get(name, now) for name in map(fingerprint, found)}, now)


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
