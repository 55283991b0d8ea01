"""What the certificates of one installation are to be like: names, places, lifetimes, and the pace of their care."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Marks:
    """How the caller spells what we write beside certificates."""

    secret_type: str
    """Type of the Secret. It can never be changed, so it tells for good whose the Secret is."""
    rotate: str
    """Annotation of the Secret: what a person wants to be renewed at once, ``serving`` or ``authority``."""
    field_manager: str
    """Who wrote a field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateSpec:
    """Names and lifetimes."""

    marks: Marks
    namespace: str
    secret: str
    service: str
    configuration: str
    """Name of the MutatingWebhookConfiguration."""
    lifetime: timedelta
    authority_lifetime: timedelta
    additional_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What a serving certificate is for: the names of the Service that the API server and others may use."""
        service = f"{self.service}.{self.namespace}"
        return (self.service, service, f"{service}.svc", f"{service}.svc.cluster.local", *self.additional_names)

    @property
    def leader_lease(self) -> str:
        """Name of the Lease whose holder alone writes."""
        return self.secret


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often and how patiently, in seconds by a clock that never goes back."""

    check: float = 15.0
    """Between two looks at the Secret and the webhook configuration."""
    settle: float = 120.0
    """So long the webhook configuration must have named an authority before certificates of it are served: API servers
    learn of it by a watch, each at its own time."""
    overlap: float = 3600.0
    """So long the old authority stays trusted after the Secret has told replicas to serve certificates of the new one.
    A replica that cannot reach the API server goes on with the old certificate, and may do so until ``settle`` before
    the end. Nothing is urgent about it: the old authority has a third of its life left."""
    soon: float = 1.0
    """Until the next look when something has just changed, or nothing can be served yet."""

    @property
    def lease(self) -> float:
        """How long a leader may be silent before another one takes over."""
        return 4 * self.check
