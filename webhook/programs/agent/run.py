"""Runs the agent: once, or until a signal ends it."""

import asyncio
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
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
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.traffic import Sampler
from webhook.programs.endpoints import serve
from webhook.programs.log import take_over_logging
from webhook.programs.verify.run import Wanted, measured
from webhook.words import names
from webhook.words.errors import GpuTopologyError

REQUEST_SECONDS = 10.0
"""For one request."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings:
    """What the command line says."""

    node: str
    options: PublishOptions
    interval: float
    """Seconds between two discoveries."""
    traffic_interval: float
    """Seconds between two samples of the counters of traffic; 0: there are none."""
    verify_at_start: bool
    """Whether the bandwidth between the GPUs that are free is measured, once."""
    root: Path
    """Where ``/sys`` and ``/proc`` are."""
    kubeconfig: Where
    """None: this program runs as a pod."""
    host: str
    port: int


def run(settings: AgentSettings) -> None:
    """Watch the node until SIGTERM or SIGINT, which end the program at once: everything it writes is written whole.

    Raises:
        ConfigError: there is no way to an API server.
        GpuTopologyError: the port is taken.
    """
    connector = partial(connect_agent, settings.kubeconfig)
    connector()  # a wrong setting is better said now than at each retry
    log = _log(settings)
    take_over_logging(log)
    sampler = _sampler(settings, log)
    agent = _agent(settings, connector, log, sampler)
    # Rounds are not interrupted but left behind, so the signals are for this thread alone. Blocked ones also reach a
    # program with the process id 1, which the kernel otherwise spares (signal(7), pid_namespaces(7)).
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    rounds = threading.Thread(target=_make_rounds, args=(agent,), name="rounds", daemon=True)
    endpoints = agent_endpoints(settings.node, lambda: agent.status, time.monotonic, rounds.is_alive, log, sampler)
    serve(endpoints, settings.host, settings.port)
    log.started(version=__version__, interval=settings.interval)
    rounds.start()
    if sampler:
        sampler.start()
    log.stopping(signal.Signals(signal.sigwait(STOP_SIGNALS)).name)


def run_once(settings: AgentSettings) -> None:
    """Make one round.

    Raises:
        GpuTopologyError: the topology could not be published, or there is none to be seen.
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


def _make_rounds(agent: Agent) -> None:
    asyncio.run(_rounds(agent))


async def _rounds(agent: Agent) -> NoReturn:
    while True:
        await asyncio.sleep(await agent.wake())


def connect_agent(where: Where) -> Api:
    """The API server, for an agent. Nothing is sent yet.

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
        measuring=_measuring(settings, log) if settings.verify_at_start else None,
    )


def _measuring(settings: AgentSettings, log: AgentLog) -> Measuring:
    # In the image there is no NCCL, and pairs are what is asked of a topology.
    wanted = Wanted(node=settings.node, root=settings.root, all_reduce=False)
    return Measuring(partial(measured, wanted), log)
