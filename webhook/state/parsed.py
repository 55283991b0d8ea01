"""Topologies, parsed when they are first asked for; a bounded number of them is kept."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from webhook.model.errors import GpuTopologyError
from webhook.resolve.node import KnownNode
from webhook.state.cache import Cache
from webhook.state.kept import NO_TEXTS, Packed

KEPT = 256
"""A parsed topology of eight GPUs takes 40 KB with what is reckoned from it; to parse it again takes a millisecond."""


class Parsed:
    """What the texts of a cache say.

    Args:
        cache: The texts.
        parse: Makes of the texts what is known of the node of that name. It raises :class:`GpuTopologyError`.
        kept: How many to keep.
    """

    def __init__(
        self, cache: Cache[Packed], parse: Callable[[tuple[str, ...], str], KnownNode], *, kept: int = KEPT
    ) -> None:
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

    def _read(self, packed: Packed, name: str) -> KnownNode | None:
        try:
            return self._parse(packed.texts, name)
        except GpuTopologyError as error:
            self._cache.doubt(name, str(error))
            return None
