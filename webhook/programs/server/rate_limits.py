"""The limits on the rate at which reviews read pods and claims.

A review that comes without credentials may be forged, and each review costs reads.
"""

from collections.abc import Callable
from time import monotonic

from webhook.cluster.state import Claims, Pods
from webhook.cluster.token_bucket import Buckets, Rate, Reserve
from webhook.decisions.claims.slices import Pools
from webhook.words.errors import TooManyClaimReads, TooManyPodReads

EACH_NAMESPACE = Rate(burst=500, per_second=200)
"""Real bursts are Jobs of hundreds of pods; a scheduler binds one or two hundred in a second."""
ALL_NAMESPACES = Rate(burst=1500, per_second=600)
FOR_FEW_READS = Reserve(each=Rate(burst=100, per_second=20), total=Rate(burst=500, per_second=200))
"""For namespaces with few reads: three with many take the 600 a second."""


class _Limit:
    """The limit on reads of objects of one kind, in each namespace and in all together.

    Args:
        error: The error to raise above the limit.
        kind: The name of the objects, in the plural.
        clock: Returns seconds that never go back.
    """

    def __init__(
        self, error: type[TooManyPodReads] | type[TooManyClaimReads], kind: str, clock: Callable[[], float]
    ) -> None:
        self._error, self._kind, self._clock = error, kind, clock
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES, reserve=FOR_FEW_READS)

    def take(self, namespace: str, what: str) -> None:
        """Count one read of ``what``, which the error names.

        Raises:
            TooManyPodReads, TooManyClaimReads: there were too many reads.
        """
        if not self._buckets.take(namespace, self._clock()):
            raise self._error(f"{what}: too many {self._kind} are asked for. The scheduler tries again")


class LimitedPods:
    """A reader of pods with a limit for each namespace, so that reviews about one do not hold up the others.

    Args:
        pods: The reader without limits.
        clock: Returns seconds that never go back.
    """

    def __init__(self, pods: Pods, *, clock: Callable[[], float] = monotonic) -> None:
        self._pods = pods
        self._limit = _Limit(TooManyPodReads, "pods", clock)

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the pod as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyPodReads: there were too many reads.
            PodsUnreadable: the reader gives no answer in time.
        """
        self._limit.take(namespace, f"pod {namespace}/{name}")
        return await self._pods.pod(namespace, name, deadline=deadline)

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """Return the pods of a group on a node, as JSON.

        Raises:
            TooManyPodReads: there were too many reads.
            PodsUnreadable: the reader gives no answer in time.
        """
        self._limit.take(namespace, f"the pods of group {namespace}/{group}")
        return await self._pods.group(namespace, group, node, deadline=deadline)


class LimitedClaims:
    """A reader of claims with a limit for each namespace. A pod may have 32 claims, and each counts.

    Args:
        claims: The reader without limits.
        clock: Returns seconds that never go back.
    """

    def __init__(self, claims: Claims, *, clock: Callable[[], float] = monotonic) -> None:
        self._claims = claims
        self._limit = _Limit(TooManyClaimReads, "claims", clock)

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaim as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads: there were too many reads.
            ClaimsUnreadable: the reader gives no answer in time.
        """
        self._limit.take(namespace, f"resourceclaim {namespace}/{name}")
        return await self._claims.claim(namespace, name, deadline=deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            TooManyClaimReads: there were too many reads.
            ClaimsUnreadable: the reader gives no answer in time.
        """
        self._limit.take(namespace, f"resourceclaimtemplate {namespace}/{name}")
        return await self._claims.template(namespace, name, deadline=deadline)

    def pools(self) -> Pools:
        """Return the devices that DRA drivers publish, which cost no read."""
        return self._claims.pools()
