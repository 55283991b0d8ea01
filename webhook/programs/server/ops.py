"""The port of probes and metrics, in a thread with an event loop of its own.

Whatever a review does to the loop of the reviews, a probe is answered; and it says so when that loop moves no more.
"""

import asyncio
import threading

from webhook.programs.http.listener import Server

JOIN_SECONDS = 15.0
"""Longer than uvicorn waits for requests in flight."""


class OpsThread:
    """Runs a server beside the loop of the reviews.

    Args:
        server: Its socket listens already, so that nothing can go wrong in the thread that whoever starts the program
            should hear of.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._serve, name="ops", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the end."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._server.serve())
