"""The sources of what is known of a node: the ConfigMap and Lease of its agent, and HAMi's annotations."""

from collections.abc import Callable
from math import inf

from webhook.cluster.state.cache import Cache
from webhook.cluster.state.reduction import Heartbeat, Packed
from webhook.cluster.state.topology_cache import KEPT, Parsed, Texts, parse_annotated, parse_published
from webhook.decisions.resolve.node import KnownNode
from webhook.words.node_names import config_map_name


class NodeSources:
    """Reads mirrors of agents' publications and of Nodes.

    Args:
        topologies: What agents published, by the names of the ConfigMaps.
        texts: HAMi's annotations, by the names of the Nodes.
        clock: Seconds that never go back.
        kept: How many parsed topologies of each source are kept.
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
        """What the agent of the node published; names that are too long for a ConfigMap share one."""
        found = self._published.get(config_map_name(node))
        return found if found and found.name == node else None

    def annotated(self, node: str) -> KnownNode | None:
        """What HAMi says of the node."""
        return self._annotated.get(node)

    def age(self, heartbeat: Heartbeat | None) -> float:
        """Seconds since the program was heard of; a Lease that is missing or cannot be read is as old as can be."""
        return inf if heartbeat is None else heartbeat.age + self._clock() - heartbeat.seen

    def is_fresh(self, heartbeat: Heartbeat | None, max_age: float) -> bool:
        """Whether the agent was heard of within ``max_age`` seconds, or within those that it vouches for."""
        return heartbeat is not None and self.age(heartbeat) <= max(max_age, heartbeat.lasts)

    def forget(self, node: str) -> None:
        """Keep nothing parsed of the node: it is gone."""
        self._published.forget(config_map_name(node))
        self._annotated.forget(node)

    def forget_annotated(self, node: str) -> None:
        """Keep no longer what HAMi says of the node: it does not count at the moment."""
        self._annotated.forget(node)
