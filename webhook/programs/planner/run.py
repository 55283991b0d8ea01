"""The run of the planner: its parts are put together, and work until SIGTERM or SIGINT."""

import asyncio
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import uvloop
from prometheus_client.core import Metric

from webhook import __version__
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.cluster.api.pod_events import Fate, PodEvents
from webhook.cluster.api.reflector import filled_from
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.verbs import Api
from webhook.decisions.configuration import HAMI_RESOURCES
from webhook.programs.endpoints import Endpoints, serve
from webhook.programs.heartbeat import Heartbeat
from webhook.programs.log import Log, take_over_logging
from webhook.programs.planner import leadership, workload_reader, writer
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.counts import Counts
from webhook.programs.planner.decisions import MakeDecisions
from webhook.programs.planner.held_gpus import HeldGpuWatch
from webhook.programs.planner.leadership import Leadership
from webhook.programs.planner.metrics import Vitals, families
from webhook.programs.planner.mirrors import Mirrors
from webhook.programs.planner.rounds import Rounds, Stirred
from webhook.programs.planner.workload_reader import WorkloadReader
from webhook.programs.planner.writer import Writer
from webhook.programs.upkeep import Upkeep
from webhook.words import names

SECONDS = 10.0
"""Default for the longest time of a request."""
STALL_SECONDS = 60.0
"""Time for which the loop may stand still. After it the loop will not run again, but a new process may succeed."""
FINISH_SECONDS = 4.0
"""Time for writes that are on their way at the stop."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerSettings:
    """The settings from the command line and the configuration."""

    namespace: str
    """The namespace of the Lease."""
    topology_namespace: str
    """The namespace in which the agents publish."""
    max_age: float
    """``binding.topologyMaxAgeSeconds``."""
    pod_name: str
    """The pod of this replica; empty outside a Deployment."""
    kubeconfig: Where
    """The kubeconfig; ``None`` if this program runs as a pod."""
    host: str
    port: int
    counts: tuple[str, ...] = (HAMI_RESOURCES.count,)
    """Names of the resources by which pods ask for numbers of HAMi's GPUs."""
    expects_nvlink: bool = True
    """Whether the use of NVLink is expected where neither pod nor namespace says it."""


class Companion(Protocol):
    """A part of the program that answers from the planner's mirrors, on its loop, whether or not this replica leads."""

    async def open(self) -> None:
        """Start."""

    async def close(self) -> None:
        """Stop."""

    def families(self) -> Iterator[Metric]:
        """Return the metrics of the companion. May be called in any thread."""


MakeCompanion = Callable[[Mirrors, Log], Companion]


def run(settings: PlannerSettings, make: MakeDecisions, companion: MakeCompanion | None = None) -> None:
    """Plan until SIGTERM or SIGINT. Then writes that are on their way get a few seconds, and the Lease is given up.

    Args:
        settings: The settings of the planner.
        make: Makes the decisions of a term.
        companion: Makes the companion that runs beside the planner; ``None`` for none.

    Raises:
        ConfigError: there is no way to an API server.
        ManifestError: the kubeconfig cannot be read.
        GpuTopologyError: the port is taken.
    """
    session = connect(settings.kubeconfig, user_agent=names.PLANNER_USER_AGENT, seconds=SECONDS)
    log = Log(sys.stdout.fileno())
    take_over_logging(log)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, make, companion, session, log))


async def _serve(
    settings: PlannerSettings, make: MakeDecisions, companion: MakeCompanion | None, session: Session, log: Log
) -> None:
    stop, heart = asyncio.Event(), Heartbeat()
    loop = asyncio.get_running_loop()
    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, partial(_stop, stop, log, each))
    heart.start(loop)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(session.close)
        program = Program(settings, make, session, log)
        beside = companion(program.mirrors, log) if companion else None
        endpoints = Endpoints(
            partial(_families, program, beside),
            illness=partial(_illness, heart),
            failure=lambda: program.waiting_for,
            bug=program.bug,
        )
        serve(endpoints, settings.host, settings.port)
        log.say("info", "started", version=__version__, probes=f"http://{settings.host}:{settings.port}")
        stack.push_async_callback(_close, program, beside)
        program.open()
        if beside:
            await beside.open()
        await stop.wait()
    log.say("info", "stopped")


async def _close(program: "Program", beside: Companion | None) -> None:
    """Close both at the same time, because each takes some seconds."""
    async with asyncio.TaskGroup() as group:
        group.create_task(program.close())
        if beside:
            group.create_task(beside.close())


