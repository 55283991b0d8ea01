"""What the server does in a cluster beside its state: it reads pods, tells of them in Events, and opens their gates."""

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
from webhook.programs.server.rate_limits import LimitedPods
from webhook.programs.server.waiting_pods import WaitingPods
from webhook.words import names
from webhook.words.choices import PlacementMode

_RELEASE = "Release"
"""What Events about opened gates call what the webhook did."""


class LiveCluster:
    """Connections to one API server; :class:`webhook.programs.server.events.Events`, and closed with the server.

    Args:
        kubeconfig: Names the API server; ``None``: that of the cluster in which this program runs as a pod.
        seconds: How long a request may take.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """

    def __init__(self, kubeconfig: Where, *, seconds: float) -> None:
        session = connect(kubeconfig, user_agent=names.WEBHOOK_USER_AGENT, seconds=seconds)
        self._api = Api(session, field_manager=names.WEBHOOK_FIELD_MANAGER)
        self._events = PodEvents(self._api)
        self._releases = PodEvents(self._api, action=_RELEASE)
        self.pods = LimitedPods(LivePods(self._api))

    def claims(self, pools: Callable[[], Pools]) -> LiveClaims:
        """Claims as they are at this moment, with the devices that ``pools`` knows of."""
        return LiveClaims(self._api, pools)

    def caches(self, namespace: str, own_namespace: str, policy: AdmitPolicy, log: Log) -> ClusterCaches:
        """The state of the cluster, to be closed before this.

        Args:
            namespace: Where the agents publish.
            own_namespace: Of the webhook, where the planner has its Lease.
            policy: The configuration.
            log: Takes what happens.
        """
        is_off = policy.placement.mode is PlacementMode.OFF
        return ClusterCaches(
            self._api,
            Places(topologies=namespace, planner="" if is_off else own_namespace),
            configured=policy.versions,
            schedulers=policy.binding.schedulers,
            claims=policy.claims,
            max_age=policy.binding.topology_max_age_seconds,
            log=log,
        )

    def gates(self, caches: ClusterCaches, own_namespace: str, policy: AdmitPolicy, log: Log) -> GateOpener:
        """What opens the gates of pods that no planner comes for, to be closed before ``caches``.

        Args:
            caches: The state of the cluster.
            own_namespace: Of the webhook, where the planner has its Lease.
            policy: The configuration.
            log: Takes what happens.
        """
        pods = WaitingPods(self._api, own_namespace)
        return GateOpener(pods, caches.state, policy, events=self._releases, errors=caches.errors, log=log)

    @property
    def lost(self) -> int:
        """How many Events could not be written so far."""
        fates = (Fate.FAILED, Fate.DROPPED, Fate.LIMITED)
        return sum(events.counts[fate] for events in (self._events, self._releases) for fate in fates)

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Have an Event written about the pod of that namespace, name and uid."""
        self._events.tell(event, PodReference(namespace, name, uid))

    async def open(self) -> None:
        """Nothing: connections are made when they are needed."""

    async def close(self) -> None:
        """Write the Events that wait, for a short time, and close the connections."""
        await asyncio.gather(self._events.close(), self._releases.close())
        await self._api.close()
