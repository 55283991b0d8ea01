"""The Lease of the planners, read and written. ``leadership.py`` decides which planner leads."""

from collections.abc import Mapping
from typing import Any

from webhook.cluster.api.verbs import Api, Object
from webhook.cluster.kinds import LEASE
from webhook.words import names


class PlannerLease:
    """The Lease of the planners at the API server.

    Every method may raise :class:`webhook.cluster.api.errors.ApiError`.

    Args:
        api: The API server.
        namespace: The namespace of the planner.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def get(self) -> Object | None:
        """Return the Lease; ``None`` if there is none."""
        found = await self._api.find(LEASE, names.PLANNER_LEASE, self._namespace)
        return found.object() if found else None

    async def create(self, spec: Mapping[str, Any]) -> None:
        """Create the Lease; raise ``Conflict`` if another replica was quicker."""
        metadata = {"name": names.PLANNER_LEASE, "namespace": self._namespace}
        await self._api.create(LEASE, {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": spec})

    async def replace(self, lease: Object, spec: Mapping[str, Any]) -> None:
        """Give ``lease``, as it was read, another ``spec``; raise ``Conflict`` if it was changed since then."""
        await self._api.replace(LEASE, names.PLANNER_LEASE, self._namespace, {**lease, "spec": spec})
