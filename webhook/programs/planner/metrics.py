"""The metrics of the planner, made at each scrape: docs/observability.md."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric

from webhook import __version__
from webhook.cluster.state.report import CacheReport
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import PlannerReport
from webhook.hardware.topology.sets import LinkClass
from webhook.programs.exposition import counter, gauge, info
from webhook.programs.mirror_metrics import cache_families
from webhook.programs.planner.counts import OBSERVED, Counts
from webhook.programs.planner.held_gpus import HeldGpus, PodGpu, PodOnNode
from webhook.programs.planner.writer import Fate

RESULTS = ("pinned", "repinned", "released", "taken", "missed", "refused", "given-up", "taken-back")
WAITING = frozenset(
    (
        PlaceReason.SOON,
        PlaceReason.OTHER_GATES,
        PlaceReason.NO_FREE_CARDS,
        PlaceReason.NO_NODE,
        PlaceReason.NEVER_FITS,
        PlaceReason.REQUIREMENT_NOT_MET,
        PlaceReason.BETTER_LATER,
        PlaceReason.GROUP_INCOMPLETE,
        PlaceReason.TAKEN_BACK,
        PlaceReason.CHANGE_REFUSED,
    )
)
"""The reasons for which a pod may wait."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """The state of the planner at this moment."""

    leads: bool
    report: PlannerReport | None
    """The report about waiting pods; ``None`` if this replica does not lead."""
    caches: tuple[CacheReport, ...]
    events_lost: int
    held: HeldGpus = field(default_factory=HeldGpus)
    """The GPUs that pods hold; empty if this replica does not lead."""


def families(counts: Counts, vitals: Callable[[], Vitals]) -> Iterator[Metric]:
    """Return all metrics. A counter whose labels are known starts with 0, because a rate needs a value to grow from."""
    now = vitals()
    yield info("planner_build", "1; the label names the version of the planner.", version=__version__)
    yield gauge("planner_leader", "Whether this replica chooses cards.", (), {(): float(now.leads)})
    if now.report:
        yield from _waiting(now.report)
    if now.leads:
        yield from _held(now.held)
    yield from _placed(counts)
    yield from _observed(counts)
    yield from _program(counts, now)
    yield from cache_families(now.caches)


def _held(held: HeldGpus) -> Iterator[Metric]:
    """Return the metrics of held GPUs. Only the leader has them, because two series for one GPU could not be joined."""
    yield gauge(
        "pod_gpu_info",
        "1 for each whole GPU that a pod holds for itself; its traffic is the pod's.",
        PodGpu._fields,
        dict.fromkeys(held.gpus, 1),
    )
    yield gauge(
        "pod_gpus_left_out", "GPUs beyond the 20,000 series of gpu_topology_pod_gpu_info.", (), {(): held.left_out}
    )
    yield gauge(
        "pod_bandwidth_ratio",
        "Bandwidth of the weakest pair of a pod's GPUs, as a ratio of the best for as many GPUs of its node.",
        PodOnNode._fields,
        {tuple(labels): ratio for labels, ratio in held.bandwidths.items()},
    )
    yield gauge(
        "pod_bandwidths_left_out",
        "Pods beyond the 20,000 series of gpu_topology_pod_bandwidth_ratio.",
        (),
        {(): held.bandwidths_left_out},
    )


def _placed(counts: Counts) -> Iterator[Metric]:
    results = _words(RESULTS, counts.results)
    yield counter("placements", "Pods by what the planner did about them.", ("result",), results)
    yield counter("choices", "Choices by how the cards are linked.", ("link",), _words(LinkClass, counts.links))
    yield counts.given_up.metric(
        "bandwidth_given_up_gbps",
        "GB/s that the best cards of such a node have more than the chosen ones, where that is more than 0.",
    )
    yield counts.gated_seconds.metric("gated_seconds", "Seconds from the creation of a pod to the opening of its gate.")


def _observed(counts: Counts) -> Iterator[Metric]:
    yield counter(
        "observed_pods",
        "Pods for which HAMi alone chose in mode observe, by whether better cards were free.",
        ("result",),
        _words(OBSERVED, counts.observed),
    )
    yield counts.lost.metric("observed_lost_gbps", "GB/s that better free cards had more, in mode observe.")


def _program(counts: Counts, vitals: Vitals) -> Iterator[Metric]:
    yield counts.choice_seconds.metric("choice_seconds", "Seconds that one round of choices for all pods took.")
    yield counter("planner_writes", "Changes of pods by what became of them.", ("fate",), _words(Fate, counts.writes))
    yield counter("planner_bugs", "Decisions and writes that ended in an exception.", (), {(): counts.bugs})
    yield counter("planner_events_lost", "Events about pods that could not be written.", (), {(): vitals.events_lost})
    yield counter(
        "planner_api_errors",
        "Requests of the planner to the API server that failed.",
        ("resource", "kind"),
        dict(sorted(counts.api_errors.copy().items())),
    )


def _waiting(report: PlannerReport) -> Iterator[Metric]:
    """Return the metrics of waiting pods. Only the leader has them, so that sums over replicas count each pod once."""
    waiting = report.waiting.copy()
    yield gauge(
        "waiting_pods",
        "Pods behind the gate, by the reason of their condition.",
        ("reason",),
        {(str(reason),): waiting.get(reason, 0) for reason in sorted({*WAITING, *waiting})},
    )
    yield gauge(
        "oldest_waiting_seconds",
        "Seconds that the oldest waiting pod has waited, since this leader saw it first.",
        (),
        {(): report.oldest},
    )


def _words(words: Iterable[str], values: Counter[str]) -> dict[tuple[str, ...], float]:
    counted = values.copy()
    return {(str(word),): counted.get(word, 0) for word in words}
