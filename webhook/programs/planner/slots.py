"""The slots of requests that are made at the same time. Namespaces take turns, however many requests each has."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A number of slots, for which namespaces wait in turn. The requests of one namespace keep their order.

    Args:
        count: The number of slots.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The requests that wait, by namespace; the namespace whose turn is next comes first."""

    @asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Hold a slot for a request of the namespace, as soon as it is its turn."""
        await self._take(namespace)
        try:
            yield
        finally:
            self._give()

    async def _take(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was given in the same moment
                self._give()
            raise

    def _give(self) -> None:
        """Give the slot to the request whose turn it is."""
        while self._waiting:
            namespace, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[namespace] = queue
            if not turn.done():  # one that was cancelled waits no more
                turn.set_result(None)
                return
        self._free += 1
