"""The part of a set of GPUs in a ring over several nodes: its bandwidth to other nodes, and its entry and exit."""

from dataclasses import dataclass

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.pcie import link_bandwidth
from webhook.hardware.topology.sets import GpuSet, NicAffinity

DEFAULT_NETWORK = 1.25
"""GB/s per direction of a node without NICs, or with NICs of unknown speed. NCCL assumes 10 Gbit/s for a NIC whose
speed it cannot read (src/graph/topo.cc)."""


@dataclass(frozen=True, slots=True)
class NodePath:
    """The way of a ring through a node: in from the previous node, over all GPUs, out to the next node."""

    gpus: tuple[int, ...]
    """Indices in the order of the ring."""
    entry_nic: str
    """The NIC nearest to the first GPU; empty if the node has none."""
    exit_nic: str
    """The NIC nearest to the last GPU; empty if the node has none."""


def network_bandwidth(topology: NodeTopology, chosen: GpuSet, connections: Connections) -> float:
    """Returns the GB/s per direction that a set can exchange with other nodes.

    This is the sum over all NICs that are nearest to one of its GPUs. Each NIC counts with its speed or, if that is
    less, with the bandwidth of PCIe to the nearest GPU. The sum is limited by the PCIe links of the GPUs. If no speed
    is known, the result is ``DEFAULT_NETWORK``.
    """
    tree, gpus = connections.tree, connections.gpus
    speeds = [
        min(nic.speed_gbps / 8, max(tree.bandwidth(gpus[index], nic) for index in near))
        for nic in topology.nics
        if (near := _near(chosen, nic.name)) and nic.speed_gbps
    ]
    return min(sum(speeds), sum(link_bandwidth(gpus[index].pcie) for index in chosen.gpus)) or DEFAULT_NETWORK


def most_network(topology: NodeTopology, count: int) -> float:
    """Returns an upper bound for the ``network_bandwidth`` of all sets of ``count`` GPUs."""
    nics = sum(nic.speed_gbps / 8 for nic in topology.nics)
    links = count * max((link_bandwidth(gpu.pcie) for gpu in topology.gpus), default=0.0)
    return max(min(nics, links), DEFAULT_NETWORK)


def node_path(chosen: GpuSet, connections: Connections) -> NodePath:
    """Returns the ring of a set, opened where its two ends are nearest to NICs; of equal places at the slowest hop.

    Args:
        chosen: The set.
        connections: The connections between the GPUs of its node.
    """
    nics = {index: _nearest(chosen, index) for index in chosen.gpus}
    ring = chosen.ring

    def cost(start: int) -> tuple[int, float, int]:
        first, last = ring[start], ring[start - 1]
        far = sum(nic.path.rank for nic in (nics[first], nics[last]) if nic)
        hop = connections.within(last, first, ring).bandwidth if first != last else 0.0
        return far, hop, start

    start = min(range(len(ring)), key=cost)
    path = (*ring[start:], *ring[:start])
    entry, leaving = nics[path[0]], nics[path[-1]]
    return NodePath(path, entry.name if entry else "", leaving.name if leaving else "")


def _near(chosen: GpuSet, nic: str) -> set[int]:
    return {index for affinity in chosen.nics if affinity.name == nic for index in affinity.gpus}


def _nearest(chosen: GpuSet, index: int) -> NicAffinity | None:
    return next((affinity for affinity in chosen.nics if index in affinity.gpus), None)
