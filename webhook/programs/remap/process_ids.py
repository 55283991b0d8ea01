"""Process IDs that no pod with other GPUs of the node has.

CUDA takes equal process IDs for one process, also in different PID namespaces, and pods of one workload give out the
same ones. A PID namespace gives its numbers out in order, to threads too, and a thread costs the least. So this program
goes through numbers until those of the pod begin where its first GPU says: no other pod has that GPU. It needs no
privileges, and one namespace for all containers of the pod (``shareProcessNamespace``).
"""

import os
from _thread import allocate_lock, start_new_thread
from threading import get_native_id

APART = 2000
"""The numbers from one GPU to the next: more than a server takes for its processes and threads until its workers run,
and few enough for sixteen GPUs below the least limit of a node (kernel.pid_max, 32768)."""


def begin_apart(first_gpu: int) -> str:
    """Goes through numbers until those of all further processes of the namespace are greater than ``beginning_of``.

    A second run, in a container that was started anew, finds them gone through. Returns why it is not so; else nothing.
    """
    if os.getpid() == 1:
        return "this container has a PID namespace of its own, so that its pod has the process IDs of its peers"
    beginning = beginning_of(first_gpu)
    for _ in range(beginning):
        if _next_number() >= beginning:
            return ""
    return f"the node gives out no process ID {beginning} (kernel.pid_max), so that peers may have equal ones"


def beginning_of(first_gpu: int) -> int:
    """Returns the number at which the process IDs of a pod begin, by the index of its first GPU on the node."""
    return APART * (1 + first_gpu)


def _next_number() -> int:
    """Takes the next number of the PID namespace for a moment."""
    ended, taken = allocate_lock(), 0

    def take() -> None:
        nonlocal taken
        taken = get_native_id()
        ended.release()

    ended.acquire()
    start_new_thread(take, ())
    ended.acquire()
    return taken
