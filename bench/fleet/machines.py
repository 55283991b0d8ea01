"""The machines of a simulated cluster."""

from collections.abc import Callable, Mapping, Sequence

from bench.placement import PAIRS, named
from bench.selection import linked
from tests.hardware.topology import machines
from webhook.hardware.topology.model import NodeTopology

Kinds = Callable[[], Sequence[NodeTopology]]


def _bridged() -> NodeTopology:
    return linked(8, PAIRS)


FLEETS: Mapping[str, Kinds] = {
    "dgx-1": lambda: [machines.dgx1_v100()],
    "a100-2x2": lambda: [machines.a100_pcie_bridged()],
    "a100-4x2": lambda: [_bridged()],
    "hgx": lambda: [machines.hgx_a100()],
    "mixed": lambda: [machines.dgx1_v100(), machines.a100_pcie_bridged(), _bridged(), machines.hgx_a100()],
}
"""The kinds of machines of each cluster, which take turns."""


def nodes_of(fleet: str, count: int) -> list[NodeTopology]:
    """Returns the nodes of a cluster."""
    kinds = FLEETS[fleet]()
    return [named(kinds[number % len(kinds)], f"node-{number:02}") for number in range(count)]
