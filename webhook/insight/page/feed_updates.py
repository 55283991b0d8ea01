"""Keeps a feed true: an overview when the cluster changed, at most about once a second, and findings behind it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Protocol

from msgspec.structs import replace

from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.insight.overview.picture import overview
from webhook.insight.page.details import Known
from webhook.insight.page.feed import Feed
from webhook.words.errors import GpuTopologyError

LEAST_SECONDS = 1.0
"""Between two overviews, and at least twice as long as one takes."""
MOST_SECONDS = 10.0
"""After so long there is a new one although nothing changed: ages are reckoned from the time."""
FINDINGS_REST = 4
"""For so many times as long as findings took they are not looked for again: that is a fifth of the time."""


class Source(Protocol):
    """A cluster that is followed."""

    changed: asyncio.Event
    """Set when something changed."""

    def reader(self) -> Callable[[], Snapshot]:
        """Reads the cluster as it is now. To be called on the event loop; what it returns, in any thread."""

    def standing(self) -> Standing:
        """Whether the cluster is followed at this moment."""


class Following:
    """Overviews and findings of a source.

    Args:
        source: The cluster.
        feed: Hears of both.
        namespace: Whose pods are looked at; None: those of all.
    """

    def __init__(self, source: Source, feed: Feed, namespace: str | None) -> None:
        self._source = source
        self._feed = feed
        self._namespace = namespace
        self._snapshot: Snapshot | None = None
        self._found: Sequence[Diagnosis] | None = None
        self._of: Snapshot | None = None
        """What the findings were found in."""
        self._again = asyncio.Event()

    async def overviews(self) -> None:
        """Until this is cancelled."""
        is_changed = True
        while True:
            self._source.changed.clear()
            self._again.clear()
            began = perf_counter()
            last = self._snapshot
            read = self._source.reader() if is_changed or last is None else partial(_same, last)
            try:
                known = await asyncio.to_thread(self._look, read)
            except GpuTopologyError as error:  # an object that cannot be read; another state of it may be
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
        """Until there is something new; returns whether it is more than findings."""
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
        """Until this is cancelled."""
        while True:
            snapshot = self._snapshot
            if snapshot is None or snapshot is self._of:
                await asyncio.sleep(LEAST_SECONDS / 4)
                continue
            began = perf_counter()
            self._found = await asyncio.to_thread(self._judge, snapshot)
            self._of = snapshot
            self._again.set()
            await asyncio.sleep(max(LEAST_SECONDS, FINDINGS_REST * (perf_counter() - began)))

    def _judge(self, snapshot: Snapshot) -> Sequence[Diagnosis]:
        return analyze(snapshot, namespace=self._namespace)


def _same(snapshot: Snapshot) -> Snapshot:
    return snapshot
