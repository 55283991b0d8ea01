"""Where decisions get what they know of the cluster. One small interface; a directory is the embedded default."""

from typing import Protocol

from webhook.model.cluster import ClusterFacts
from webhook.model.pod import Namespace


class State(Protocol):
    """What is known of the cluster right now. Every answer comes from memory: reviews never wait for it."""

    @property
    def ready(self) -> bool:
        """Whether the answers can be relied on."""

    def namespace(self, name: str) -> Namespace:
        """The namespace; one with ``known`` unset if nothing is known of it."""

    def cluster(self) -> ClusterFacts:
        """Versions of HAMi and Kubernetes, as far as they are known."""
