"""Parsed topologies, made on first request; a bounded number of them is kept."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from webhook.cluster.state.reduction import Packed
from webhook.cluster.state.topology_objects import own_topology
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.readers.hami import read_hami
from webhook.words.errors import GpuTopologyError

KEPT = 256
"""The number of parsed topologies. One of eight GPUs takes 40 KB with what is computed from it, and a millisecond to
parse again."""


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
