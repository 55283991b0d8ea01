"""The thread that ends the program at SIGTERM, and when a run takes too long.

A call into the driver may never return, so a thread of its own waits. An alarm cannot replace it: as process 1 of a
container the program gets only signals that it waits for or handles (pid_namespaces(7)).
"""

import faulthandler
import os
import signal
from collections.abc import Callable
from threading import Thread

_STDERR = 2
_GRACE = 5.0
"""The additional seconds after which a run ends that holds Python's lock, so that the thread cannot end it."""


def hold_back_sigterm() -> None:
    """Blocks SIGTERM until a :class:`Watch` waits for it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # threads started later inherit the mask


class Watch:
    """The watch over one run.

    Args:
        told: The exit code at SIGTERM.
        late: The exit code when the time is over.
        seconds: The longest time of the run.
        leave: Called with a sentence before a late run ends; must not wait for anything.
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
        """Records that the run begins the step ``what``."""
        self._doing = what

    def wait_for_sigterm(self) -> None:
        """Waits for SIGTERM without a time limit, after a run that ended in time."""
        self._is_over = True
        faulthandler.cancel_dump_traceback_later()
        self._thread.join()

    def _wait(self) -> None:
        """Ends the process, also while the main thread is in a call that never returns."""
        if signal.sigtimedwait({signal.SIGTERM}, self._seconds) is None:
            if not self._is_over:
                self._leave(f"not done after {self._seconds:g} seconds: it was still {self._doing}")
                os._exit(self._late)
            signal.sigwait({signal.SIGTERM})
        os._exit(self._told)
