"""The fastest pair of GPUs that is known, to tell a user at once of a bandwidth that no pair has."""

from collections.abc import Callable
from itertools import combinations

import msgspec

from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.model import Gpu

_NOMINAL = ((100, 50.0), (70, 25.0), (60, 20.0))
"""GB/s of one NVLink in one direction as datasheets count, by the least compute capability (A100: 12 links, 600 GB/s;
H100: 18 links, 900 GB/s; B200: 18 links, 1.8 TB/s)."""


class FastestPair(msgspec.Struct, frozen=True, gc=False, order=True):
    """The bandwidth of two GPUs."""

    bandwidth: float
    """GB/s in one direction, as NCCL reckons it."""
    datasheet: float
    """GB/s in both directions of all its NVLinks that are up, as a datasheet counts; 0 if that is not known."""


Fastest = Callable[[], FastestPair | None]
"""A function that returns the fastest pair of all nodes whose links are known; ``None`` while that is not known."""


def unknown_pair() -> FastestPair | None:
    """Returns ``None``: no node is known."""
    return None


def fastest_pair(node: KnownNode) -> FastestPair | None:
    """Returns the fastest pair of a node; ``None`` if links of its are not known, or if it has no two GPUs."""
    every = node.topology.gpus
    if node.unread or len(every) < 2:
        return None
    found = (node.gpu_set((one.index, other.index)).bandwidth for one, other in combinations(every, 2))
    return FastestPair(max(found), max(map(_datasheet, every)))


def _datasheet(gpu: Gpu) -> float:
    rate = next((rate for least, rate in _NOMINAL if gpu.sm >= least), 0.0)
    return 2 * rate * gpu.active_links
