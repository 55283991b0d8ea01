"""The Lease by which one of several planners leads, read and written; who leads is decided elsewhere."""

from collections.abc import Mapping
from typing import Any

from webhook.cluster.api.verbs import Api, Object
from webhook.cluster.kinds import LEASE
from webhook.words import names


class PlannerLease:
    """Reads and writes the Lease. Every method may raise :class:`webhook.cluster.api.errors.ApiError`.

    Args:
        api: The API server.
        namespace: Of the planner.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def get(self) -> Object | None:
        """The Lease, ``None`` if there is none."""
        found = await self._api.find(LEASE, names.PLANNER_LEASE, self._namespace)
        return found.object() if found else None

    async def create(self, spec: Mapping[str, Any]) -> None:
        """Make it; ``Conflict`` if another replica was quicker."""
        metadata = {"name": names.PLANNER_LEASE, "namespace": self._namespace}
        await self._api.create(LEASE, {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": spec})

    async def replace(self, lease: Object, spec: Mapping[str, Any]) -> None:
        """Give the Lease that was read another ``spec``; ``Conflict`` if it is no longer the one that was read."""
        await self._api.replace(LEASE, names.PLANNER_LEASE, self._namespace, {**lease, "spec": spec})
