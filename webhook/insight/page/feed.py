"""The feed of the page: it sends browsers the newest blocks in their language. It belongs to one event loop."""

import asyncio
from collections.abc import AsyncIterator

from webhook.cluster.snapshot.freshness import Standing
from webhook.insight.page.blocks import Blocks, blocks
from webhook.insight.page.details import Known
from webhook.insight.page.sheet import news
from webhook.insight.page.words import Language, words

MOST_LISTENERS = 8
"""Pages that listen at the same time, at most."""


class Feed:
    """The newest overview of a cluster, to which pages listen. A slow page misses overviews in between."""

    def __init__(self) -> None:
        self.known: Known | None = None
        self.listeners = 0
        self._standing = Standing(live=False)
        self._blocks: dict[Language, Blocks] = {}
        self._changed = asyncio.Event()
        self._stopped = False
        self._making = asyncio.Lock()

    async def publish(self, known: Known, standing: Standing) -> None:
        """Sends pages a new state of the cluster."""
        async with self._making:
            self.known = known
            for language, before in list(self._blocks.items()):
                self._blocks[language] = await self._made(known, language, before)
        self.stand(standing)

    def stand(self, standing: Standing) -> None:
        """Sends pages whether the cluster is followed; the state of the cluster remains."""
        self._standing = standing
        self._wake()

    def stop(self) -> None:
        """Ends all streams."""
        self._stopped = True
        self._wake()

    async def listen(self, language: Language) -> AsyncIterator[bytes]:
        """Yields messages for one page, first with all blocks and then with changed ones, until the feed stops."""
        told: Blocks | None = None
        while not self._stopped:
            changed = self._changed
            found = await self._newest(language)
            if found is not None:
                yield await asyncio.to_thread(news, found, told, self._standing)
                told = found
            await changed.wait()

    async def _newest(self, language: Language) -> Blocks | None:
        async with self._making:
            if language not in self._blocks and self.known is not None:
                self._blocks[language] = await self._made(self.known, language, {})
            return self._blocks.get(language)

    @staticmethod
    async def _made(known: Known, language: Language, before: Blocks) -> Blocks:
        return await asyncio.to_thread(blocks, known.overview, words(language), before)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
