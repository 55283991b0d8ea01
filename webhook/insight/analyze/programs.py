"""Findings about the programs of this project, and about pods that were never created."""

from collections.abc import Iterator
from datetime import timedelta

from webhook.cluster.snapshot.installation import Program
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, error, warning
from webhook.objects.failed_creation import Cause
from webhook.objects.webhook_registration import CONFIGURATION, service_of
from webhook.words import names
from webhook.words.catalogue import running as found
from webhook.words.printable import fitted

_NONE_READY = {
    names.WEBHOOK_COMPONENT: found.WEBHOOK_NOT_READY,
    names.PLANNER_COMPONENT: found.PLANNER_NOT_READY,
    names.AGENT_COMPONENT: found.AGENTS_NOT_READY,
}
_CAUSES = {
    Cause.REFUSED: found.POD_REFUSED,
    Cause.NO_ANSWER: found.WEBHOOK_NO_ANSWER,
    Cause.QUOTA: found.QUOTA_EXCEEDED,
    Cause.RUNTIME_CLASS: found.RUNTIME_CLASS_MISSING,
}
_TRIES_AGAIN = timedelta(minutes=20)
"""A controller tries again after a quarter of an hour at most, so an older failure is over.

kubernetes pkg/controller: the rate limiter of ReplicaSets and StatefulSets ends at 1,000 s, that of Jobs at 600 s.
"""
_SAID_LIMIT = 500


def readiness(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each program of this project whose replicas are not all ready."""
    for program in snapshot.programs:
        entry = _NONE_READY.get(program.component)
        if entry is None or program.ready >= program.wanted:
            continue
        is_served = program.ready and program.component != names.AGENT_COMPONENT
        chosen, told = (found.SOME_NOT_READY, warning) if is_served else (entry, error)
        numbers = {"ready": program.ready, "wanted": program.wanted}
        place = {"namespace": program.namespace, "kind": program.kind.lower(), "name": program.name}
        yield told(_holder(program), chosen.say(**numbers, **place))


def endpoints(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding if API servers are sent to a Service without a ready endpoint, and no replica tells why."""
    ours = snapshot.registration
    waits = any(each.component == names.WEBHOOK_COMPONENT and each.ready < each.wanted for each in snapshot.programs)
    if ours is None or snapshot.ready_endpoints != 0 or waits:
        return
    namespace, name = service_of(ours)
    holder = Holder(CONFIGURATION, "", snapshot.setting.registration)
    yield error(holder, found.NO_ENDPOINTS.say(namespace=fitted(namespace), name=fitted(name)))


def planner(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for a planner that is ready and does not renew its Lease."""
    if snapshot.planner.is_alive is not False:
        return
    for program in snapshot.programs:
        if program.component == names.PLANNER_COMPONENT and program.ready:
            why = snapshot.planner.said
            said = found.PLANNER_SILENT.say(why=why, namespace=program.namespace, name=program.name)
            yield error(_holder(program), said)


def creations(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each workload whose pods could not be created lately."""
    for each in snapshot.failed_creations:
        if snapshot.at and each.last and snapshot.at - each.last > _TRIES_AGAIN:
            continue
        words = fitted(each.why.said, _SAID_LIMIT)
        said = _CAUSES[each.why.cause].say(webhook=each.why.webhook, said=words, name=words)
        yield error(Holder(each.kind, each.namespace, each.name), said)


def _holder(program: Program) -> Holder:
    return Holder(program.kind, program.namespace, program.name)
