"""Pods and claims, read so often and no oftener.

A review that comes without credentials may be forged, and each costs reads.
"""

from collections.abc import Callable
from time import monotonic

from webhook.claims.slices import Pools
from webhook.model.bucket import Buckets, Rate
from webhook.model.errors import TooManyClaimReads, TooManyPodReads
from webhook.state import Claims, Pods

EACH_NAMESPACE = Rate(burst=500, per_second=200)
"""Real bursts are Jobs of hundreds of pods; a scheduler binds one or two hundred in a second."""
ALL_NAMESPACES = Rate(burst=1500, per_second=600)


class LimitedPods:
    """The same pods, with a bound for each namespace, so that reviews about one do not hold up the others.

    Args:
        pods: Where they are read.
        clock: Seconds that never go back.
    """

    def __init__(self, pods: Pods, *, clock: Callable[[], float] = monotonic) -> None:
        self._pods = pods
        self._clock = clock
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES)

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The pod as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyPodReads: too many were asked for.
            PodsUnreadable: whoever knows it gives no answer in time.
        """
        self._take(namespace, f"pod {namespace}/{name}")
        return await self._pods.pod(namespace, name, deadline=deadline)

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The pods of a group on a node, as JSON.

        Raises:
            TooManyPodReads: too many were asked for.
            PodsUnreadable: whoever knows it gives no answer in time.
        """
        self._take(namespace, f"the pods of group {namespace}/{group}")
        return await self._pods.group(namespace, group, node, deadline=deadline)

    def _take(self, namespace: str, what: str) -> None:
        if not self._buckets.take(namespace, self._clock()):
            raise TooManyPodReads(f"{what}: too many pods are asked for. The scheduler tries again")


class LimitedClaims:
    """The same claims, with a bound for each namespace. A pod may have 32 of them, and each counts.

    Args:
        claims: Where they are read.
        clock: Seconds that never go back.
    """

    def __init__(self, claims: Claims, *, clock: Callable[[], float] = monotonic) -> None:
        self._claims = claims
        self._clock = clock
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES)

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads: too many were asked for.
            ClaimsUnreadable: whoever knows it gives no answer in time.
        """
        self._take(namespace, f"resourceclaim {namespace}/{name}")
        return await self._claims.claim(namespace, name, deadline=deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads, ClaimsUnreadable: as above.
        """
        self._take(namespace, f"resourceclaimtemplate {namespace}/{name}")
        return await self._claims.template(namespace, name, deadline=deadline)

    def pools(self) -> Pools:
        """The devices that DRA drivers publish, which cost no read."""
        return self._claims.pools()

    def _take(self, namespace: str, what: str) -> None:
        if not self._buckets.take(namespace, self._clock()):
            raise TooManyClaimReads(f"{what}: too many claims are asked for. The scheduler tries again")
