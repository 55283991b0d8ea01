"""`python -m bench.restart`: the reviews that a rolling restart loses while every connection is busy.

64 keep-alive connections send reviews of a pod with eight GPUs, each the next when the last is answered. Like
kube-apiserver, they keep a connection until an answer asks to close it, and the next connection reaches a server that
is ready. Three times within 30,000 reviews a new server takes over the new connections and the old one gets SIGTERM.

A review is lost if its connection ends before the whole answer, or if the answer is not a 200. The time of a stop is
from SIGTERM to the end of the process, `server.drainSeconds` included. Exit codes: 0 nothing was lost, 1 something was
lost or a server failed, 2 usage. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from rich.console import Console

from bench import bodies, load, proc, servers

CONNECTIONS = 64
REVIEWS = 30_000
RESTARTS = 3
GRACE_S = 30.0
"""The time after which Kubernetes kills a pod: the default of terminationGracePeriodSeconds."""
END_OF_HEAD = b"\r\n\r\n"
POLL_S = 0.01


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The extent of a run."""

    connections: int = CONNECTIONS
    reviews: int = REVIEWS
    restarts: int = RESTARTS


@dataclass(kw_only=True)
class Traffic:
    """The counts of the clients so far, and the server for new connections."""

    program: servers.Program
    answered: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    """The lost reviews, by the error that came instead of an answer."""
    opened: int = 0
    """The number of opened connections."""
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a run."""

    answered: int
    lost: Counter[str]
    opened: int
    stops_s: tuple[float, ...]
    """The seconds from SIGTERM to the end of each process."""
    exits: tuple[int, ...]
    """The exit codes of the processes; a negative one is the signal that killed the process."""

    @property
    def passed(self) -> bool:
        """Whether every review was answered and every server ended by itself, in time."""
        return not self.lost and not any(self.exits) and all(stop < GRACE_S for stop in self.stops_s)


def run(plan: Plan, directory: Path) -> Result:
    """Restarts servers under load; `directory` is for certificates and state."""
    server_core, client_core = proc.core_pair()
    os.sched_setaffinity(0, {client_core})
    request = bodies.request("gpu")
    with ExitStack() as stack:
        programs = (servers.webhook(directory / str(number)) for number in range(plan.restarts + 1))
        started = (stack.enter_context(servers.running(program, server_core, request)) for program in programs)
        return uvloop.run(_restart(plan, request, started))


async def _restart(plan: Plan, request: bytes, started: Iterator[servers.Server]) -> Result:
    server = next(started)
    traffic = Traffic(program=server.program)
    clients = [asyncio.create_task(_client(traffic, request)) for _ in range(plan.connections)]
    stops, exits = [], []
    for number in range(1, plan.restarts + 1):
        await _answered(traffic, plan.reviews * number // (plan.restarts + 1))
        successor = await asyncio.to_thread(next, started)
        traffic.program = successor.program
        begin = time.perf_counter()
        os.kill(server.pid, signal.SIGTERM)
        exits.append(await asyncio.to_thread(_exit_code, server.pid))
        stops.append(time.perf_counter() - begin)
        server = successor
    await _answered(traffic, plan.reviews)
    traffic.over.set()
    await asyncio.gather(*clients)
    return Result(
        answered=traffic.answered, lost=traffic.lost, opened=traffic.opened, stops_s=tuple(stops), exits=tuple(exits)
    )


async def _answered(traffic: Traffic, reviews: int) -> None:
    while traffic.answered < reviews:
        await asyncio.sleep(POLL_S)


def _exit_code(pid: int) -> int:
    """Waits for the end of a child process, and leaves its exit code to be read by the code that started it."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if ended is None:
        raise servers.StartError(f"process {pid} has not ended")
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


async def _client(traffic: Traffic, request: bytes) -> None:
    """Keeps one connection busy, and opens the next one to the current server."""
    while not traffic.over.is_set():
        program = traffic.program
        tls = ssl.create_default_context(cafile=program.ca_file)
        reader, writer = await asyncio.open_connection("127.0.0.1", program.port, ssl=tls)
        traffic.opened += 1
        try:
            kept = True
            while kept and not traffic.over.is_set():
                kept = await _review(reader, writer, request)
                traffic.answered += 1
        except (load.AnswerError, OSError, asyncio.IncompleteReadError) as error:
            traffic.lost[f"{type(error).__name__}: {error}"[:200]] += 1
        finally:
            writer.close()


async def _review(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bool:
    """Sends one review and reads its answer; returns whether the connection may be used again."""
    writer.write(request)
    head = await reader.readuntil(END_OF_HEAD)
    if not head.startswith(load.OK):
        raise load.AnswerError(f"expected a 200, found {head[:100]!r}")
    await reader.readexactly(servers.content_length(head))
    return b"connection: close" not in head.lower()


def main() -> int:
    """Restarts, prints, and returns the exit code."""
    argparse.ArgumentParser(
        prog="python -m bench.restart", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            result = run(Plan(), Path(directory))
    except (servers.StartError, OSError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    console = Console()
    done = f"{result.answered:,} reviews over {CONNECTIONS} busy connections ({result.opened} opened)"
    stops = f"Stops took at most {max(result.stops_s):.1f} s of {GRACE_S:g}"
    console.print(f"{done}, {RESTARTS} restarts, lost: {result.lost.total()}. {stops}.", soft_wrap=True)
    for what, number in result.lost.most_common():
        console.print(f"  {number} x {what}")
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
