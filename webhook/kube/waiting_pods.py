"""Pods that wait for the planner, and the planner's Lease, as they are at this moment; and the patch of one pod."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from webhook.kube.errors import AnswerTooLong, ApiError, Malformed
from webhook.kube.pod_patches import PodPatches
from webhook.kube.resources import planner_lease, waiting_pods
from webhook.kube.session import Session
from webhook.kube.status import Answer, failure
from webhook.kube.versioned import VersionedObject, read_versioned
from webhook.model import names
from webhook.model.patch import Operation

PAGE_PODS = 50
PAGE_BYTES = 16 * 1024 * 1024
LEASE_BYTES = 1024 * 1024
NO_LONGER_SO = frozenset({404, 409, 422})
"""The pod is gone, or is not what the tests of the patch expect: JSON Patch fails with 422 in every way."""


class PodsPage(NamedTuple):
    """Some of the pods."""

    at: datetime
    """When the API server answered, by its own clock, which also dates the creation of objects."""
    documents: list[msgspec.Raw]
    """The pods, as JSON."""


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_List)


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
        what, resource, following, limit = "list waiting pods", waiting_pods(), "", PAGE_PODS
        while True:
            path = f"{resource.path}?{resource.query}&limit={limit}{following}"
            try:
                answer = await self._session.get(what, path, limit=PAGE_BYTES)
            except AnswerTooLong:
                if limit == 1:
                    raise
                limit //= 2
                continue
            found = _read_list(what, answer)
            yield PodsPage(self._answered_at(answer), found.items or [])
            if not found.metadata.continue_:
                return
            following = f"&continue={quote(found.metadata.continue_, safe='')}"

    async def lease(self) -> VersionedObject | None:
        """The planner's Lease; ``None`` if there is none.

        Raises:
            ApiError: the API server does not give it.
        """
        what = f"get Lease {names.PLANNER_LEASE}"
        answer = await self._session.get(what, f"{self._lease.path}?{self._lease.query}&limit=1", limit=LEASE_BYTES)
        items = _read_list(what, answer).items
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


def _read_list(what: str, answer: Answer) -> _List:
    if answer.status != 200:
        raise failure(what, answer)
    try:
        return _LIST.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise Malformed(f"{what}: expected a list, found none: {error}") from None
