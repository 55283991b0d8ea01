"""What is known of the GPUs of a node: the ConfigMap and Lease of its agent, and HAMi's annotations.

Topologies are parsed on first request, and a bounded number of them is kept.
"""

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Protocol

from webhook.cluster.state.cache import Cache
from webhook.cluster.state.reduction import Heartbeat, Packed
from webhook.cluster.state.topology_objects import own_topology
from webhook.decisions.fastest_pair import FastestPair, fastest_pair
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.readers.hami import read_hami
from webhook.words.errors import GpuTopologyError
from webhook.words.node_names import config_map_name

KEPT = 256
"""The number of parsed topologies. One of eight GPUs takes 40 KB with what is computed from it, and a millisecond to
parse again."""
MOST_NODES = 1000
"""The most nodes that are looked at: in a larger cluster the fastest pair is not known."""
JUDGED_AT_ONCE = 4
"""The most nodes that one question judges, at a few milliseconds each."""


class NodeSources:
    """The parsed publications of agents and annotations of Nodes.

    Args:
        topologies: The publications of agents, by the names of the ConfigMaps.
        texts: The annotations of HAMi, by the names of the Nodes.
        clock: A clock in seconds that never goes back.
        kept: The number of parsed topologies that are kept of each source.
    """

    def __init__(
        self,
        topologies: Cache[Packed],
        texts: "Texts",
        *,
        clock: Callable[[], float],
        kept: int = KEPT,
    ) -> None:
        self._clock = clock
        self._published = Parsed(topologies, parse_published, kept=kept)
        self._annotated = Parsed(texts, parse_annotated, kept=kept)

    def published(self, node: str) -> KnownNode | None:
        """Return the topology that the node's agent published. Names that are too long for a ConfigMap share one."""
        found = self._published.get(config_map_name(node))
        return found if found and found.name == node else None

    def annotated(self, node: str) -> KnownNode | None:
        """Return HAMi's topology of the node."""
        return self._annotated.get(node)

    def age(self, heartbeat: Heartbeat | None) -> float:
        """Return the seconds since the program's last sign; infinite for a Lease that is missing or unreadable."""
        return inf if heartbeat is None else heartbeat.age + self._clock() - heartbeat.seen

    def is_fresh(self, heartbeat: Heartbeat | None, max_age: float) -> bool:
        """Return whether the agent gave a sign within ``max_age`` seconds, or within those that it vouches for."""
        return heartbeat is not None and self.age(heartbeat) <= max(max_age, heartbeat.lasts)

    def forget(self, node: str) -> None:
        """Drop all parsed topologies of a node that is gone."""
        self._published.forget(config_map_name(node))
        self._annotated.forget(node)

    def forget_annotated(self, node: str) -> None:
        """Drop HAMi's parsed topology of a node, because it does not count at the moment."""
        self._annotated.forget(node)


class Texts(Protocol):
    """A cache of texts, by the names of their objects."""

    def get(self, name: str) -> Packed | None:
        """Return the texts of the object of that name."""

    def doubt(self, name: str, problem: str) -> None:
        """Log a problem of the texts once."""


class Parsed:
    """The parsed topologies of a cache of texts.

    Args:
        cache: The texts.
        parse: A function from the texts and the name of a node to the node's topology. It raises
            :class:`GpuTopologyError`.
        kept: The number of topologies to keep.
    """

    def __init__(self, cache: Texts, parse: Callable[[tuple[str, ...], str], KnownNode], *, kept: int = KEPT) -> None:
        self._cache = cache
        self._parse = parse
        self._limit = kept
        self._kept: OrderedDict[str, tuple[bytes, KnownNode | None]] = OrderedDict()
        """The digest of the parsed texts and the result, by the name of the object."""
        self._lock = Lock()

    def get(self, name: str) -> KnownNode | None:
        """Return the topology of the object of that name; None if there is none, or it cannot be read."""
        packed = self._cache.get(name)
        if packed is None or not packed.data:
            return None
        with self._lock:
            found = self._kept.get(name)
            if found and found[0] == packed.digest:
                self._kept.move_to_end(name)
                return found[1]
        known = self._read(packed, name)
        with self._lock:
            self._kept[name] = packed.digest, known
            self._kept.move_to_end(name)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return known

    def forget(self, name: str) -> None:
        """Drop the parsed topology of an object that is gone, or is not requested any more."""
        with self._lock:
            self._kept.pop(name, None)

    def _read(self, packed: Packed, name: str) -> KnownNode | None:
        try:
            return self._parse(packed.texts, name)
        except GpuTopologyError as error:
            self._cache.doubt(name, str(error))
            return None


def parse_published(texts: tuple[str, ...], name: str) -> KnownNode:
    """Parse an agent's topology of its node, from its ConfigMap of that name.

    Raises:
        FormatError: the text is no topology, or one of another node.
    """
    return KnownNode(own_topology(texts[0], name, f"ConfigMap {name}"), origin=Origin.AGENT)


def parse_annotated(texts: tuple[str, ...], name: str) -> KnownNode:
    """Parse HAMi's topology of the node of that name, from its annotations.

    Raises:
        FormatError: the annotations do not parse.
    """
    register, score = texts
    return KnownNode(read_hami(register, score or None, node=name, source=f"Node {name}"), origin=Origin.HAMI)


class FastestPairs:
    """The fastest pair of each node, by what its agent published.

    Args:
        topologies: The publications of agents, by the names of the ConfigMaps.
    """

    def __init__(self, topologies: Cache[Packed]) -> None:
        self._topologies = topologies
        self._judged: dict[str, tuple[bytes, FastestPair | None]] = {}
        """The digest of the publication and its fastest pair, by the name of the ConfigMap."""

    def best(self) -> FastestPair | None:
        """Return the fastest pair; ``None`` if nodes are not judged yet, or if the links of one are not known."""
        if len(self._topologies) > MOST_NODES:
            return None
        published = self._topologies.values()
        waiting = [name for name, packed in published.items() if self._digest(name) != packed.digest]
        for name in waiting[:JUDGED_AT_ONCE]:
            self._judged[name] = published[name].digest, _judge(published[name], name)
        for name in self._judged.keys() - published.keys():
            del self._judged[name]
        pairs = [pair for _, pair in self._judged.values()]
        known = [pair for pair in pairs if pair is not None]
        return max(known) if known and len(known) == len(published) else None

    def _digest(self, name: str) -> bytes | None:
        found = self._judged.get(name)
        return found[0] if found else None


def _judge(packed: Packed, name: str) -> FastestPair | None:
    try:
        return fastest_pair(parse_published(packed.texts, name))
    except GpuTopologyError:
        return None
