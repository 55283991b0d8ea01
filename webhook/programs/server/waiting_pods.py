"""The pods that wait for the planner, and the planner's Lease, as they are at this moment; and the patch of one pod."""

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
"""Statuses of the answer to a patch whose pod is gone, or is not what the tests of the patch expect.

The API server answers 422 to every failure of a JSON Patch.
"""


class PodsPage(NamedTuple):
    """One page of the list of waiting pods."""

    at: datetime
    """The time of the answer by the clock of the API server, which also dates the creation of objects."""
    documents: list[msgspec.Raw]
    """The pods, as JSON."""


class WaitingPods:
    """The pods with the label of waiting pods, listed and patched. Every method may raise ApiError.

    Args:
        api: The API server; it is written to as the webhook.
        namespace: The namespace of the webhook, where the planner has its Lease.
        now: Returns the time, for an answer that names none.
    """

    def __init__(self, api: Api, namespace: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._lease = planner_lease(namespace)
        self._now = now

    async def pages(self) -> AsyncIterator[PodsPage]:
        """Yield all waiting pods, page by page."""
        async with aclosing(self._api.pages(WAITING_PODS, what="list waiting pods")) as pages:
            async for page in pages:
                yield PodsPage(page.reply.date or self._now(), page.items)

    async def lease(self) -> VersionedObject | None:
        """Return the planner's Lease, listed by its name as in the mirror; ``None`` if there is none."""
        what = f"get Lease {names.PLANNER_LEASE}"
        async with aclosing(self._api.pages(self._lease, what=what)) as pages:
            items = [item async for page in pages for item in page.items]
        return versioned(what, items[0]) if items else None

    async def patch(self, namespace: str, name: str, operations: Sequence[Operation]) -> bool:
        """Apply a JSON patch to a pod; return whether the pod still was as the patch expects."""
        try:
            await self._api.patch(POD, name, namespace, operations, PatchForm.OPERATIONS)
        except ApiError as error:
            if error.status in NO_LONGER_SO:
                return False
            raise
        return True
