"""Pods and claims, read so often and no oftener.

A review that comes without credentials may be forged, and each costs reads.
"""

from collections.abc import Callable
from time import monotonic

from webhook.cluster.state import Claims, Pods
from webhook.cluster.token_bucket import Buckets, Rate
from webhook.decisions.claims.slices import Pools
from webhook.words.errors import TooManyClaimReads, TooManyPodReads

EACH_NAMESPACE = Rate(burst=500, per_second=200)
"""Real bursts are Jobs of hundreds of pods; a scheduler binds one or two hundred in a second."""
ALL_NAMESPACES = Rate(burst=1500, per_second=600)


class _Limit:
    """How often objects of one kind may be read, in each namespace and in all.

    Args:
        error: What is raised when that was too often.
        kind: What the objects are, in the plural.
        clock: Seconds that never go back.
    """

    def __init__(
        self, error: type[TooManyPodReads] | type[TooManyClaimReads], kind: str, clock: Callable[[], float]
    ) -> None:
        self._error, self._kind, self._clock = error, kind, clock
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES)

    def take(self, namespace: str, what: str) -> None:
        """Count one read; ``what`` is read, for the error.

        Raises:
            TooManyPodReads, TooManyClaimReads: too many were asked for.
        """
        if not self._buckets.take(namespace, self._clock()):
            raise self._error(f"{what}: too many {self._kind} are asked for. The scheduler tries again")


class LimitedPods:
    """The same pods, with a bound for each namespace, so that reviews about one do not hold up the others.

    Args:
        pods: Where they are read.
        clock: Seconds that never go back.
    """

    def __init__(self, pods: Pods, *, clock: Callable[[], float] = monotonic) -> None:
        self._pods = pods
        self._limit = _Limit(TooManyPodReads, "pods", clock)

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The pod as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyPodReads: too many were asked for.
            PodsUnreadable: whoever knows it gives no answer in time.
        """
        self._limit.take(namespace, f"pod {namespace}/{name}")
        return await self._pods.pod(namespace, name, deadline=deadline)

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The pods of a group on a node, as JSON.

        Raises:
            TooManyPodReads: too many were asked for.
            PodsUnreadable: whoever knows it gives no answer in time.
        """
        self._limit.take(namespace, f"the pods of group {namespace}/{group}")
        return await self._pods.group(namespace, group, node, deadline=deadline)


class LimitedClaims:
    """The same claims, with a bound for each namespace. A pod may have 32 of them, and each counts.

    Args:
        claims: Where they are read.
        clock: Seconds that never go back.
    """

    def __init__(self, claims: Claims, *, clock: Callable[[], float] = monotonic) -> None:
        self._claims = claims
        self._limit = _Limit(TooManyClaimReads, "claims", clock)

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads: too many were asked for.
            ClaimsUnreadable: whoever knows it gives no answer in time.
        """
        self._limit.take(namespace, f"resourceclaim {namespace}/{name}")
        return await self._claims.claim(namespace, name, deadline=deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads, ClaimsUnreadable: as above.
        """
        self._limit.take(namespace, f"resourceclaimtemplate {namespace}/{name}")
        return await self._claims.template(namespace, name, deadline=deadline)

    def pools(self) -> Pools:
        """The devices that DRA drivers publish, which cost no read."""
        return self._claims.pools()
