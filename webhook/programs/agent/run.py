"""The start of the agent, for one round or until a signal ends it."""

import asyncio
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

from webhook import __version__
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.machine import discover
from webhook.programs.agent.endpoints import agent_endpoints
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.measuring import Measuring
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock, WorkOnGpus
from webhook.programs.agent.traffic import Sampler
from webhook.programs.endpoints import serve
from webhook.programs.log import take_over_logging
from webhook.programs.verify.run import Wanted, measured
from webhook.words import names
from webhook.words.errors import GpuTopologyError

REQUEST_SECONDS = 10.0
"""The time limit of one request to the API server."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """The settings of the command line."""

    node: str
    options: PublishOptions
    interval: float
    """Seconds between two discoveries."""
    traffic_interval: float
    """Seconds between two samples of the traffic counters; 0: no samples."""
    verify_at_start: bool
    """Whether the bandwidth between the free GPUs is measured, once."""
    root: Path
    """The folder that has ``/sys`` and ``/proc``."""
    kubeconfig: Where
    """The kubeconfig; None if this program runs as a pod."""
    host: str
    port: int


def run(settings: AgentSettings) -> None:
    """Runs the agent until SIGTERM or SIGINT.

    A signal ends the program at once, also during a round, because each object is written whole.

    Raises:
        ConfigError: no API server is configured.
        GpuTopologyError: the port is taken.
    """
    connector = partial(connect_agent, settings.kubeconfig)
    connector()  # a wrong setting is reported now instead of at each retry
    log = _log(settings)
    take_over_logging(log)
    sampler = _sampler(settings, log)
    agent = _agent(settings, connector, log, sampler)
    # Only this thread takes the signals, by sigwait; the program ends without waiting for a round. A process with the
    # id 1 gets signals without a handler only if they are blocked (signal(7), pid_namespaces(7)).
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    rounds = threading.Thread(target=lambda: asyncio.run(_rounds(agent)), name="rounds", daemon=True)
    endpoints = agent_endpoints(settings.node, lambda: agent.status, time.monotonic, rounds.is_alive, log, sampler)
    serve(endpoints, settings.host, settings.port)
    log.started(version=__version__, interval=settings.interval)
    rounds.start()
    if sampler:
        sampler.start()
    log.stopping(signal.Signals(signal.sigwait(STOP_SIGNALS)).name)


def run_once(settings: AgentSettings) -> None:
    """Makes one round.

    Raises:
        GpuTopologyError: the topology could not be published, or it has a problem and no GPU.
    """
    agent = _agent(settings, partial(connect_agent, settings.kubeconfig), _log(settings), None, once=True)
    asyncio.run(_round(agent))
    status = agent.status
    if status.failure:
        raise GpuTopologyError(status.failure)
    if status.look and status.look.topology.problem and not status.look.topology.gpus:
        raise GpuTopologyError(
            f"published, but nothing is known of node {settings.node}: {status.look.topology.problem}"
        )


async def _round(agent: Agent) -> None:
    await agent.wake()
    await agent.close()


async def _rounds(agent: Agent) -> NoReturn:
    while True:
        await asyncio.sleep(await agent.wake())


def connect_agent(where: Where) -> Api:
    """Returns the agent's client of the API server. It sends nothing yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    session = connect(where, user_agent=names.AGENT_USER_AGENT, seconds=REQUEST_SECONDS)
    return Api(session, field_manager=names.AGENT_FIELD_MANAGER)


def _log(settings: AgentSettings) -> AgentLog:
    return AgentLog(sys.stdout.fileno(), node=settings.node)


def _sampler(settings: AgentSettings, log: AgentLog) -> Sampler | None:
    if not settings.traffic_interval:
        return None
    return Sampler(
        CounterReader().read,
        interval=settings.traffic_interval,
        clock=time.monotonic,
        spent=time.thread_time,
        now=lambda: datetime.now(UTC),
        bug=lambda: log.bug(traceback.format_exc()),
    )


def _agent(
    settings: AgentSettings,
    connector: Callable[[], Api],
    log: AgentLog,
    sampler: Sampler | None,
    *,
    once: bool = False,
) -> Agent:
    return Agent(
        settings.node,
        settings.options,
        interval=settings.interval,
        discover=partial(discover, node=settings.node, root=settings.root),
        connect=connector,
        log=log,
        clock=Clock(monotonic=time.monotonic, now=lambda: datetime.now(UTC), jitter=random.random),
        once=once,
        traffic=(lambda: sampler.traffic) if sampler else lambda: None,
        works=tuple(_works(settings, log)),
    )


def _works(settings: AgentSettings, log: AgentLog) -> Iterator[WorkOnGpus]:
    if settings.verify_at_start:
        yield _measuring(settings, log)


def _measuring(settings: AgentSettings, log: AgentLog) -> Measuring:
    # The image has no NCCL, and a topology needs only the bandwidths of pairs.
    wanted = Wanted(node=settings.node, root=settings.root, all_reduce=False)
    return Measuring(partial(measured, wanted), log)
