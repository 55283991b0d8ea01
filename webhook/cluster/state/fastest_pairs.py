"""The fastest pair of GPUs among all nodes, judged a few nodes at a time so that no review waits for many."""

from webhook.cluster.state.cache import Cache
from webhook.cluster.state.reduction import Packed
from webhook.cluster.state.topology_cache import parse_published
from webhook.decisions.fastest_pair import FastestPair, fastest_pair
from webhook.words.errors import GpuTopologyError

MOST_NODES = 1000
"""The most nodes that are looked at: in a larger cluster the fastest pair is not known."""
JUDGED_AT_ONCE = 4
"""The most nodes that one question judges, at a few milliseconds each."""


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
