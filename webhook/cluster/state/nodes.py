"""The sources of facts about a node: the ConfigMap and Lease of its agent, and HAMi's annotations."""

from collections.abc import Callable
from math import inf

from webhook.cluster.state.cache import Cache
from webhook.cluster.state.reduction import Heartbeat, Packed
from webhook.cluster.state.topology_cache import KEPT, Parsed, Texts, parse_annotated, parse_published
from webhook.decisions.resolve.node import KnownNode
from webhook.words.node_names import config_map_name


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
        texts: Texts,
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
