"""Puts the planner together, and runs it until SIGTERM or SIGINT."""

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
from webhook.cluster.api.pod_events import Fate, PodEvents
from webhook.cluster.api.reflector import filled_from
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.verbs import Api
from webhook.decisions.configuration import HAMI_RESOURCES
from webhook.programs.endpoints import Endpoints, serve
from webhook.programs.heartbeat import Heartbeat
from webhook.programs.log import Log, take_over_logging
from webhook.programs.planner import leadership, writer
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.counts import Counts
from webhook.programs.planner.decisions import MakeDecisions
from webhook.programs.planner.leadership import Leadership
from webhook.programs.planner.lease import PlannerLease
from webhook.programs.planner.metrics import Vitals, families
from webhook.programs.planner.mirrors import Mirrors
from webhook.programs.planner.rounds import Rounds, Stirred
from webhook.programs.planner.traffic import TrafficWatch
from webhook.programs.planner.writer import Writer
from webhook.programs.upkeep import Upkeep
from webhook.words import names

SECONDS = 10.0
"""For one request, where nothing else is said."""
STALL_SECONDS = 60.0
"""A loop that stands still for so long will not move again: a new process may get through."""
FINISH_SECONDS = 4.0
"""For writes that are on their way at the end."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerSettings:
    """What the command line and the configuration say."""

    namespace: str
    """Of the Lease."""
    topology_namespace: str
    """Where the agents publish."""
    max_age: float
    """``binding.topologyMaxAgeSeconds``."""
    pod_name: str
    """Of this replica, where it is one of a Deployment."""
    kubeconfig: Where
    """None: this program runs as a pod."""
    host: str
    port: int
    counts: tuple[str, ...] = (HAMI_RESOURCES.count,)
    """Names of the resources by which pods ask for numbers of HAMi's GPUs."""
    expects_nvlink: bool = True
    """Whether hints are given about NVLinks over which nothing goes, where neither pod nor namespace says it."""


class Companion(Protocol):
    """Answers from the mirrors of a planner, on its loop, whether or not that one leads."""

    async def open(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End."""

    def families(self) -> Iterator[Metric]:
        """Its metrics. In any thread."""


MakeCompanion = Callable[[Mirrors, Log], Companion]


def run(settings: PlannerSettings, make: MakeDecisions, companion: MakeCompanion | None = None) -> None:
    """Plan until SIGTERM or SIGINT: then writes that are on their way get a few seconds, and the Lease is given back.

    Args:
        settings: Where to.
        make: Makes what decides.
        companion: Makes what runs beside it; None: nothing does.

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
    """Both at the same time, since each takes some seconds."""
    async with asyncio.TaskGroup() as group:
        group.create_task(program.close())
        if beside:
            group.create_task(beside.close())


def _families(program: "Program", beside: Companion | None) -> Iterator[Metric]:
    yield from program.families()
    if beside:
        yield from beside.families()


class Program:
    """All parts of one planner.

    Args:
        settings: Where to.
        make: Makes what decides.
        session: To the API server; whoever made it closes it.
        log: Takes what happens.
        clock: The time.
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
        self._rounds = rounds = Rounds(self.mirrors, make, stirred, counts=counts, log=log, clock=clock)
        self.leadership = Leadership(
            PlannerLease(Api(session, seconds=leadership.REQUEST_SECONDS), settings.namespace),
            f"{settings.pod_name or socket.gethostname()}_{uuid.uuid4().hex[:8]}",
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
        self.watch = TrafficWatch(
            self.mirrors,
            self._events,
            counts=settings.counts,
            expects=settings.expects_nvlink,
            leads=lambda: self.leadership.leads,
            log=log,
            clock=clock,
        )
        filling = self.mirrors.keeper.work(filled_from(Api(session)), counts.api_errors)
        self._mirroring = Upkeep(filling, log)
        self._election = Upkeep([self.leadership.run], log)
        self._deciding = Upkeep([partial(rounds.run, self.leadership, self._writer), self.watch.run], log)

    @property
    def waiting_for(self) -> str:
        """What was never known yet; empty when the mirrors are filled. In any thread."""
        found = self.mirrors.waiting_for
        return f"waiting for {found}" if found else ""

    def open(self) -> None:
        """Begin."""
        for each in (self._mirroring, self._election, self._deciding):
            each.open()

    async def close(self) -> None:
        """Decide no more, end what is on its way, and let another replica lead."""
        await self._deciding.close()
        await self._writer.close(FINISH_SECONDS)
        await self._election.close()
        await self.leadership.give_back()
        await self._mirroring.close()
        await self._events.close()

    def families(self) -> Iterator[Metric]:
        """The metrics. In any thread."""
        return families(self.counts, self._vitals)

    def bug(self, traceback: str) -> None:
        """Log it."""
        self._log.say("error", "bug", traceback=traceback)

    def _vitals(self) -> Vitals:
        counts = self._events.counts
        return Vitals(
            leads=self.leadership.leads,
            report=self._rounds.report,
            caches=self.mirrors.report(),
            attribution=self.watch.attribution,
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
