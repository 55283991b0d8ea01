"""What browsers are told: the newest sheet of each language that is asked for. On one event loop."""

import asyncio
from collections.abc import AsyncIterator

from webhook.page.details import Known
from webhook.page.sheet import Sheet, Standing, news, turned
from webhook.page.words import Language, words

MOST_LISTENERS = 8
"""Pages that follow at the same time."""


class Feed:
    """Told by whoever follows the cluster; listened to by pages. A slow page misses what lies between two turns."""

    def __init__(self) -> None:
        self.known: Known | None = None
        self.listeners = 0
        self._number = 0
        self._standing = Standing(live=False)
        self._sheets: dict[Language, Sheet] = {}
        self._changed = asyncio.Event()
        self._stopped = False
        self._turning = asyncio.Lock()

    async def publish(self, known: Known, standing: Standing) -> None:
        """The cluster is like that."""
        async with self._turning:
            number = self._number + 1
            for language, sheet in list(self._sheets.items()):
                self._sheets[language] = await asyncio.to_thread(turned, sheet, known.overview, number)
            self._number, self.known = number, known
        self.stand(standing)

    def stand(self, standing: Standing) -> None:
        """Whether the cluster is followed; said although it is as it was."""
        self._standing = standing
        self._wake()

    def stop(self) -> None:
        """End what is being sent."""
        self._stopped = True
        self._wake()

    async def listen(self, language: Language, since: int) -> AsyncIterator[bytes]:
        """What a page has to hear, for as long as the server runs.

        Args:
            language: Of the page.
            since: The last turn that it has heard of.
        """
        while not self._stopped:
            changed = self._changed
            sheet = await self._sheet(language)
            if sheet is not None:
                yield await asyncio.to_thread(news, sheet, since, self._standing)
                since = sheet.number
            await changed.wait()

    async def _sheet(self, language: Language) -> Sheet | None:
        async with self._turning:
            sheet = self._sheets.get(language)
            if sheet is None and self.known is not None:
                empty = Sheet(words(language))
                sheet = await asyncio.to_thread(turned, empty, self.known.overview, self._number)
                self._sheets[language] = sheet
            return sheet

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
