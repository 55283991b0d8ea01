"""The specification of the certificates of one installation: names, places, lifetimes, and pace of care."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Marks:
    """The names that the caller gives to our marks beside certificates."""

    secret_type: str
    """The type of the Secret. It can never be changed, so it marks for good whose the Secret is."""
    rotate: str
    """The annotation of the Secret by which a person requests a renewal: ``serving`` or ``authority``."""
    field_manager: str
    """The name of the writer of fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CertificateSpec:
    """The names and lifetimes of certificates."""

    marks: Marks
    namespace: str
    secret: str
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

    @property
    def leader_lease(self) -> str:
        """The name of the Lease. Only its holder writes."""
        return self.secret


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The pace of the care, in seconds by a clock that never goes back."""

    check: float = 15.0
    """The time between two looks at the Secret and the webhook configuration."""
    settle: float = 120.0
    """The time for which the webhook configuration must have named an authority before its certificates are served. API
    servers learn of it by a watch, each at its own time."""
    overlap: float = 3600.0
    """The time for which the old authority stays trusted after the Secret has told replicas to serve certificates of
    the new one. A replica that cannot reach the API server goes on with the old certificate, and may do so until
    ``settle`` before the end. There is time: the old authority has a third of its life left."""
    soon: float = 1.0
    """The time to the next look when something has just changed, or nothing can be served yet."""

    @property
    def lease(self) -> float:
        """The time for which a leader may be silent before another one takes over."""
        return 4 * self.check
