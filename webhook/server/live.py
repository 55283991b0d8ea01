"""What the server needs of a cluster beside its state: pods at the moment of their Binding, and Events about them."""

from pathlib import Path

from webhook.config import AdmitPolicy
from webhook.kube.pod_events import Fate, PodEvents, PodReference
from webhook.kube.pods import LivePods
from webhook.kube.session import connect
from webhook.log import Log
from webhook.model import names
from webhook.model.binding import PodEvent
from webhook.server.caches import ClusterCaches
from webhook.server.limited import LimitedPods


class LiveCluster:
    """Connections to one API server; :class:`webhook.server.events.Events`, and closed with the server.

    Args:
        kubeconfig: Names the API server; ``None``: that of the cluster in which this program runs as a pod.
        seconds: How long a request may take.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """

    def __init__(self, kubeconfig: Path | None, *, seconds: float) -> None:
        self._session = connect(kubeconfig, user_agent=names.WEBHOOK_USER_AGENT, seconds=seconds)
        self._events = PodEvents(self._session)
        self.pods = LimitedPods(LivePods(self._session))

    def caches(self, namespace: str, policy: AdmitPolicy, log: Log) -> ClusterCaches:
        """The state of the cluster, to be closed before this.

        Args:
            namespace: Where the agents publish.
            policy: The configuration.
            log: Takes what happens.
        """
        return ClusterCaches(
            self._session,
            namespace,
            configured=policy.versions,
            schedulers=policy.binding.schedulers,
            max_age=policy.binding.topology_max_age_seconds,
            log=log,
        )

    @property
    def lost(self) -> int:
        """How many Events could not be written so far."""
        return sum(self._events.counts[fate] for fate in (Fate.FAILED, Fate.DROPPED, Fate.LIMITED))

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Have an Event written about the pod of that namespace, name and uid."""
        self._events.tell(event, PodReference(namespace, name, uid))

    async def open(self) -> None:
        """Nothing: connections are made when they are needed."""

    async def close(self) -> None:
        """Write the Events that wait, for a short time, and close the connections."""
        await self._events.close()
        await self._session.close()
