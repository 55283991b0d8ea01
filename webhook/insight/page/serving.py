"""Serves the page on the loopback interface until a signal comes."""

import asyncio
import secrets
import socket
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import uvicorn

from webhook.page import connections
from webhook.page.application import create_app
from webhook.page.feed import Feed
from webhook.page.guard import Guard
from webhook.server.bound import bind

LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
_END_SECONDS = 3
"""How long answers may go on after the end was said to them."""


class Place(NamedTuple):
    """Where the page is, and what opens it."""

    bound: socket.socket
    token: str

    @property
    def port(self) -> int:
        """Of the socket."""
        return int(self.bound.getsockname()[1])

    @property
    def url(self) -> str:
        """For the browser. What follows the # is not sent: it is in no log, and no other page hears of it."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.token}"

    @property
    def hosts(self) -> Sequence[str]:
        """Values of the Host header under which a browser of this machine asks."""
        return [f"{name}:{self.port}" for name in (LOOPBACK, "localhost")]


def find_place(port: int) -> Place:
    """A port of the loopback interface, and a new token.

    Args:
        port: 0: any that is free.

    Raises:
        GpuTopologyError: it is taken.
    """
    bound = bind(LOOPBACK, port, remedy="Choose another one with --port")
    return Place(bound, secrets.token_urlsafe(_TOKEN_BYTES))


class _Server(uvicorn.Server):
    """Says the end to the streams first: uvicorn waits for running answers, and these would never end."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._feed.stop()
        await super().shutdown(sockets)


async def serve(place: Place, feed: Feed, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        place: Where.
        feed: What pages are told.
        work: Goes on beside it; what one of them raises ends everything.
    """
    app = Guard(create_app(feed), place.hosts, place.token)
    config = uvicorn.Config(
        app,
        http=connections.PageConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        limit_concurrency=connections.MOST,
        timeout_graceful_shutdown=_END_SECONDS,
        ws="none",
    )
    server = _Server(config, feed)
    tasks = [asyncio.create_task(each) for each in work]
    serving = asyncio.create_task(server.serve([place.bound]))
    try:
        await asyncio.wait([serving, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        server.should_exit = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await serving
