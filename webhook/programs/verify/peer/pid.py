"""The start of a process with a chosen PID.

CUDA seems to take equal PID values for one process, even in different PID namespaces. The PIDs of a namespace are given
out in order, so enough forks reach any PID that was not given out yet.
"""

import os
import sys

_MOST = 5000
"""The most processes to start; they take about two seconds."""
MISSED = 3
"""The exit code if the PID was not reached."""


def become(pid: int) -> None:
    """Returns in a child process that has the PID. The calling process waits for it and ends with its exit code.

    If the PID is passed over, or too many PIDs come before it, the calling process ends with ``MISSED``.
    """
    for _ in range(_MOST):
        child = os.fork()
        if child == 0:
            if os.getpid() == pid:
                return
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if child >= pid:
            sys.exit(os.waitstatus_to_exitcode(status) if child == pid else MISSED)
    sys.exit(MISSED)
