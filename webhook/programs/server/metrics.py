"""The metrics of the server, made of its counts and vitals at each scrape: docs/observability.md."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from prometheus_client.core import Metric

from webhook import __version__
from webhook.hardware.topology.sets import LinkClass
from webhook.objects.envelope import BINDINGS_PATH, PODS_PATH
from webhook.programs.exposition import counter, gauge, info
from webhook.programs.mirror_metrics import cache_families
from webhook.programs.server.counts import Counts
from webhook.programs.server.gates import Cause
from webhook.programs.server.vitals import Vitals

_OUTCOME = ("outcome", "reason", "profile")
_REJECTED = {400: 0, 405: 0, 413: 0, 500: 0, 503: 0}
_AGES = ("fresh", "old", "missing")


def families(counts: Counts, vitals: Vitals) -> Iterator[Metric]:
    """Return all metrics. A counter whose labels are known starts with 0, because a rate needs a value to grow from."""
    yield from _reviews(counts)
    yield from _bindings(counts)
    yield from _program(vitals)
    yield from _connections(vitals)
    yield from _cluster(vitals)


def _reviews(counts: Counts) -> Iterator[Metric]:
    yield counter("admissions", "Reviews of pods by what became of them.", _OUTCOME, _flat(counts.admissions))
    yield counts.admission_seconds.metric(
        "admission_seconds", "Seconds from the arrival of a review of a pod to its answer."
    )
    yield counter(
        "rejected_requests",
        "Requests that got no review as an answer.",
        ("status",),
        {(str(status),): number for status, number in sorted((_REJECTED | dict(counts.rejected)).items())},
    )
    yield counter(
        "slow_reviews",
        "Reviews that took a second or longer once they had arrived.",
        ("path",),
        _words((PODS_PATH, BINDINGS_PATH), counts.slow),
    )
    yield counter("events_lost", "Events about pods that could not be written.", (), {(): counts.events_lost()})


def _bindings(counts: Counts) -> Iterator[Metric]:
    yield counter("bindings", "Reviews of Bindings by what became of them.", _OUTCOME, _flat(counts.bindings))
    yield counter(
        "binding_links", "Bindings by how the GPUs of the pod are linked.", ("link",), _words(LinkClass, counts.links)
    )
    yield counter(
        "binding_requirements",
        "Bindings of pods that require something of their GPUs, by whether they have it.",
        ("met",),
        _yes_or_no(counts.requirements),
    )
    yield counter(
        "binding_same_numa",
        "Bindings by whether all GPUs of the pod are on one NUMA node, where that is known.",
        ("same",),
        _yes_or_no(counts.same_numa),
    )
    yield counts.binding_seconds.metric(
        "binding_seconds", "Seconds from the arrival of a review of a Binding to its answer."
    )
    yield counts.waiting_seconds.metric("pod_read_seconds", "Seconds that a review of a Binding waited for pods.")
    yield counter(
        "pod_read_failures",
        "Reads of a pod, or of its group, that failed or took too long.",
        ("read",),
        _words(("pod", "group"), counts.failed_reads),
    )
    yield counts.claim_seconds.metric("claim_read_seconds", "Seconds that a review waited for resource claims.")
    yield counter(
        "claim_read_failures",
        "Reads of a resource claim, or of a template, that failed or took too long.",
        ("read",),
        _words(("claim", "template"), counts.failed_claim_reads),
    )
    yield counter(
        "limited_reads",
        "Reads that were not done because too many were asked for.",
        ("read",),
        _words(("namespace",), counts.limited_reads),
    )


def _program(vitals: Vitals) -> Iterator[Metric]:
    yield info("webhook_build", "1; the label names the version of the webhook.", version=__version__)
    yield gauge("webhook_ready", "Whether reviews can be answered.", (), {(): float(vitals.ready)})
    yield gauge("webhook_draining", "Whether a stop has begun.", (), {(): float(vitals.draining)})
    ends = {"serving": vitals.certificate_ends, "authority": vitals.authority_ends}
    yield gauge(
        "certificate_expiry_timestamp_seconds",
        "When a certificate of the webhook ends, in seconds since 1970.",
        ("certificate",),
        {(name,): end for name, end in ends.items() if end is not None},
    )
    failures, leader = vitals.certificate_failures, vitals.certificate_leader
    yield counter(
        "certificate_failures",
        "Checks of the certificates of the webhook that failed; the log says why.",
        (),
        {} if failures is None else {(): failures},
    )
    yield gauge(
        "certificate_leader",
        "Whether this replica renews the certificates of all.",
        (),
        {} if leader is None else {(): float(leader)},
    )


def _connections(vitals: Vitals) -> Iterator[Metric]:
    yield gauge(
        "connections",
        "Connections of clients by port.",
        ("port",),
        {(port,): number for port, number in vitals.connections.items()},
    )
    yield counter(
        "closed_connections",
        "Connections that the server ended before their client did.",
        ("port", "cause"),
        _flat(vitals.closed),
    )


def _cluster(vitals: Vitals) -> Iterator[Metric]:
    yield info(
        "cluster",
        "1; the labels name the versions of HAMi and Kubernetes, empty if unknown.",
        hami=vitals.hami,
        kubernetes=vitals.kubernetes,
    )
    yield from cache_families(vitals.caches)
    yield gauge(
        "nodes",
        "Nodes by the age of the topology that their agent published.",
        ("topology",),
        _words(_AGES, asdict(vitals.topologies)) if vitals.topologies else {},
    )
    alive = vitals.planner_alive
    yield gauge(
        "planner_alive",
        "Whether a planner renews its Lease, so that pods wait for it.",
        (),
        {} if alive is None else {(): alive},
    )
    opened = vitals.gates_opened
    yield counter(
        "gates_opened",
        "Pods that the webhook let go because no planner came for them.",
        ("cause",),
        {} if opened is None else _words(Cause, opened),
    )
    unmatched = vitals.unmatched_schedulers
    yield gauge(
        "unmatched_schedulers",
        "Accounts of HAMi's schedulers whose Bindings the webhook is not asked about.",
        (),
        {} if unmatched is None else {(): unmatched},
    )
    yield counter(
        "webhook_api_errors",
        "Requests of the webhook to the API server that failed.",
        ("resource", "kind"),
        _flat(vitals.api_errors),
    )


def _flat(values: Mapping[Any, int]) -> dict[tuple[str, ...], float]:
    # A copy, because the event loop of the reviews may add keys meanwhile.
    return {tuple(map(str, key)): number for key, number in sorted(dict(values).items())}


def _words(words: Iterable[str], values: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(str(word),): values.get(word, 0) for word in words}


def _yes_or_no(values: Mapping[bool, int]) -> dict[tuple[str, ...], float]:
    return {("true",): values.get(True, 0), ("false",): values.get(False, 0)}
