"""Pods that wait for the planner, and the planner's Lease, as they are at this moment; and the patch of one pod."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.object_version import VersionedObject
from webhook.cluster.api.verbs import Api, PatchForm, versioned
from webhook.cluster.kinds import POD, WAITING_PODS, planner_lease
from webhook.words import names
from webhook.words.patch import Operation

NO_LONGER_SO = frozenset({404, 409, 422})
"""The pod is gone, or is not what the tests of the patch expect: JSON Patch fails with 422 in every way."""


class PodsPage(NamedTuple):
    """Some of the pods."""

    at: datetime
    """When the API server answered, by its own clock, which also dates the creation of objects."""
    documents: list[msgspec.Raw]
    """The pods, as JSON."""


class WaitingPods:
    """Lists and patches pods with the label of those that wait. Every method may raise ApiError.

    Args:
        api: The API server; writes as the webhook.
        namespace: Of the webhook, where the planner has its Lease.
        now: The time, for an answer that names none.
    """

    def __init__(self, api: Api, namespace: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._lease = planner_lease(namespace)
        self._now = now

    async def pages(self) -> AsyncIterator[PodsPage]:
        """All of them, page by page."""
        async with aclosing(self._api.pages(WAITING_PODS, what="list waiting pods")) as pages:
            async for page in pages:
                yield PodsPage(page.reply.date or self._now(), page.items)

    async def lease(self) -> VersionedObject | None:
        """The planner's Lease, listed by its name as in the mirror; ``None`` if there is none."""
        what = f"get Lease {names.PLANNER_LEASE}"
        async with aclosing(self._api.pages(self._lease, what=what)) as pages:
            items = [item async for page in pages for item in page.items]
        return versioned(what, items[0]) if items else None

    async def patch(self, namespace: str, name: str, operations: Sequence[Operation]) -> bool:
        """Apply a JSON patch to a pod; returns whether the pod still was as the patch expects."""
        try:
            await self._api.patch(POD, name, namespace, operations, PatchForm.OPERATIONS)
        except ApiError as error:
            if error.status in NO_LONGER_SO:
                return False
            raise
        return True
