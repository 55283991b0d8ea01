"""What the API server itself counts about webhooks: calls that reach nobody, and how long it waits for them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.control_plane.control_plane import ControlPlane

DURATION = "apiserver_admission_webhook_admission_duration_seconds"
REJECTIONS = "apiserver_admission_webhook_rejection_count"
NOT_REACHED = "calling_webhook_error"
"""Of the label ``error_type`` (apiserver pkg/admission/metrics/metrics.go)."""


@dataclass(frozen=True)
class Histogram:
    """Observations by their upper bounds.

    Attributes:
        cumulative: How many were at most so much; the last bound is infinite.
    """

    cumulative: Mapping[float, float]

    @property
    def count(self) -> int:
        """Of all observations."""
        return int(self.cumulative.get(float("inf"), 0))

    def since(self, before: "Histogram") -> "Histogram":
        """What came after ``before``."""
        return Histogram({bound: count - before.cumulative.get(bound, 0) for bound, count in self.cumulative.items()})

    def quantile(self, share: float) -> float:
        """Where a straight line through the bucket puts it, as PromQL's ``histogram_quantile`` does."""
        wanted, lower, below = share * self.count, 0.0, 0.0
        for bound, count in sorted(self.cumulative.items()):
            if count >= wanted and count > below:
                return lower if bound == float("inf") else lower + (bound - lower) * (wanted - below) / (count - below)
            lower, below = bound, count
        return lower


@dataclass(frozen=True)
class Asked:
    """One webhook, as the API server sees it since its start.

    Attributes:
        duration: Of its calls, in seconds.
        not_reached: Calls that failed, and with them what was asked for.
    """

    duration: Histogram
    not_reached: int


def asked(control_plane: ControlPlane, webhook: str) -> Asked:
    """What the API server knows of the webhook of this name, such as ``pods.gpu.topology``."""
    lines = [line for line in _exposed(control_plane) if f'name="{webhook}"' in line]
    rejections = (sample for sample in _samples(lines, REJECTIONS) if sample.labels["error_type"] == NOT_REACHED)
    return Asked(histogram_of(lines, DURATION), int(sum(sample.value for sample in rejections)))


def histogram_of(lines: Iterable[str], name: str) -> Histogram:
    """The sum of all histograms of this name among the lines of ``/metrics``."""
    cumulative: dict[float, float] = {}
    for sample in _samples(lines, f"{name}_bucket"):
        bound = float(sample.labels["le"])
        cumulative[bound] = cumulative.get(bound, 0) + sample.value
    return Histogram(cumulative)


def _exposed(control_plane: ControlPlane) -> list[str]:
    with control_plane.client() as client:
        request = client.param_serialize("GET", "/metrics", auth_settings=["BearerToken"])
        text: str = client.call_api(*request).read().decode()
    return text.splitlines()


def _samples(lines: Iterable[str], name: str) -> list[Sample]:
    # Without their types all are samples of their own; and the API server has thousands of lines.
    wanted = "\n".join([*(line for line in lines if line.startswith(f"{name}{{")), ""])
    return [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
