"""Events on pods, created in the background. No answer waits for them, and a failure is only counted."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from webhook.cluster.api.errors import ApiError, Conflict
from webhook.cluster.api.verbs import Api
from webhook.cluster.kinds import EVENT
from webhook.cluster.token_bucket import Buckets, Rate
from webhook.objects.binding import PodEvent
from webhook.objects.event import Reporter, digest, event_manifest
from webhook.words import names

ACTION = "Bind"

WINDOW = timedelta(minutes=10)
"""The time within which equal Events are one. A refused pod is bound again every few seconds."""
WAITING, REMEMBERED = 256, 4096
DRAIN_SECONDS = 2.0
EACH_NAMESPACE = Rate(burst=100, per_second=1)
"""The rate of each namespace. The pods of a large Job may all have an Event, but not again and again."""
ALL_NAMESPACES = Rate(burst=500, per_second=10)


class Fate(StrEnum):
    """The fate of an Event."""

    CREATED = "created"
    SUPPRESSED = "suppressed"
    """An equal Event was created within :data:`WINDOW`."""
    LIMITED = "limited"
    """There were too many Events in the namespace, or in all."""
    DROPPED = "dropped"
    """Too many Events were waiting, or the program ended."""
    FAILED = "failed"
    """The API server did not accept the Event."""


@dataclass(frozen=True, slots=True)
class PodReference:
    """The pod of an Event."""

    namespace: str
    name: str
    uid: str


class PodEvents:
    """Creates Events one after the other, in the background.

    Args:
        api: The API server.
        instance: The name of this replica of the program.
        reporter: The name of the program.
        action: The action of the program that the Events report.
        now: A function that returns the time, with its zone.
    """

    def __init__(
        self,
        api: Api,
        *,
        instance: str | None = None,
        reporter: str = names.WEBHOOK_CONTROLLER,
        action: str = ACTION,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._reporter = Reporter(reporter, instance or socket.gethostname(), action)
        self._now = now
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(WAITING)
        self._told: dict[str, datetime] = {}
        """The begin of the window of an Event, by the Event's name; the oldest come first."""
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES)
        self._poster: asyncio.Task[None] | None = None
        self.counts: Counter[Fate] = Counter()
        self.failure = ""
        """The error of the last Event; empty if it succeeded."""

    def tell(self, event: PodEvent, pod: PodReference) -> None:
        """Create the Event soon, unless a recent one is equal. Returns at once and never fails."""
        at = self._now()
        key = digest(pod.uid, event.reason, event.note)
        began = self._told.get(key)
        if began is not None and at - began < WINDOW:
            self.counts[Fate.SUPPRESSED] += 1
            return
        if not self._buckets.take(pod.namespace, at.timestamp()):
            self.counts[Fate.LIMITED] += 1
            return
        manifest = _manifest(event, pod, self._reporter, at)
        try:
            self._waiting.put_nowait((key, manifest))
        except asyncio.QueueFull:
            self.counts[Fate.DROPPED] += 1
            return
        self._remember(key, at)
        if self._poster is None:
            self._poster = asyncio.create_task(self._post_all())

    async def close(self) -> None:
        """Wait a short time until the waiting Events are created, and drop the rest."""
        if self._poster is None:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            self.counts[Fate.DROPPED] += self._waiting.qsize() + 1  # one more is being posted
        self._poster.cancel()
        await asyncio.wait((self._poster,))
        self._poster = None

    def _remember(self, key: str, at: datetime) -> None:
        self._told.pop(key, None)
        self._told[key] = at
        while len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]

    async def _post_all(self) -> None:
        while True:
            key, manifest = await self._waiting.get()
            self.failure = await self._post(manifest)
            self.counts[Fate.FAILED if self.failure else Fate.CREATED] += 1
            if self.failure:
                self._told.pop(key, None)  # so the next attempt to bind creates it
            self._waiting.task_done()

    async def _post(self, manifest: dict[str, Any]) -> str:
        """Create the Event, and return the error or an empty text. An existing Event of the name counts as created."""
        try:
            with suppress(Conflict):
                await self._api.create(EVENT, manifest, may_repeat=True)
        except ApiError as error:
            return str(error)
        return ""


def _manifest(event: PodEvent, pod: PodReference, reporter: Reporter, at: datetime) -> dict[str, Any]:
    """Return the Event. Replicas that see the same pod within one window of time write the same Event."""
    window = int(at.timestamp() // WINDOW.total_seconds())
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return event_manifest(
        regarding,
        reporter,
        namespace=pod.namespace,
        reason=event.reason,
        note=event.note,
        at=at,
        seed=str(window),
        warning=event.is_warning,
    )
