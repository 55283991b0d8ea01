"""Work that goes on for as long as a program runs, such as keeping mirrors: a bug in it does not end it in silence."""

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from webhook.programs.log import Log

RETRY_SECONDS = (1.0, 5.0)


class Upkeep:
    """Runs each work beside the others; after a bug it is logged, and the work begins anew.

    Args:
        work: Each never returns.
        log: Takes tracebacks.
    """

    def __init__(self, work: Sequence[Callable[[], Coroutine[Any, Any, None]]], log: Log) -> None:
        self._work = work
        self._log = log
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(self._guarded(each)) for each in self._work]

    async def close(self) -> None:
        """End; what was done stays."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                self._log.say("error", "bug", traceback=traceback.format_exc())
            await asyncio.sleep(between(RETRY_SECONDS))


def between(seconds: tuple[float, float]) -> float:
    """Another one each time, so that replicas do not ask together."""
    return random.uniform(*seconds)  # noqa: S311 - no secret
