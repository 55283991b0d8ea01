"""The webhook configuration: the authorities it names, for how long, and its repair."""

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
        return tuple(
            dict.fromkeys(authority for bundle in self.bundles.values() for authority in load_authorities(bundle))
        )


@dataclass(frozen=True, slots=True)
class Steady:
    """The authorities that one observer has found at every look, and since when, by its own clock."""

    since: Mapping[str, float]
    """The time of the first look, by fingerprint."""
    at: float
    """The time of the last look."""

    def has(self, authority: x509.Certificate) -> bool:
        """Return whether the last look found the authority."""
        return fingerprint(authority) in self.since

    def seconds(self, authority: x509.Certificate) -> float:
        """Return the seconds for which every look has found the authority; 0 if the last one did not."""
        return self.at - self.since.get(fingerprint(authority), self.at)


def observe(before: Steady | None, found: Iterable[x509.Certificate], now: float, *, gap: float) -> Steady:
    """Return the observation after another look, which found these authorities.

    An observer that has not looked for ``gap`` seconds begins anew, because others may not have reached the API server
    either.
    """
    known = before.since if before is not None and now - before.at <= gap else {}
    return Steady({name: known.get(name, now) for name in map(fingerprint, found)}, now)


def read_registration(configuration: Mapping[str, Any], spec: CertificateSpec) -> Registration | None:
    """Read our webhooks from the configuration; None if it has none.

    A webhook is ours if it calls our Service, or a URL instead of a Service.
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


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
