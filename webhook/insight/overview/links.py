"""The links of the cards of a node, and the bandwidth of sets of cards."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.connections import PathType
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.sets import GpuSet, assess
from webhook.insight.drawings.layout import Link, nvlinks
from webhook.words.errors import FormatError

UNKNOWN = "unknown"
_SETS_KEPT = 4096


class Worth(NamedTuple):
    """The link class and the bandwidth of a set of cards, and the best bandwidth of a set of that size."""

    link: str
    bandwidth: float
    best: float


class Linked:
    """The links of one node, and the results that follow from them.

    Args:
        topology: The topology of the node.
        build: The build of the node. Results that are computed for one node hold for all nodes of its build.
    """

    def __init__(self, topology: NodeTopology, build: Build) -> None:
        self.topology = topology
        self._build = build
        self._known = KnownNode(topology, origin=Origin.AGENT)
        self._usable = frozenset(gpu.index for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED)
        self._health = node_health(topology)
        self.nvlink = UNKNOWN if self._known.unread else str(self._health.state)
        self.ailing = frozenset(self._health.ailing)
        self.unread = self._known.unread

    def said_of(self, index: int) -> str:
        """Returns the problem of the links of a card; empty if there is none."""
        label = f"GPU{index} has "
        return next((found.removeprefix(label) for found in self._health.findings if found.startswith(label)), "")

    def links(self) -> Iterator[Link]:
        """Yields the NVLinks of each pair, and of each card to the switches."""
        return nvlinks(self.topology)

    def best(self, count: int) -> float:
        """Returns GB/s per direction of the weakest pair of the best set of ``count`` cards; 0 without a pair."""
        if not 1 < count <= len(self._usable):
            return 0.0
        return _best(self._build, self._usable, count)

    def worth(self, indices: Sequence[int]) -> Worth | None:
        """Returns the worth of a set of cards; None without a pair, or where the links are not known."""
        if len(indices) < 2 or not self._usable.issuperset(indices):
            return None
        found = _assessed(self._build, tuple(sorted(indices)))
        if found is None or found.weakest is None or self._known.doubt(found):
            return None
        connection = found.weakest.connection
        link = connection.type.value if connection.type in (PathType.NVB, PathType.C2C) else connection.word
        return Worth(link, found.bandwidth, max(found.bandwidth, self.best(len(indices))))


@lru_cache(_SETS_KEPT)
def _assessed(build: Build, indices: tuple[int, ...]) -> GpuSet | None:
    try:
        return assess(build.topology, indices, build.connections)
    except FormatError:
        return None


@lru_cache(_SETS_KEPT)
def _best(build: Build, usable: frozenset[int], count: int) -> float:
    return build.choice(usable, Request(count=count)).chosen.bandwidth
