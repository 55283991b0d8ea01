"""The server's access to a cluster beside its state: it reads pods, writes Events about them, and opens their gates."""

import asyncio
from collections.abc import Callable

from webhook.cluster.api.contexts import Where
from webhook.cluster.api.current_objects import LiveClaims, LivePods
from webhook.cluster.api.pod_events import Fate, PodEvents, PodReference
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.cluster.state.cluster import Places
from webhook.decisions.claims.slices import Pools
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.binding import PodEvent
from webhook.programs.log import Log
from webhook.programs.server.caches import ClusterCaches
from webhook.programs.server.gates import GateOpener
from webhook.programs.server.waiting_pods import WaitingPods
from webhook.words import names
from webhook.words.choices import PlacementMode

_RELEASE = "Release"
"""The action in Events about opened gates."""


class LiveCluster:
    """The connections to one API server, which are closed with the server.

    It is :class:`webhook.programs.server.events.Events` and :class:`webhook.programs.server.run.Background`.

    Args:
        kubeconfig: The kubeconfig that names the API server; ``None`` for the one of the cluster in which this program
            runs as a pod.
        seconds: The longest time of a request.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """

    def __init__(self, kubeconfig: Where, *, seconds: float) -> None:
        session = connect(kubeconfig, user_agent=names.WEBHOOK_USER_AGENT, seconds=seconds)
        self._api = Api(session, field_manager=names.WEBHOOK_FIELD_MANAGER)
        self._events = PodEvents(self._api)
        self._releases = PodEvents(self._api, action=_RELEASE)
        self.pods = LivePods(self._api)

    def claims(self, pools: Callable[[], Pools]) -> LiveClaims:
        """Return a reader of claims as they are at this moment, with the devices of ``pools``."""
        return LiveClaims(self._api, pools)

    def caches(self, namespace: str, own_namespace: str, policy: AdmitPolicy, log: Log) -> ClusterCaches:
        """Return the state of the cluster, which must be closed before these connections.

        Args:
            namespace: The namespace in which the agents publish.
            own_namespace: The namespace of the webhook, where the planner has its Lease.
            policy: The configuration.
            log: Takes what happens.
        """
        is_off = policy.placement.mode is PlacementMode.OFF
        return ClusterCaches(
            self._api,
            Places(topologies=namespace, planner="" if is_off else own_namespace),
            configured=policy.versions,
            schedulers=policy.binding.schedulers,
            runtime_class=policy.remap.runtime_class_name,
            claims=policy.claims,
            max_age=policy.binding.topology_max_age_seconds,
            log=log,
        )

    def gates(self, caches: ClusterCaches, own_namespace: str, policy: AdmitPolicy, log: Log) -> GateOpener:
        """Return the opener of gates of pods that no planner handles. It must be closed before ``caches``.

        Args:
            caches: The state of the cluster.
            own_namespace: The namespace of the webhook, where the planner has its Lease.
            policy: The configuration.
            log: Takes what happens.
        """
        pods = WaitingPods(self._api, own_namespace)
        return GateOpener(pods, caches.state, policy, events=self._releases, errors=caches.errors, log=log)

    @property
    def lost(self) -> int:
        """The number of Events that could not be written so far."""
        fates = (Fate.FAILED, Fate.DROPPED, Fate.LIMITED)
        return sum(events.counts[fate] for events in (self._events, self._releases) for fate in fates)

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Have an Event written about the pod of that namespace, name and uid."""
        self._events.tell(event, PodReference(namespace, name, uid))

    async def open(self) -> None:
        """Do nothing: connections are made when they are needed."""

    async def close(self) -> None:
        """Write the Events that wait, for a short time, and close the connections."""
        await asyncio.gather(self._events.close(), self._releases.close())
        await self._api.close()
