"""What the server has done, counted in plain numbers: a count costs less than a review may notice."""

from collections import Counter
from collections.abc import Callable

from webhook.objects.binding import BindOutcome, BindReason
from webhook.programs.exposition import Spread
from webhook.programs.http.connections import Cause
from webhook.words.outcome import Outcome

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the buckets of durations. The API server waits for five seconds at most."""


SLOW_SECONDS = 1.0
"""A review that takes so long is worth a line of its own."""
PORTS = ("reviews", "ops")


class Counts:
    """All that the server counts. Dry runs are left out: nothing comes of them.

    Args:
        events_lost: Says how many Events could not be written so far.
    """

    def __init__(self, events_lost: Callable[[], int]) -> None:
        self.events_lost = events_lost
        self.admissions: dict[tuple[str, str, str], int] = {}
        """By outcome, reason and profile."""
        self.admission_seconds = Spread(SECONDS)
        """From the arrival of a review of a pod to its answer."""
        self.bindings: Counter[tuple[str, str, str]] = Counter()
        """By outcome, reason and profile, too."""
        self.links: Counter[str] = Counter()
        """Bindings by the link class of their GPUs."""
        self.requirements: Counter[bool] = Counter()
        """Bindings of pods that require something, by whether it was met."""
        self.same_numa: Counter[bool] = Counter()
        """Bindings by whether all GPUs are on one NUMA node."""
        self.rejected: Counter[int] = Counter()
        """Requests to the paths of reviews that got no review as an answer, by HTTP status."""
        self.closed: Counter[tuple[str, str]] = Counter({(port, cause): 0 for port in PORTS for cause in Cause})
        """Connections that the server ended, by port and cause. Each port counts in a thread of its own."""
        self.slow: Counter[str] = Counter()
        """Reviews that took :data:`SLOW_SECONDS` or more once they had arrived, by their path."""
        self.failed_reads: Counter[str] = Counter()
        """By what was read: ``pod`` or ``group``."""
        self.limited_reads: Counter[str] = Counter()
        """Reads that were not done because there were too many: of a ``namespace``, a ``pod``, a ``group``, a ``claim``
        or a ``template``."""
        self.failed_claim_reads: Counter[str] = Counter()
        """By what was read: ``claim`` or ``template``."""
        self.binding_seconds = Spread(SECONDS)
        """How long the answers to reviews of Bindings took."""
        self.waiting_seconds = Spread(SECONDS)
        """Of which for the pod."""
        self.claim_seconds = Spread(SECONDS)
        """How long reviews of pods and of Bindings waited for claims; without those that read none."""

    def claims_read(self, *, seconds: float) -> None:
        """A review has read claims."""
        self.claim_seconds.add(seconds)

    def admitted(self, outcome: Outcome, *, seconds: float) -> None:
        """A review of a pod was answered."""
        key = (outcome.kind, outcome.reason, outcome.profile)
        self.admissions[key] = self.admissions.get(key, 0) + 1
        self.admission_seconds.add(seconds)

    def bound(self, outcome: BindOutcome, *, seconds: float, waiting: float) -> None:
        """A review of a Binding was answered."""
        self.bindings[outcome.kind, outcome.reason, outcome.profile or ""] += 1
        if outcome.link:
            self.links[outcome.link] += 1
        if outcome.satisfied is not None:
            self.requirements[outcome.satisfied] += 1
        if outcome.same_numa is not None:
            self.same_numa[outcome.same_numa] += 1
        self.binding_seconds.add(seconds)
        if outcome.reason is not BindReason.NOT_A_BINDING:
            self.waiting_seconds.add(waiting)
