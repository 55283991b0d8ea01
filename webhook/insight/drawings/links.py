"""The NVLinks of a node, as every picture of it draws them."""

from collections.abc import Iterator

import msgspec

from webhook.hardware.topology.model import NVSWITCH, MigMode, NodeTopology


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The NVLinks between two GPUs of a node, or of one GPU to the switches."""

    one: int
    """Index of a GPU."""
    other: int | None
    """Index of the other GPU, which is greater; None for the switches."""
    count: int
    """Links, up or not."""
    active: int
    """Links that are up, as both ends say."""

    @property
    def lost(self) -> int:
        """Links that are down."""
        return max(self.count - self.active, 0)


def nvlinks(topology: NodeTopology) -> Iterator[Link]:
    """Yields the links of each GPU, those between two GPUs once; a GPU in MIG mode has none."""
    usable = {gpu.label: gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED}
    for gpu in usable.values():
        for link in gpu.nvlinks:
            other = usable.get(link.target)
            if link.target == NVSWITCH:
                yield Link(one=gpu.index, other=None, count=link.count, active=link.active)
            elif other is not None and gpu.index < other.index:
                active = min(gpu.links_to(other.label), other.links_to(gpu.label))
                yield Link(one=gpu.index, other=other.index, count=link.count, active=active)
