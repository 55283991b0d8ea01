"""What is served at the moment, as plain values for whoever renders metrics."""

from dataclasses import dataclass, field

from certs.bundle import TlsBundle
from certs.certificate import load


@dataclass(slots=True)
class Served:
    """Until when clients can take what is served for valid, and how often caring for it failed."""

    certificate_ends: float | None = field(default=None, init=False)
    """Unix seconds; None while nothing is served."""
    authority_ends: float | None = field(default=None, init=False)
    """Unix seconds; None while nothing is served, or the authority is not known."""
    failures: int = field(default=0, init=False)
    """Looks that failed, since the start."""
    leads: bool = field(default=False, init=False)
    """Whether this replica renews for all."""

    def take(self, bundle: TlsBundle) -> None:
        """Remember what is served now."""
        self.certificate_ends = _end(bundle.certificate)
        self.authority_ends = _end(bundle.authority)


def _end(pem: bytes) -> float | None:
    """Of the first that ends, if there are several."""
    return min((each.not_valid_after_utc.timestamp() for each in load(pem)), default=None)
