"""The file ``nccl-topo.xml``, made of the best topology that can be written."""

from collections.abc import Iterable

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.words.errors import FormatError


def format_first(topologies: Iterable[NodeTopology], *, host_indices: bool) -> tuple[str, str]:
    """Returns the text of the file, or an empty text and the reason.

    Args:
        topologies: The topologies, the best first.
        host_indices: Whether ranks in different containers share the node (see ``format_nccl_topology``).
    """
    reasons = []
    for topology in topologies:
        try:
            return format_nccl_topology(topology, host_indices=host_indices), ""
        except FormatError as error:
            reasons.append(str(error))
    return "", "; ".join(reasons) or "nothing is known of the node"
