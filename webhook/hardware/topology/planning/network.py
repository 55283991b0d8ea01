"""How a set of GPUs takes part in a ring over several nodes: what it can exchange with others, and where it does so."""

from dataclasses import dataclass

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.pcie import link_bandwidth
from webhook.hardware.topology.sets import GpuSet, NicAffinity

DEFAULT_NETWORK = 1.25
"""GB/s per direction of a node without NICs, or with NICs of unknown speed: NCCL reckons with 10 Gbit/s for one
whose speed it cannot read (src/graph/topo.cc)."""


@dataclass(frozen=True, slots=True)
class NodePath:
    """The way of a ring through a node: in from the node before, over all GPUs, out to the node behind."""

    gpus: tuple[int, ...]
    """Indices in the order of the ring."""
    entry_nic: str
    """The NIC nearest to the first GPU; empty if the node has none."""
    exit_nic: str
    """The NIC nearest to the last GPU."""


def network_bandwidth(topology: NodeTopology, chosen: GpuSet, connections: Connections) -> float:
    """GB/s per direction that a set can exchange with other nodes.

    All NICs that are the nearest of one of its GPUs together, each with its speed or what PCIe leaves of it on the way
    to the nearest GPU; but no more than the PCIe links of the GPUs. ``DEFAULT_NETWORK`` where no speed is known.
    """
    tree, gpus = connections.tree, connections.gpus
    speeds = [
        min(nic.speed_gbps / 8, max(tree.bandwidth(gpus[index], nic) for index in near))
        for nic in topology.nics
        if (near := _near(chosen, nic.name)) and nic.speed_gbps
    ]
    return min(sum(speeds), sum(link_bandwidth(gpus[index].pcie) for index in chosen.gpus)) or DEFAULT_NETWORK


def most_network(topology: NodeTopology, count: int) -> float:
    """GB/s that no set of so many GPUs exceeds in ``network_bandwidth``."""
    nics = sum(nic.speed_gbps / 8 for nic in topology.nics)
    links = count * max((link_bandwidth(gpu.pcie) for gpu in topology.gpus), default=0.0)
    return max(min(nics, links), DEFAULT_NETWORK)


def node_path(chosen: GpuSet, connections: Connections) -> NodePath:
    """The ring of a set, cut open for the network: where both ends are near a NIC, then at the slowest hop.

    Args:
        chosen: The set.
        connections: Between the GPUs of its node.
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
