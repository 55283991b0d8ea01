"""Pods that wait for the planner, and the planner's Lease, as they are at this moment; and the patch of one pod."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import msgspec

from webhook.kube.errors import ApiError, Malformed
from webhook.kube.pages import pages
from webhook.kube.pod_patches import PodPatches
from webhook.kube.resources import planner_lease, waiting_pods
from webhook.kube.session import Session
from webhook.kube.status import Answer
from webhook.kube.versioned import VersionedObject, read_versioned
from webhook.model import names
from webhook.model.patch import Operation

NO_LONGER_SO = frozenset({404, 409, 422})
"""The pod is gone, or is not what the tests of the patch expect: JSON Patch fails with 422 in every way."""


class PodsPage(NamedTuple):
    """Some of the pods."""

    at: datetime
    """When the API server answered, by its own clock, which also dates the creation of objects."""
    documents: list[msgspec.Raw]
    """The pods, as JSON."""


class WaitingPods:
    """Lists and patches pods with the label of those that wait.

    Args:
        session: To the API server.
        namespace: Of the webhook, where the planner has its Lease.
        now: The time, for an answer that names none.
    """

    def __init__(
        self, session: Session, namespace: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._session = session
        self._patches = PodPatches(session, field_manager=names.WEBHOOK_FIELD_MANAGER)
        self._lease = planner_lease(namespace)
        self._now = now

    async def pages(self) -> AsyncIterator[PodsPage]:
        """All of them, page by page.

        Raises:
            ApiError: the API server does not give them.
        """
        resource = waiting_pods()
        async with aclosing(pages(self._session, "list waiting pods", f"{resource.path}?{resource.query}")) as found:
            async for page in found:
                yield PodsPage(self._answered_at(page.answer), page.items)

    async def lease(self) -> VersionedObject | None:
        """The planner's Lease; ``None`` if there is none.

        Raises:
            ApiError: the API server does not give it.
        """
        what = f"get Lease {names.PLANNER_LEASE}"
        async with aclosing(pages(self._session, what, f"{self._lease.path}?{self._lease.query}")) as found:
            items = [item async for page in found for item in page.items]
        try:
            return read_versioned(items[0]) if items else None
        except ValueError as error:
            raise Malformed(f"{what}: expected a Lease, found none: {error}") from None

    async def patch(self, namespace: str, name: str, operations: Sequence[Operation]) -> bool:
        """Apply a JSON patch to a pod; returns whether the pod still was as the patch expects.

        Raises:
            ApiError: the API server does not say.
        """
        try:
            await self._patches.patch(namespace, name, operations)
        except ApiError as error:
            if error.status in NO_LONGER_SO:
                return False
            raise
        return True

    def _answered_at(self, answer: Answer) -> datetime:
        try:
            found = parsedate_to_datetime(answer.headers.get("Date", ""))
        except ValueError:
            return self._now()
        return found if found.tzinfo else found.replace(tzinfo=UTC)
