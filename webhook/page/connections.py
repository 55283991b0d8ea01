"""Connections of the page, which every user of the machine can open: what they may hold is bounded.

uvicorn's reader in C takes headers without end, and waits for the rest of a request for as long as it may take. Its
reader in Python refuses more than 64 KiB, and of connections without a request the oldest ones are ended here.
"""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 64
"""Connections that are served; uvicorn refuses more."""
MOST_IDLE = 24
"""Connections on which nothing is being answered."""
_LOGGER = logging.getLogger(__name__)
_LOGGER.setLevel(logging.ERROR)
"""What is no request is no news for the terminal: every user of the machine can send it. The level of uvicorn's loggers
is that of all servers of a process, so this is not one of them."""


class PageConnection(H11Protocol):
    """One connection. The oldest idle one ends when there are too many of them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = _LOGGER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Take a new connection."""
        super().connection_made(transport)
        self.since = self.loop.time()
        idle = [each for each in self.connections if isinstance(each, PageConnection) and each.is_idle]
        if len(idle) > MOST_IDLE:
            min(idle, key=lambda each: each.since).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered on it."""
        is_complete: bool = getattr(self.cycle, "response_complete", True)  # None before the first request
        return is_complete and not self.transport.is_closing()
