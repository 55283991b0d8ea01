"""What ends the program other than itself: SIGTERM, and a run that takes too long.

A call into the driver may never return, so a thread of its own waits. As process 1 of a container the program is sent
no signal that it does not wait for (pid_namespaces(7)), so an alarm would be no help.
"""

import faulthandler
import os
import signal
from collections.abc import Callable
from threading import Thread

_STDERR = 2
_GRACE = 5.0
"""Seconds after which a run ends that holds Python's lock, so that not even the thread could end it."""


def hold_back_sigterm() -> None:
    """Keep SIGTERM until a :class:`Watch` waits for it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of all threads: they inherit it


class Watch:
    """Watches over one run.

    Args:
        told: The exit code at SIGTERM.
        late: The exit code when the time is over.
        seconds: How long the run may take.
        leave: Called with a sentence before it ends late; it must not wait for anything.
    """

    def __init__(self, *, told: int, late: int, seconds: float, leave: Callable[[str], None]) -> None:
        self._told = told
        self._late = late
        self._seconds = seconds
        self._leave = leave
        self._doing = "starting"
        self._is_over = False
        self._thread = Thread(target=self._wait, daemon=True)
        self._thread.start()
        faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=_STDERR)

    def begins(self, what: str) -> None:
        """The run has come to ``what``."""
        self._doing = what

    def wait_for_sigterm(self) -> None:
        """The run is over in time; wait for SIGTERM, however long it takes."""
        self._is_over = True
        faulthandler.cancel_dump_traceback_later()
        self._thread.join()

    def _wait(self) -> None:
        """End the process, whatever the other thread does then."""
        if signal.sigtimedwait({signal.SIGTERM}, self._seconds) is None:
            if not self._is_over:
                self._leave(f"not done after {self._seconds:g} seconds: it was still {self._doing}")
                os._exit(self._late)
            signal.sigwait({signal.SIGTERM})
        os._exit(self._told)
