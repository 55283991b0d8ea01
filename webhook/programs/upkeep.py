"""The endless tasks of a program, such as keeping mirrors. After a bug a task is logged and started again."""

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from webhook.programs.log import Log

RETRY_SECONDS = (1.0, 5.0)


class Upkeep:
    """Tasks that run beside each other. The exception of a task is logged, and the task starts again.

    Args:
        work: Functions that make the coroutines; none of these returns by itself.
        log: Gets the tracebacks.
    """

    def __init__(self, work: Sequence[Callable[[], Coroutine[Any, Any, None]]], log: Log) -> None:
        self._work = work
        self._log = log
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Start all tasks."""
        self._tasks = [asyncio.create_task(self._guarded(each)) for each in self._work]

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends."""
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
    """Return a random number between the two, so that replicas do not send their requests together."""
    return random.uniform(*seconds)  # noqa: S311 - no secret
