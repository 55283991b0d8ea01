"""The dates and failures of the served certificate, as plain values for metrics."""

from dataclasses import dataclass, field

from certs.bundle import TlsBundle
from certs.certificate import load


@dataclass(slots=True)
class Served:
    """The ends of the served certificate and its authority, and the number of failures."""

    certificate_ends: float | None = field(default=None, init=False)
    """Unix seconds; None while nothing is served."""
    authority_ends: float | None = field(default=None, init=False)
    """Unix seconds; None while nothing is served, or the authority is not known."""
    failures: int = field(default=0, init=False)
    """The number of failed looks since the start."""
    leads: bool = field(default=False, init=False)
    """True if this replica renews for all."""

    def take(self, bundle: TlsBundle) -> None:
        """Record the bundle that is served now."""
        self.certificate_ends = _end(bundle.certificate)
        self.authority_ends = _end(bundle.authority)


def _end(pem: bytes) -> float | None:
    """Return the end of the certificate that ends first; None if there is none."""
    return min((each.not_valid_after_utc.timestamp() for each in load(pem)), default=None)
