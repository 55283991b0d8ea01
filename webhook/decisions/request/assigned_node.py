"""The node of a pod, as the pod itself tells it."""

from webhook.decisions.allocation.reader import DIALECTS, allocated_node
from webhook.objects.pod import Pod, PodSpec


def node_of(pod: Pod) -> str:
    """The node that the pod has, else the one that a scheduler chose for it; empty if there is none."""
    assigned = (pod.spec or PodSpec()).node_name
    if assigned:
        return assigned
    return next(filter(None, (allocated_node(pod.annotations, family=dialect.family) for dialect in DIALECTS)), "")
