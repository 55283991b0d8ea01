"""Between which cards of a machine NCCL chooses peer-to-peer access when nothing is set."""

from tests.gpu.nccl_log import Channel
from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.pcie import AMD

_FEW_CARDS = 2
_LONGEST_INDEX = 3
"""Digits. A bus id has more, because that of a GPU is never on bus 0 of domain 0."""


class NcclDefaults:
    """NCCL's choice on one machine, in a job of all its cards.

    The path has to be PXB or better, and may be any path where two cards are on a machine of AMD: NCCL 2.30,
    src/graph/paths.cc, ``ncclTopoCheckP2p``. Up to 2.22 NCCL chose peer-to-peer access between more cards of AMD.
    What the driver refuses is not known here.

    Args:
        topology: The machine.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self._connections = Connections(topology)
        self._members = [gpu.index for gpu in topology.gpus]
        self._by_bus_id = {_number(gpu.pci_bus_id): gpu.index for gpu in topology.gpus if gpu.pci_bus_id}
        is_any = len(self._members) <= _FEW_CARDS and self._connections.tree.cpu_vendor == AMD
        self._furthest = PathType.SYS if is_any else PathType.PXB

    def is_peer_to_peer(self, channel: Channel) -> bool | None:
        """Returns whether NCCL chooses peer-to-peer access for the ends of a channel; None if a card is unknown."""
        one, other = self._index(channel.source), self._index(channel.target)
        if one is None or other is None or one == other:
            return None
        return self._connections.within(one, other, self._members).type.rank <= self._furthest.rank

    def _index(self, name: str) -> int | None:
        if len(name) > _LONGEST_INDEX or not name.isdecimal():
            return self._by_bus_id.get(int(name, 16))
        return int(name) if int(name) in self._members else None


def _number(bus_id: str) -> int:
    """Returns a bus id as NCCL packs it into a number: src/misc/utils.cc, ``busIdToInt64``."""
    return int(bus_id.replace(":", "").replace(".", ""), 16)
