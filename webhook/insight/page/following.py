"""The newest state of a cluster that is followed: read again after each change, at most about once a second."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Protocol

from msgspec.structs import replace

from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.overview.picture import overview
from webhook.insight.page.markup import Known
from webhook.insight.page.view import slots
from webhook.words.errors import GpuTopologyError

LEAST_SECONDS = 1.0
"""The least time between two readings; it is also at least the time that a reading takes."""
MOST_SECONDS = 10
"""The time after which the cluster is read although nothing changed, because ages depend on the time."""


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


class Newest:
    """The newest state of the cluster, for the server. It belongs to one event loop."""

    def __init__(self) -> None:
        self.known: Known | None = None
        self.standing = Standing(live=False)
        self.colours: Mapping[str, int] = {}
        """The numbers of pods, which give them their colours."""
        self.version = 0
        """A number that changes with each state."""

    def publish(self, known: Known, standing: Standing) -> None:
        """Takes a new state of the cluster."""
        self.known = known
        self.colours = slots(known.overview.pods, self.colours)
        self.standing = standing
        self.version += 1

    def stand(self, standing: Standing) -> None:
        """Takes whether the cluster is followed; the state of the cluster remains."""
        if standing != self.standing:
            self.standing = standing
            self.version += 1


async def follow(source: Source, newest: Newest, namespace: str | None) -> None:
    """Publishes the states of a source until the task is cancelled, the first one before its findings are known.

    Args:
        source: The cluster.
        newest: Takes the states.
        namespace: The namespace whose pods are judged; None: all namespaces.
    """
    while True:
        source.changed.clear()
        began = perf_counter()
        try:
            snapshot = await asyncio.to_thread(source.reader())
            if newest.known is None:
                newest.publish(await asyncio.to_thread(_look, snapshot, namespace, is_first=True), source.standing())
            newest.publish(await asyncio.to_thread(_look, snapshot, namespace), source.standing())
        except GpuTopologyError as error:  # an object cannot be read; a later state of it perhaps can
            newest.stand(replace(source.standing(), live=False, reason=str(error)))
        await asyncio.sleep(max(LEAST_SECONDS, perf_counter() - began))
        await _changed(source, newest)


def _look(snapshot: Snapshot, namespace: str | None, *, is_first: bool = False) -> Known:
    found = None if is_first else analyze(snapshot, namespace=namespace)
    return Known(snapshot, overview(snapshot, found, are_all_pods=namespace is None))


async def _changed(source: Source, newest: Newest) -> None:
    """Waits for a change, at most about ``MOST_SECONDS``, and publishes meanwhile that the cluster is not followed."""
    for _ in range(MOST_SECONDS):
        try:
            await asyncio.wait_for(source.changed.wait(), 1.0)
        except TimeoutError:
            if not source.standing().live:
                newest.stand(source.standing())
        else:
            return
