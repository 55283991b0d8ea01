"""The run of the server: the applications under uvicorn, probes in a separate thread, and a stop that loses no review.

uvicorn's own stop closes idle connections at once, although requests may be on the wire already. So a stop first
*drains*: for a while every answer carries ``Connection: close`` and readiness fails, so clients move away. Only then
the listeners close.
"""

import asyncio
import signal
import ssl
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Protocol

from webhook import __version__
from webhook.cluster.state import State
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import Config, ServerSettings
from webhook.programs.heartbeat import Heartbeat
from webhook.programs.http.messages import Application
from webhook.programs.http.server import BACKLOG, Cause, Limits, Server, ServerThread, bind
from webhook.programs.server.app import create_ops_app
from webhook.programs.server.counts import Counts
from webhook.programs.server.log import ReviewLog
from webhook.programs.server.vitals import Vitals

_REMEDY = "Choose others with --host, --port and --ops-port"


class Background(Protocol):
    """A part of the program that runs beside the server, on its event loop."""

    async def open(self) -> None:
        """Begin. Reviews are served only after the return, but probes from the start on."""

    async def close(self) -> None:
        """End. It is called after the server has answered its last review."""


def run(  # noqa: PLR0913 - what is served, what the answers follow from, and who hears of it
    config: Config,
    reviews: Application,
    state: State,
    context: ssl.SSLContext,
    *,
    log: ReviewLog,
    counts: Counts,
    vitals: Callable[[], Vitals] = Vitals,
    background: Sequence[Background] = (),
) -> None:
    """Serve until SIGTERM (drain, then stop) or SIGINT (stop at once).

    Args:
        config: The configuration, for addresses and limits.
        reviews: The application to serve.
        state: The state of the cluster, which says whether reviews can be answered.
        context: The TLS context.
        log: Takes a line when both ports listen, when the server becomes ready or unready, when it drains, and when it
            has stopped.
        counts: The counts of the server.
        vitals: Returns the values of the metrics beside the counts. Values that follow from the ports and ``state`` are
            added here.
        background: The parts of the program to open before reviews are served, in this order. They are closed in the
            reverse order when the server has stopped. A part that is still opening when the stop comes is cancelled.
    """
    runner = _Runner(config.server, reviews, state, context, log, counts, vitals)
    try:
        with asyncio.Runner(loop_factory=runner.tls.config.get_loop_factory()) as loop:
            loop.run(runner.serve(background))
    finally:
        runner.close()


class _Runner:
    """The two servers and the steps of their stop."""

    def __init__(  # noqa: PLR0913, PLR0917 - as of `run`
        self,
        settings: ServerSettings,
        reviews: Application,
        state: State,
        context: ssl.SSLContext,
        log: ReviewLog,
        counts: Counts,
        vitals: Callable[[], Vitals],
    ) -> None:
        self._settings = settings
        self._state = state
        self._log = log
        self._told: str | None = None
        """The readiness that was logged last."""
        self._vitals = vitals
        self._stop = asyncio.Event()
        self._listening = False
        """Whether reviews are accepted. It is set after the line ``started`` is logged, and readiness depends on it."""
        self._heart = Heartbeat()
        self._sockets = tuple(bind(settings.host, port, remedy=_REMEDY) for port in (settings.port, settings.ops_port))
        keep_alive = settings.keep_alive_seconds
        limits = Limits(connections=settings.max_connections, keep_alive_seconds=keep_alive)
        self.tls = Server(reviews, self._sockets[0], limits, context)
        ops = create_ops_app(self._stalled, self._unready, counts, self._vitals_now)
        self._ops = Server(ops, self._sockets[1], Limits(keep_alive_seconds=keep_alive))
        self._ops_thread = ServerThread(self._ops)

    async def serve(self, background: Sequence[Background]) -> None:
        """Start both servers, wait for a signal, and stop the server of the reviews."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        loop.add_signal_handler(signal.SIGINT, self._stop.set)
        self._heart.start(loop)
        self._sockets[1].listen(BACKLOG)
        self._ops_thread.start()
        servers: list[asyncio.Task[None]] = []
        stopping = asyncio.create_task(self._stop.wait())
        started = asyncio.create_task(self._started())
        try:
            async with AsyncExitStack() as stack:
                opening = asyncio.create_task(_open(stack, background))
                await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if opening.done():
                    await opening
                    servers.append(asyncio.create_task(self.tls.serve()))
                    await asyncio.wait({stopping, *servers}, return_when=asyncio.FIRST_COMPLETED)
                await _cancel(opening, started)
                await self._end(servers)
        finally:
            await _cancel(stopping, started)
            await self._end(servers)

    def close(self) -> None:
        """Stop the server of the probes, after that of the reviews has stopped."""
        self._ops_thread.stop()
        for bound in self._sockets:
            bound.close()
        self._log.say("info", "stopped")

    async def _end(self, servers: Sequence[asyncio.Task[None]]) -> None:
        self.tls.should_exit = True
        await asyncio.gather(*servers)

    async def _started(self) -> None:
        while not (self.tls.started and self._ops.started):
            await asyncio.sleep(0.005)
        settings = self._settings
        self._log.say(
            "info",
            "started",
            version=__version__,
            reviews=f"https://{settings.host}:{settings.port}",
            probes=f"http://{settings.host}:{settings.ops_port}",
        )
        self._listening = True

    def _stalled(self) -> str:
        """Return why this process should be replaced; empty when it is alive.

        The thread of the probes calls it, and also ``_unready`` and ``_vitals_now``.
        """
        silent = self._heart.silent_seconds
        return f"reviews have stood still for {silent:.0f} s" if silent > self._settings.stall_seconds else ""

    def _unready(self) -> str:
        reason = ""
        if self.tls.draining:
            reason = "stopping"
        elif not self._listening:
            reason = "starting"
        elif waiting_for := self._state.waiting_for:
            reason = f"waiting for {waiting_for}"
        if reason != self._told:
            self._told = reason
            self._log.say("warning" if reason else "info", "not ready" if reason else "ready", reason=reason)
        return reason

    def _vitals_now(self) -> Vitals:
        servers = {"reviews": self.tls, "ops": self._ops}
        known = ClusterFacts() if self._state.waiting_for else self._state.cluster()
        return replace(
            self._vitals(),
            ready=not self._unready(),
            draining=self.tls.draining,
            connections={port: server.open for port, server in servers.items()},
            closed={(port, cause): server.closed[cause] for port, server in servers.items() for cause in Cause},
            hami=str(known.hami or ""),
            kubernetes=str(known.kubernetes or ""),
        )

    def _drain(self) -> None:
        if not self._listening:  # no review was served yet, so there is nothing to drain
            self._stop.set()
        elif not self.tls.draining:
            self._log.say("info", "draining", seconds=self._settings.drain_seconds)
        self.tls.drain()
        self._told = "stopping"
        asyncio.get_running_loop().call_later(self._settings.drain_seconds, self._stop.set)


async def _open(stack: AsyncExitStack, background: Sequence[Background]) -> None:
    for task in background:
        await task.open()
        stack.push_async_callback(task.close)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
