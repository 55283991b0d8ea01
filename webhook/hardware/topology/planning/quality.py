"""The quality of sets of GPUs on one node or several that work together: by it equally fast placements are ranked."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.sets import LINK_VALUES, GpuSet


class Quality(NamedTuple):
    """The quality of one set or of the worst of several; the greater, the better."""

    link: float
    """The link class as a number from 0 to 1. NVSwitches and NVLinks between all pairs have the same value."""
    weakest: float
    """GB/s per direction of the weakest pair; infinite for a single GPU, which has no pairs."""
    mean: float
    """GB/s per direction over all pairs; infinite for a single GPU."""


def quality_of(chosen: GpuSet) -> Quality:
    """Returns the quality of a set."""
    link = LINK_VALUES[chosen.link]
    if chosen.weakest is None:
        return Quality(link, inf, inf)
    return Quality(link, round(chosen.bandwidth, 3), round(chosen.mean_bandwidth, 3))


def models_of(topology: NodeTopology, indices: Iterable[int]) -> frozenset[str]:
    """Returns the models of some GPUs of a node, without those that are not known."""
    wanted = frozenset(indices)
    return frozenset(gpu.name for gpu in topology.gpus if gpu.index in wanted and gpu.name)
