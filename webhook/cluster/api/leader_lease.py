"""The Lease by which one of several replicas leads, read and written; :mod:`webhook.objects.lease` decides."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic

from webhook.cluster.api.errors import Conflict
from webhook.cluster.api.verbs import Api, Object
from webhook.cluster.kinds import LEASE
from webhook.objects.lease import ObservedLease, leader_spec, look, may_lead


class LeaderLease:
    """The Lease as one replica sees it. Every method may raise :class:`webhook.cluster.api.errors.ApiError`.

    Args:
        api: The API server.
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        identity: The identity of this replica, which no other replica and no predecessor has.
        seconds: The time after a change of the Lease in which no other replica takes it, each by its own clock.
        clock: A clock in seconds that never goes back.
        now: The time of day, which is only for people who read the Lease.
    """

    def __init__(  # noqa: PLR0913 - two of them are the clocks
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        *,
        seconds: float,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity = identity
        self._api = api
        self._namespace = namespace
        self._name = name
        self._seconds = seconds
        self._clock = clock
        self._now = now
        self._observed: ObservedLease | None = None
        self._may_hold = False

    async def find(self) -> Object | None:
        """Get the Lease; None if there is none."""
        found = await self._api.find(LEASE, self._name, self._namespace)
        return found.object() if found else None

    async def take(self) -> bool:
        """Take or renew the Lease if it may be taken, and return whether it is ours now.

        Raises:
            Conflict: another replica was quicker, or a person edited the Lease.
        """
        found = await self.find()
        if found is not None:
            now = self._clock()
            self._observed = look(self._observed, found, now)
            if not may_lead(found, self._observed, self.identity, now, least=self._seconds):
                self._may_hold = False
                return False
        self._may_hold = True  # also if the answer to the write is lost
        await self.write(found)
        return True

    async def give_back(self) -> None:
        """Give the Lease up if this replica may hold it, so that another one takes it at once."""
        while self._may_hold:
            found = await self.find()
            if found is not None and (found.get("spec") or {}).get("holderIdentity") == self.identity:
                with suppress(Conflict):  # the last renewal came late: the next look finds it
                    await self.write(found, held=False)
                    self._may_hold = False
            else:
                self._may_hold = False

    async def write(self, lease: Object | None, *, held: bool = True) -> None:
        """Make the Lease that of this replica or, with ``held`` false, of nobody.

        Args:
            lease: The Lease as read; None if there is none.
            held: Whether this replica holds it from now on.

        Raises:
            Conflict: the Lease is not the one that was read.
        """
        spec = leader_spec(lease, self.identity, self._now(), duration=self._seconds, held=held)
        if lease is not None:
            await self._api.replace(LEASE, self._name, self._namespace, {**lease, "spec": spec})
            return
        metadata = {"name": self._name, "namespace": self._namespace}
        await self._api.create(LEASE, {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": spec})
