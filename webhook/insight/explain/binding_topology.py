"""The topology that the webhook wrote on a pod at its Binding, for callers who may not read the node."""

from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import HAMI
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.errors import FormatError

TELLER = f"the pod's own annotation {names.NODE_TOPOLOGY}, which the webhook wrote at the Binding,"
"""The source of this topology, in a clause."""


def binding_topology(pod: Pod, node: str) -> Sources | None:
    """Returns the topology of the node as it was at the Binding; None if the pod does not have it."""
    try:
        topology = parse_topology(pod.annotations.get(names.NODE_TOPOLOGY, ""), source=names.NODE_TOPOLOGY)
    except FormatError:
        return None
    if topology.node != node:
        return None
    origin = Origin.HAMI if topology.source == HAMI else Origin.AGENT
    return Sources(published=KnownNode(topology, origin=origin))
