"""Findings about pods that wait long for a planner that is not known to be dead.

``explain`` says for each pod what it waits for.
"""

from collections.abc import Iterator

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.diagnosis import Diagnosis, warning
from webhook.insight.analyze.pods import holder_of
from webhook.objects.pod import Metadata, PodSpec
from webhook.words import names
from webhook.words.catalogue.cluster_findings import WAITS_FOR_LONG
from webhook.words.duration import duration
from webhook.words.timestamp import parse_timestamp

LONG_SECONDS = 1800.0


def waiting(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each pod that has waited behind the planner's gate for longer than half an hour."""
    if snapshot.at is None or snapshot.planner.is_alive is False:
        return
    for known in snapshot.pods:
        if known.node:
            continue
        pod = known.pod
        created = parse_timestamp((pod.metadata or Metadata()).creation_timestamp)
        if created is None or names.PLACE_GATE not in (pod.spec or PodSpec()).scheduling_gates:
            continue
        waited = (snapshot.at - created).total_seconds()
        if waited > LONG_SECONDS:
            said = WAITS_FOR_LONG.say(waited=duration(waited), pod=f"{known.namespace}/{known.name}")
            yield warning(holder_of(known, pod), said)
