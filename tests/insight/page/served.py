"""A page that is served in this process, of overviews that the test gives."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.insight.analyze.clusters import Cluster
from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.overview.model import Overview
from webhook.insight.page.following import Newest
from webhook.insight.page.markup import Known
from webhook.insight.page.server import Place, find_place, serve

LIVE = Standing(live=True, at="12:00:00 UTC")
_SECONDS = 30.0


class Served:
    """The page, told by a test what there is."""

    def __init__(self, place: Place, snapshot: Snapshot | None = None) -> None:
        self.place = place
        self._snapshot = snapshot or Cluster().snapshot()
        self._newest = Newest()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tell(self, overview: Overview, standing: Standing = LIVE) -> None:
        """The cluster is like that from now on."""
        self._loop.call_soon_threadsafe(self._newest.publish, Known(self._snapshot, overview), standing)

    def stand(self, standing: Standing) -> None:
        self._loop.call_soon_threadsafe(self._newest.stand, standing)

    def stop(self) -> None:
        """The server ends as it does after Ctrl-C."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve(self.place, self._newest, [self._until_the_end()]))

    async def _until_the_end(self) -> None:
        await self._end.wait()


@contextmanager
def served(overview: Overview | None = None, snapshot: Snapshot | None = None) -> Iterator[Served]:
    """A page on a port of its own."""
    found = Served(find_place(0), snapshot)
    try:
        if overview is not None:
            found.tell(overview)
        yield found
    finally:
        found.stop()
