"""The counts of the server, in plain numbers, so that a count costs next to nothing beside a review."""

from collections import Counter
from collections.abc import Callable

from webhook.objects.binding import BindOutcome, BindReason
from webhook.programs.exposition import Spread
from webhook.words.outcome import Outcome

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the buckets of durations. The API server waits for five seconds at most."""
SLOW_SECONDS = 1.0
"""Duration from which on a review is logged as slow."""


class Counts:
    """The counts of the server. Dry runs are left out, because they change nothing.

    Args:
        events_lost: Returns the number of Events that could not be written so far.
    """

    def __init__(self, events_lost: Callable[[], int]) -> None:
        self.events_lost = events_lost
        self.admissions: dict[tuple[str, str, str], int] = {}
        """Answered reviews of pods, by outcome, reason and profile."""
        self.admission_seconds = Spread(SECONDS)
        """Seconds from the arrival of a review of a pod to its answer."""
        self.bindings: Counter[tuple[str, str, str]] = Counter()
        """Answered reviews of Bindings, by outcome, reason and profile."""
        self.links: Counter[str] = Counter()
        """Bindings, by the link class of their GPUs."""
        self.requirements: Counter[bool] = Counter()
        """Bindings of pods that require something, by whether it was met."""
        self.same_numa: Counter[bool] = Counter()
        """Bindings, by whether all GPUs are on one NUMA node."""
        self.rejected: Counter[int] = Counter()
        """Requests to the paths of reviews that got no review as an answer, by HTTP status."""
        self.slow: Counter[str] = Counter()
        """Reviews that took :data:`SLOW_SECONDS` or more once they had arrived, by their path."""
        self.failed_reads: Counter[str] = Counter()
        """Failed reads of pods, by what was read: ``pod`` or ``group``."""
        self.limited_reads: Counter[str] = Counter()
        """Reads that were not done because there were too many, by what was read: ``namespace``."""
        self.failed_claim_reads: Counter[str] = Counter()
        """Failed reads of claims, by what was read: ``claim`` or ``template``."""
        self.binding_seconds = Spread(SECONDS)
        """Seconds from the arrival of a review of a Binding to its answer."""
        self.waiting_seconds = Spread(SECONDS)
        """Seconds of these in which the review waited for pods."""
        self.claim_seconds = Spread(SECONDS)
        """Seconds that reviews of pods and of Bindings waited for claims, without the reviews that read none."""

    def claims_read(self, *, seconds: float) -> None:
        """Count the reads of claims of one review."""
        self.claim_seconds.add(seconds)

    def admitted(self, outcome: Outcome, *, seconds: float) -> None:
        """Count an answered review of a pod."""
        key = (outcome.kind, outcome.reason, outcome.profile)
        self.admissions[key] = self.admissions.get(key, 0) + 1
        self.admission_seconds.add(seconds)

    def bound(self, outcome: BindOutcome, *, seconds: float, waiting: float) -> None:
        """Count an answered review of a Binding."""
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
