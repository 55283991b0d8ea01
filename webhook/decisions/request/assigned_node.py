"""The node of a pod, from the pod itself."""

from webhook.decisions.allocation.reader import DIALECTS, allocated_node
from webhook.objects.pod import Pod, PodSpec


def node_of(pod: Pod) -> str:
    """Returns the node of the pod, else the node that a scheduler chose for it; empty if there is none."""
    assigned = (pod.spec or PodSpec()).node_name
    if assigned:
        return assigned
    return next(filter(None, (allocated_node(pod.annotations, family=dialect.family) for dialect in DIALECTS)), "")
