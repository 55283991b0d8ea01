"""The metrics of the server, made of its counts when somebody asks."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from webhook.server.counts import SECONDS, Counts, Durations
from webhook.topology.sets import LinkClass

PREFIX = "gpu_topology_"
_OUTCOME = ("outcome", "reason", "profile")


def families(counts: Counts) -> Iterator[Metric]:
    """All metrics."""
    yield _counter("admissions", "Reviews of pods by what became of them.", _OUTCOME, _flat(counts.admissions))
    yield _counter("bindings", "Reviews of Bindings by what became of them.", _OUTCOME, _flat(counts.bindings))
    yield _counter(
        "binding_links", "Bindings by how the GPUs of the pod are linked.", ("link",), _words(LinkClass, counts.links)
    )
    yield _counter(
        "binding_requirements",
        "Bindings of pods that require something of their GPUs, by whether they have it.",
        ("met",),
        _yes_or_no(counts.requirements),
    )
    yield _counter(
        "binding_same_numa",
        "Bindings by whether all GPUs of the pod are on one NUMA node, where that is known.",
        ("same",),
        _yes_or_no(counts.same_numa),
    )
    yield _histogram("binding_seconds", "Seconds that a review of a Binding took.", counts.binding_seconds)
    yield _histogram("pod_read_seconds", "Seconds of that spent waiting for pods.", counts.waiting_seconds)
    yield _counter(
        "rejected_requests",
        "Requests that are no reviews, or met a bug (500).",
        ("status",),
        {(str(status),): number for status, number in sorted(({500: 0} | counts.rejected).items())},
    )
    yield _counter(
        "pod_read_failures",
        "Reads of a pod, or of its group, that failed or took too long.",
        ("read",),
        _words(("pod", "group"), counts.failed_reads),
    )
    yield _counter("events_lost", "Events about pods that could not be written.", (), {(): counts.events_lost()})


def _flat(values: Mapping[tuple[str, str, str], int]) -> dict[tuple[str, ...], int]:
    return {tuple(map(str, key)): number for key, number in sorted(values.items())}


def _words(words: Iterable[str], values: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(str(word),): values.get(word, 0) for word in words}


def _yes_or_no(values: Mapping[bool, int]) -> dict[tuple[str, ...], int]:
    return {("true",): values.get(True, 0), ("false",): values.get(False, 0)}


def _counter(name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def _histogram(name: str, text: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=())
    bounds = [*map(str, SECONDS), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(durations.buckets)), strict=True))
    family.add_metric((), buckets, durations.total)
    return family
