"""Events on pods, created beside the answers: no answer waits for them, and a failure is only counted."""

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
"""A refused pod is bound again every few seconds; equal Events within this time are one."""
WAITING, REMEMBERED = 256, 4096
DRAIN_SECONDS = 2.0
EACH_NAMESPACE = Rate(burst=100, per_second=1)
"""The pods of a large Job may all be told something, but not all again and again."""
ALL_NAMESPACES = Rate(burst=500, per_second=10)


class Fate(StrEnum):
    """What became of an Event."""

    CREATED = "created"
    SUPPRESSED = "suppressed"
    """An equal one was told within :data:`WINDOW`."""
    LIMITED = "limited"
    """Too many were told of the namespace, or of all."""
    DROPPED = "dropped"
    """Too many were waiting, or the program ended."""
    FAILED = "failed"
    """The API server did not take it."""


@dataclass(frozen=True, slots=True)
class PodReference:
    """The pod that an Event is about."""

    namespace: str
    name: str
    uid: str


class PodEvents:
    """Creates Events one after the other.

    Args:
        api: The API server.
        instance: Which of the program's replicas this is.
        reporter: How the program calls itself.
        action: What it was doing.
        now: The time, with its zone.
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
        """When the window of an Event began, by its name; the oldest come first."""
        self._buckets = Buckets(each=EACH_NAMESPACE, total=ALL_NAMESPACES)
        self._poster: asyncio.Task[None] | None = None
        self.counts: Counter[Fate] = Counter()
        self.failure = ""
        """Why the last one failed; empty after one that did not."""

    def tell(self, event: PodEvent, pod: PodReference) -> None:
        """Create the Event soon, unless an equal one is fresh; returns at once and never fails."""
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
        """Give those that wait a short time to be created; then drop them."""
        if self._poster is None:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            self.counts[Fate.DROPPED] += self._waiting.qsize() + 1  # and the one that is being posted
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
                self._told.pop(key, None)  # the next attempt to bind tells it again
            self._waiting.task_done()

    async def _post(self, manifest: dict[str, Any]) -> str:
        """Why it failed; empty if it did not. An Event of that name that is there already is the same one."""
        try:
            with suppress(Conflict):
                await self._api.create(EVENT, manifest, may_repeat=True)
        except ApiError as error:
            return str(error)
        return ""


def _manifest(event: PodEvent, pod: PodReference, reporter: Reporter, at: datetime) -> dict[str, Any]:
    """The Event; replicas that see the same pod within one window of time write one."""
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
