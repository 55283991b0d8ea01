"""Runs a program that dies with the process that asked for it: ``python leash.py PARENT-PID PROGRAM ARGUMENT...``.

A finalizer is not enough: it does not run when the tests are killed, and the API server would stay for ever.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    """Becomes ``command``, which gets SIGKILL when the thread that started this process ends. Does not return."""
    libc = ctypes.CDLL(None, use_errno=True)
    # prctl(2): the signal is kept across execve(2).
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # A parent that died before the call sends nothing any more.
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606  # that is what it is for


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
