"""The CPU time and memory of a process, and the use of cores, read from `/proc` (Linux only)."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def cpu_ns(pid: int) -> int:
    """Returns the CPU time, user and system, of all threads of a process so far, in nanoseconds.

    It is the scheduler's own count if the kernel shows it, because the one in `stat` moves in steps of 10 ms.
    """
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split(maxsplit=1)[0]) for task in tasks)
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_NS


def resident_mib(pid: int) -> float:
    """Returns the resident memory (VmRSS) of a process in MiB."""
    return _status_mib(pid, "VmRSS:")


def peak_mib(pid: int) -> float:
    """Returns the peak of a process's resident memory (VmHWM) in MiB, since its start or :func:`forget_peak`."""
    return _status_mib(pid, "VmHWM:")


def forget_peak(pid: int) -> None:
    """Resets the peak of a process's memory (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended: it has no resident memory")


def busy_ns(cores: Collection[int]) -> int:
    """Returns the nanoseconds that these cores spent on processes so far, and that a hypervisor took from them.

    Interrupt time is left out, because here it is the loopback traffic of the benchmark itself.
    """
    names = {f"cpu{core}" for core in cores}
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            user, nice, system, _idle, _iowait, _irq, _softirq, steal = (int(field) for field in fields[:8])
            ticks += user + nice + system + steal
    return ticks * TICK_NS


def core_pair() -> tuple[int, int]:
    """Returns the core for the server and the core for the client, the same one if there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[min(1, len(cores) - 1)]
