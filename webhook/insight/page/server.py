"""The server of the page, on the loopback interface, which runs until a signal comes."""

import asyncio
import secrets
import socket
from collections.abc import Coroutine, Sequence
from math import inf
from typing import Any, NamedTuple

import uvicorn
from anyio import BrokenResourceError

from webhook.insight.page.application import create_app
from webhook.insight.page.feed import Feed
from webhook.insight.page.guard import Application, Guard, Message, Receive, Scope, Send
from webhook.programs.http.server import Limits, Server, bind

LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
LIMITS = Limits(header_bytes=64 * 1024, request_seconds=inf)
"""Limits of connections: every user of the machine can open some. A stream of events has no end."""


class Place(NamedTuple):
    """The address of the page, and the token that opens it."""

    bound: socket.socket
    token: str

    @property
    def port(self) -> int:
        """The port of the socket."""
        return int(self.bound.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL for the browser. Browsers do not send the part after the #, so no log and no other page gets it."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.token}"

    @property
    def hosts(self) -> Sequence[str]:
        """The values of the Host header that a browser of this machine sends."""
        return [f"{name}:{self.port}" for name in (LOOPBACK, "localhost")]


def find_place(port: int) -> Place:
    """Returns a bound port of the loopback interface with a new token.

    Args:
        port: The port; 0: any port that is free.

    Raises:
        GpuTopologyError: the port is taken.
    """
    bound = bind(LOOPBACK, port, remedy="Choose another one with --port")
    return Place(bound, secrets.token_urlsafe(_TOKEN_BYTES))


def silent_about_those_who_left(application: Application) -> Application:
    """Returns the application, whose answers end silently once their connection is closed.

    FastAPI ends a stream of events with ``BrokenResourceError`` if its client has read nothing and is gone, because a
    message still waits for it. That is no fault, and its traceback would fill the log.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_gone = False

        async def noticing() -> Message:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        try:
            await application(scope, noticing, send)
        except* BrokenResourceError:
            # A connection that the server gave up cancels its task.
            if not is_gone and not ((task := asyncio.current_task()) and task.cancelling()):
                raise

    return answer


class _Server(Server):
    """A server that ends the streams first: uvicorn waits for running answers, and streams would never end."""

    capture_signals = uvicorn.Server.capture_signals

    def __init__(self, place: Place, feed: Feed) -> None:
        application = Guard(silent_about_those_who_left(create_app(feed)), place.hosts, place.token)
        super().__init__(application, place.bound, LIMITS)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, and then everything else."""
        self._feed.stop()
        await super().shutdown(sockets)


async def serve(place: Place, feed: Feed, work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Serves the page until SIGINT or SIGTERM.

    Args:
        place: The address of the page.
        feed: The feed to which pages listen.
        work: Tasks that run beside the server. An exception of one of them ends everything.
    """
    server = _Server(place, feed)
    tasks = [asyncio.create_task(each) for each in work]
    serving = asyncio.create_task(server.serve())
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
