"""The metrics of the planner, made at each scrape: docs/observability.md."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import Metric

from webhook import __version__
from webhook.exposition import counter, gauge, info
from webhook.place.pod import UnboundPod
from webhook.planner.counts import Counts
from webhook.state.metrics import cache_families
from webhook.state.report import CacheReport

RESULTS = ("pinned", "repinned", "released", "taken", "refused", "given-up")
FATES = ("done", "stale", "refused", "abandoned")


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """How the planner is at this moment."""

    leads: bool
    waiting: tuple[UnboundPod, ...]
    """Pods with our gate."""
    caches: tuple[CacheReport, ...]
    events_lost: int
    now: datetime


def families(counts: Counts, vitals: Callable[[], Vitals]) -> Iterator[Metric]:
    """All metrics. A counter whose labels are known is there with 0, because a rate needs a value to grow from."""
    now = vitals()
    yield info("planner_build", "1; the label names the version of the planner.", version=__version__)
    yield gauge("planner_leader", "Whether this replica chooses cards.", (), {(): float(now.leads)})
    if now.leads:
        yield from _waiting(now)
    yield counter(
        "placements", "Pods by what the planner did about them.", ("result",), _words(RESULTS, counts.results)
    )
    yield counter("planner_writes", "Changes of pods by what became of them.", ("fate",), _words(FATES, counts.writes))
    yield counter("planner_bugs", "Decisions that ended in an exception.", (), {(): counts.bugs})
    yield counter("planner_events_lost", "Events about pods that could not be written.", (), {(): now.events_lost})
    yield counts.gated_seconds.metric("gated_seconds", "Seconds from the creation of a pod to the opening of its gate.")
    yield counts.decision_seconds.metric("decision_seconds", "Seconds that one round of decisions took.")
    yield counter(
        "planner_api_errors",
        "Requests of the planner to the API server that failed.",
        ("resource", "kind"),
        dict(sorted(counts.api_errors.copy().items())),
    )
    yield from cache_families(now.caches)


def _waiting(vitals: Vitals) -> Iterator[Metric]:
    """Of the leader alone, so that a sum over the replicas counts each pod once."""
    reasons = Counter(pod.placed.reason for pod in vitals.waiting)
    yield gauge(
        "waiting_pods",
        "Pods that wait for cards, by the reason of their condition.",
        ("reason",),
        {(reason,): number for reason, number in sorted(reasons.items())} or {("",): 0},
    )
    ages = [(vitals.now - created).total_seconds() for pod in vitals.waiting if (created := _time(pod.created))]
    yield gauge("oldest_waiting_seconds", "How long the oldest of them waits.", (), {(): max(0.0, *ages, 0.0)})


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _words(words: tuple[str, ...], values: Counter[str]) -> dict[tuple[str, ...], float]:
    counted = dict(values)
    return {(word,): counted.get(word, 0) for word in (*words, *sorted(counted.keys() - set(words)))}
