"""The workloads of this project in a cluster, and the pods that controllers could not create."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.cluster.redaction.parts import part, parts, texts
from webhook.objects.failed_creation import FailedCreation, failed_creation
from webhook.words import names
from webhook.words.printable import fitted
from webhook.words.timestamp import parse_timestamp

PROGRAMS = "of the webhook"
"""The part of the Deployments that are workloads of this project."""
ENDPOINTS = "EndpointSlice"
_LABEL, _VALUE = names.PROGRAM_LABEL


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment or DaemonSet of this project."""

    kind: str
    namespace: str
    name: str
    component: str
    """``webhook``, ``planner`` or ``agent``."""
    wanted: int
    ready: int


class NoPod(msgspec.Struct, frozen=True, kw_only=True):
    """A workload whose controller could not create a pod."""

    kind: str
    namespace: str
    name: str
    why: FailedCreation
    last: datetime | None
    """The time of the last attempt; None if it is not known."""


def is_program(document: Object) -> bool:
    """Return whether a workload belongs to this project."""
    return texts(part(document, "metadata"), "labels").get(_LABEL) == _VALUE


def read_program(document: Object) -> Program:
    """Return a workload of this project."""
    namespace, name = identity(document)
    status, spec = part(document, "status"), part(document, "spec")
    is_daemon = document["kind"] == "DaemonSet"
    # k8s.io/api apps/v1: a Deployment without ``replicas`` has one, and a number that is zero is left out of a status.
    wanted = status.get("desiredNumberScheduled", 0) if is_daemon else spec.get("replicas", 1)
    return Program(
        kind=str(document["kind"]),
        namespace=fitted(namespace),
        name=fitted(name),
        component=fitted(texts(part(document, "metadata"), "labels").get(names.COMPONENT_LABEL, "")),
        wanted=wanted,
        ready=status.get("numberReady" if is_daemon else "readyReplicas", 0),
    )


def count_ready(slices: Sequence[Object]) -> int:
    """Return the number of ready endpoints; one that does not say so is ready (k8s.io/api discovery/v1 types.go)."""
    every = (endpoint for each in slices for endpoint in parts(each, "endpoints"))
    return sum(part(endpoint, "conditions").get("ready") is not False for endpoint in every)


def read_no_pods(events: Iterable[Object]) -> Iterator[NoPod]:
    """Yield the workloads of these Events, each with its newest cause."""
    newest: dict[tuple[str, str, str, str], NoPod] = {}
    for event in events:
        found = _no_pod(event)
        if found is None:
            continue
        key = (found.kind, found.namespace, found.name, found.why.cause)
        known = newest.get(key)
        if known is None or (found.last and (known.last is None or known.last < found.last)):
            newest[key] = found
    yield from newest.values()


def _no_pod(event: Object) -> NoPod | None:
    why = failed_creation(str(event.get("message", "")))
    about = part(event, "involvedObject")
    kind, name = about.get("kind"), about.get("name")
    if why is None or not isinstance(kind, str) or not isinstance(name, str):
        return None
    times = (part(event, "series").get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    last = next((found for each in times if isinstance(each, str) and (found := parse_timestamp(each))), None)
    return NoPod(kind=fitted(kind), namespace=fitted(identity(event)[0]), name=fitted(name), why=why, last=last)
