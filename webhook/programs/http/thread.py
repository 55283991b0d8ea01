"""The port of probes and metrics, in a thread with an event loop of its own.

So a probe is answered even while the work of the program blocks its loop. The answer says when that loop stands still.
"""

import asyncio
import threading

from webhook.programs.http.listener import Server

JOIN_SECONDS = 15.0
"""Longest wait for the end of the thread. It is longer than uvicorn waits for requests in flight."""


class ServerThread:
    """A thread that runs a server beside the loop of the program.

    Args:
        server: The server. Its socket listens already, so that errors of the start occur before the thread begins.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._serve, name="ops", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the server, and wait for the end of the thread."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._server.serve())