def _families(program: "Program", beside: Companion | None) -> Iterator[Metric]:
    yield from program.families()
    if beside:
        yield from beside.families()


class Program:
    """The parts of one planner.

    Args:
        settings: The settings of the planner.
        make: Makes the decisions of a term.
        session: The connections to the API server; the caller closes them.
        log: Takes what happens.
        clock: The clocks.
    """

    def __init__(
        self, settings: PlannerSettings, make: MakeDecisions, session: Session, log: Log, clock: Clock | None = None
    ) -> None:
        self._log = log
        clock = clock or Clock()
        self.counts = counts = Counts()
        stirred = Stirred()
        self.mirrors = Mirrors(
            settings.topology_namespace, max_age=settings.max_age, wake=stirred, tell=self._tell, clock=clock.monotonic
        )
        reader = WorkloadReader(
            Api(session, seconds=workload_reader.REQUEST_SECONDS), read=stirred, errors=counts.api_errors, clock=clock
        )
        self._rounds = rounds = Rounds(
            self.mirrors, make, stirred, workloads=reader, counts=counts, log=log, clock=clock
        )
        self.leadership = Leadership(
            LeaderLease(
                Api(session, seconds=leadership.REQUEST_SECONDS),
                settings.namespace,
                names.PLANNER_LEASE,
                f"{settings.pod_name or socket.gethostname()}_{uuid.uuid4().hex[:8]}",
                seconds=leadership.LEASE_SECONDS,
                clock=clock.monotonic,
                now=clock.now,
            ),
            inability=lambda: rounds.inability,
            errors=counts.api_errors,
            log=log,
            clock=clock,
        )
        self._events = PodEvents(Api(session), reporter=names.PLANNER_CONTROLLER, action="Place")
        self._writer = Writer(
            Api(session, field_manager=names.PLANNER_FIELD_MANAGER, seconds=writer.REQUEST_SECONDS),
            self.mirrors,
            self._events,
            may_write=lambda: self.leadership.leads,
            settled=stirred,
            counts=counts,
            log=log,
            clock=clock,
        )
        self.watch = HeldGpuWatch(
            self.mirrors,
            counts=settings.counts,
            expects=settings.expects_nvlink,
            leads=lambda: self.leadership.leads,
            clock=clock,
        )
        filling = self.mirrors.keeper.work(filled_from(Api(session)), counts.api_errors)
        self._mirroring = Upkeep(filling, log)
        self._election = Upkeep([self.leadership.run], log)
        self._deciding = Upkeep([partial(rounds.run, self.leadership, self._writer), self.watch.run, reader.run], log)

    @property
    def waiting_for(self) -> str:
        """The mirrors that were never filled yet; empty when all were. May be read in any thread."""
        found = self.mirrors.waiting_for
        return f"waiting for {found}" if found else ""

    def open(self) -> None:
        """Start all parts."""
        for each in (self._mirroring, self._election, self._deciding):
            each.open()

    async def close(self) -> None:
        """Stop deciding, finish the writes that are on their way, and let another replica lead."""
        await self._deciding.close()
        await self._writer.close(FINISH_SECONDS)
        await self._election.close()
        await self.leadership.give_back()
        await self._mirroring.close()
        await self._events.close()

    def families(self) -> Iterator[Metric]:
        """Return the metrics. May be called in any thread."""
        return families(self.counts, self._vitals)

    def bug(self, traceback: str) -> None:
        """Log an unexpected exception."""
        self._log.say("error", "bug", traceback=traceback)

    def _vitals(self) -> Vitals:
        counts = self._events.counts
        return Vitals(
            leads=self.leadership.leads,
            report=self._rounds.report,
            caches=self.mirrors.report(),
            held=self.watch.held,
            events_lost=sum(counts[fate] for fate in (Fate.FAILED, Fate.DROPPED, Fate.LIMITED)),
        )

    def _tell(self, text: str) -> None:
        self._log.say("info", "state", text=text)


def _illness(heart: Heartbeat) -> str:
    silent = heart.silent_seconds
    return f"the planner has stood still for {silent:.0f} s" if silent > STALL_SECONDS else ""


def _stop(stop: asyncio.Event, log: Log, number: signal.Signals) -> None:
    if not stop.is_set():
        log.say("info", "stopping", signal=number.name)
    stop.set()
