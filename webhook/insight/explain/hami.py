"""The condition that HAMi treats the pod at all."""

from collections.abc import Iterator

from webhook.decisions.request.untreated_pods import Cause, untreated
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, unknown
from webhook.words import names
from webhook.words.catalogue import cards
from webhook.words.catalogue.entry import Message

TREATED = "treated-by-hami"


def treated(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields what keeps HAMi from the pod; nothing where HAMi may serve the pod."""
    if examined.claimed_count:
        return
    evidence = examined.evidence
    scheduled_elsewhere = _exists(examined) and examined.spec.scheduler_name != evidence.policy.hami_scheduler_name
    for cause, message in untreated(evidence.pod, evidence.namespace, evidence.policy, examined.cluster):
        if cause is Cause.NODE_PRESET and scheduled_elsewhere:
            continue  # another scheduler chose the node
        is_known = cause is not Cause.OTHER_SCHEDULER or examined.cluster.hami is not None
        yield fails(TREATED, message) if is_known else unknown(TREATED, message)
    missed = _missed(examined)
    if missed:
        yield fails(TREATED, missed)


def _missed(examined: ExaminedPod) -> Message | None:
    """Returns a message if HAMi's webhook has not given a pod of a cluster the name of HAMi's scheduler."""
    if not _exists(examined) or names.HAMI_ALLOCATED_NODE in examined.evidence.pod.annotations:
        return None
    if examined.spec.scheduler_name != names.DEFAULT_SCHEDULER:
        return None
    return cards.NOT_TAKEN_BY_HAMI.say(scheduler=names.DEFAULT_SCHEDULER)


def _exists(examined: ExaminedPod) -> bool:
    """Returns whether the pod is one of a cluster, and not a manifest."""
    metadata = examined.evidence.pod.metadata
    return metadata is not None and bool(metadata.uid)
