"""Topologies, parsed when they are first asked for; a bounded number of them is kept."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from webhook.cluster.state.reduction import NO_TEXTS, Packed
from webhook.cluster.state.topology_objects import own_topology
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.readers.hami import read_hami
from webhook.words.errors import GpuTopologyError

KEPT = 256
"""A parsed topology of eight GPUs takes 40 KB with what is reckoned from it; to parse it again takes a millisecond."""


class Texts(Protocol):
    """A cache of texts, by the names of the objects that they belong to."""

    def get(self, name: str) -> Packed | None:
        """Those of the object of that name."""

    def doubt(self, name: str, problem: str) -> None:
        """Say once what is wrong with them."""


class Parsed:
    """What the texts of a cache say.

    Args:
        cache: The texts.
        parse: Makes of the texts what is known of the node of that name. It raises :class:`GpuTopologyError`.
        kept: How many to keep.
    """

    def __init__(self, cache: Texts, parse: Callable[[tuple[str, ...], str], KnownNode], *, kept: int = KEPT) -> None:
        self._cache = cache
        self._parse = parse
        self._limit = kept
        self._kept: OrderedDict[str, tuple[bytes, KnownNode | None]] = OrderedDict()
        """By the name of the object: the digest of what was parsed, and what came of it."""
        self._lock = Lock()

    def get(self, name: str) -> KnownNode | None:
        """What the object of that name says; None if there is none, it says nothing, or cannot be read."""
        packed = self._cache.get(name)
        if packed is None or packed is NO_TEXTS:
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
        """Keep no longer what came of the texts of that object: it is gone, or not asked for any more."""
        with self._lock:
            self._kept.pop(name, None)

    def _read(self, packed: Packed, name: str) -> KnownNode | None:
        try:
            return self._parse(packed.texts, name)
        except GpuTopologyError as error:
            self._cache.doubt(name, str(error))
            return None


def parse_published(texts: tuple[str, ...], name: str) -> KnownNode:
    """What an agent says of its node, from its ConfigMap of that name.

    Raises:
        FormatError: that is no topology, or one of another node.
    """
    return KnownNode(own_topology(texts[0], name, f"ConfigMap {name}"), origin=Origin.AGENT)


def parse_annotated(texts: tuple[str, ...], name: str) -> KnownNode:
    """What HAMi says of the node of that name, from its annotations.

    Raises:
        FormatError: they do not parse.
    """
    register, score = texts
    return KnownNode(read_hami(register, score or None, node=name, source=f"Node {name}"), origin=Origin.HAMI)
