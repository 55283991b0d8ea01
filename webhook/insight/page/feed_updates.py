"""The updates of a feed: an overview after each change of the cluster, at most about once a second, then findings."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Protocol

from msgspec.structs import replace

from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import Analysis, analyze
from webhook.insight.overview.picture import overview
from webhook.insight.page.details import Known
from webhook.insight.page.feed import Feed
from webhook.words.errors import GpuTopologyError

LEAST_SECONDS = 1.0
"""The least time between two overviews; it is also at least twice the time that an overview takes."""
MOST_SECONDS = 10.0
"""The time after which there is a new overview although nothing changed, because ages depend on the time."""
FINDINGS_REST = 4
"""The pause after findings, in multiples of the time that they took: findings take a fifth of the time."""


class Source(Protocol):
    """A cluster that is followed."""

    changed: asyncio.Event
    """Set when something changed."""

    def reader(self) -> Callable[[], Snapshot]:
        """Returns a function that reads the cluster as it is now.

        This method has to be called on the event loop. The function that it returns can be called in any thread.
        """

    def standing(self) -> Standing:
        """Returns whether the cluster is followed at this moment."""


class Following:
    """The tasks that publish overviews and findings of a source.

    Args:
        source: The cluster.
        feed: The feed that publishes them.
        namespace: The namespace whose pods are judged; None: all namespaces.
    """

    def __init__(self, source: Source, feed: Feed, namespace: str | None) -> None:
        self._source = source
        self._feed = feed
        self._namespace = namespace
        self._snapshot: Snapshot | None = None
        self._found: Analysis | None = None
        self._of: Snapshot | None = None
        """The snapshot that the findings are about."""
        self._again = asyncio.Event()

    async def overviews(self) -> None:
        """Publishes overviews until the task is cancelled."""
        is_changed = True
        while True:
            self._source.changed.clear()
            self._again.clear()
            began = perf_counter()
            last = self._snapshot
            read = self._source.reader() if is_changed or last is None else partial(_same, last)
            try:
                known = await asyncio.to_thread(self._look, read)
            except GpuTopologyError as error:  # an object cannot be read; a later state of it perhaps can
                is_read = False
                self._feed.stand(replace(self._source.standing(), live=False, reason=str(error)))
            else:
                is_read = True
                self._snapshot = known.snapshot
                await self._feed.publish(known, self._source.standing())
            await asyncio.sleep(max(LEAST_SECONDS, 2 * (perf_counter() - began)))
            is_changed = await self._wait() or not is_read

    def _look(self, read: Callable[[], Snapshot]) -> Known:
        snapshot = read()
        found = overview(snapshot, self._found, are_all_pods=self._namespace is None)
        return Known(snapshot, found)

    async def _wait(self) -> bool:
        """Waits for a change or for findings, at most about ``MOST_SECONDS``; returns whether to read the cluster."""
        for _ in range(int(MOST_SECONDS)):
            waits = [asyncio.create_task(each.wait()) for each in (self._source.changed, self._again)]
            done, pending = await asyncio.wait(waits, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            for each in pending:
                each.cancel()
            if done:
                return self._source.changed.is_set()
            if not self._source.standing().live:
                self._feed.stand(self._source.standing())
        return True

    async def findings(self) -> None:
        """Looks for findings in each new snapshot until the task is cancelled."""
        while True:
            snapshot = self._snapshot
            if snapshot is None or snapshot is self._of:
                await asyncio.sleep(LEAST_SECONDS / 4)
                continue
            began = perf_counter()
            self._found = await asyncio.to_thread(analyze, snapshot, namespace=self._namespace)
            self._of = snapshot
            self._again.set()
            await asyncio.sleep(max(LEAST_SECONDS, FINDINGS_REST * (perf_counter() - began)))


def _same(snapshot: Snapshot) -> Snapshot:
    return snapshot
