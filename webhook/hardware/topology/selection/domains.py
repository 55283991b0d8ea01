"""The parts of a node by which its GPUs are grouped: NUMA nodes, PCIe switches, and groups joined by NVLink."""

from collections.abc import Sequence

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.pair_table import PairTable, positions


class Domains:
    """The parts of a node, each kind as masks of the positions of a table.

    Args:
        topology: The node.
        table: The GPUs of the node.
    """

    def __init__(self, topology: NodeTopology, table: PairTable) -> None:
        only = topology.cpus[0].numa_node if len(topology.cpus) == 1 else None
        self.numa_of = [only if gpu.numa_node is None else gpu.numa_node for gpu in table.gpus]
        """NUMA node of each GPU; None if unknown. On a machine with one NUMA node, Linux may report none."""
        known = {node for node in self.numa_of if node is not None}
        self.numa = {node: _with_value(self.numa_of, node) for node in sorted(known)}
        """The GPUs of each known NUMA node, by its number."""
        self.unknown_numa = _with_value(self.numa_of, None)
        self.switch = joined(table.same_switch)
        """The GPUs of each PCIe switch. A GPU without a switch, or alone below one, is a domain by itself."""
        self.nvlink = joined(table.nvlinked)
        """Groups of GPUs that NVLinks join, directly or through other GPUs."""

    @property
    def any_numa(self) -> tuple[int, ...]:
        """The NUMA nodes, and one more part for all GPUs of unknown NUMA node."""
        return (*self.numa.values(), *([self.unknown_numa] if self.unknown_numa else []))


def _with_value(values: Sequence[int | None], wanted: int | None) -> int:
    return sum(1 << position for position, value in enumerate(values) if value == wanted)


def joined(neighbours: Sequence[int]) -> tuple[int, ...]:
    """Returns the groups of positions that reach each other over neighbours.

    ``neighbours`` has a mask for each position.
    """
    groups, left = [], (1 << len(neighbours)) - 1
    while left:
        group, new = 0, left & -left
        while new:
            group |= new
            reached = 0
            for position in positions(new):
                reached |= neighbours[position]
            new = reached & left & ~group
        groups.append(group)
        left &= ~group
    return tuple(groups)
