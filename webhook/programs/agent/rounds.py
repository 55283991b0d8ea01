"""The rounds of the agent (discover, decide, write), and the handling of their failures."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from webhook.cluster.api.errors import ApiError, ApiRefused, ApiServerAway, Conflict, NotFound
from webhook.cluster.api.verbs import Api, PatchForm
from webhook.cluster.kinds import CONFIG_MAP, EVENT, LEASE, NODE
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.traffic.model import Traffic
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.look import Look, with_known_ends
from webhook.programs.agent.publication import (
    Memory,
    NodeChange,
    Object,
    Observed,
    PublishOptions,
    decide,
    lease_manifest,
    nccl_problem,
    node_change,
    sound,
    taint_event_manifests,
)
from webhook.programs.agent.schedule import Schedule
from webhook.programs.agent.status import Count, Status
from webhook.programs.agent.tainting import Tainting
from webhook.words import names
from webhook.words.errors import GpuTopologyError
from webhook.words.node_names import config_map_name

ATTEMPTS = 5
"""The number of attempts to patch a Node that others write at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """The clocks of an agent, and the random numbers that spread the agents of a cluster over time."""

    monotonic: Callable[[], float]
    """Seconds of a clock that never goes back."""
    now: Callable[[], datetime]
    jitter: Callable[[], float]
    """A random number from 0 up to 1."""


class WorkOnGpus(Protocol):
    """Work on free GPUs that begins after it was announced, and whose results are published with the topology."""

    @property
    def is_running(self) -> bool:
        """Whether it uses GPUs now."""

    def told(self, topology: NodeTopology) -> NodeTopology:
        """Return a discovered topology with the known results."""

    def announced(self, topology: NodeTopology, published: NodeTopology | None, at: datetime) -> NodeTopology:
        """Return a topology for publication: with the results, also those in ``published``, and the announcement."""

    def begin(self) -> None:
        """Start what was announced. To be called after the announcement was published."""


def begin_in_turn(works: Sequence[WorkOnGpus]) -> None:
    """Starts announced work while no other uses GPUs, which would find none that are free, or disturb figures."""
    for work in works:
        if any(each.is_running for each in works):
            break
        work.begin()


class Agent:
    """The agent of one node. Other threads may read ``status``."""

    def __init__(  # noqa: PLR0913 - what the outside world is to it
        self,
        node: str,
        options: PublishOptions,
        *,
        interval: float,
        discover: Callable[[], NodeTopology],
        connect: Callable[[], Api],
        log: AgentLog,
        clock: Clock,
        once: bool = False,
        traffic: Callable[[], Traffic | None] = lambda: None,
        works: Sequence[WorkOnGpus] = (),
    ) -> None:
        self._node = node
        self._options = options
        self._discover_topology = discover
        self._connect = connect
        self._log = log
        self._clock = clock
        self._once = once
        self._traffic = traffic
        self._works = works
        self._api: Api | None = None
        self._memory = Memory()
        self._tainting = Tainting(node, log, self._wrote) if options.taint_devices else None
        self._looked_at = clock.now()
        self._renewal: str | None = None
        """Why the last renewal of the Lease was refused; empty after a success, None before the first."""
        started = clock.monotonic()
        self._schedule = Schedule(interval=interval, discover_at=started)
        self.status = Status(confirmed_at=started)

    async def wake(self) -> float:
        """Discovers and publishes if due; returns the seconds until the next call is due. Raises nothing."""
        clock = self._clock.monotonic
        self.status = replace(self.status, busy_since=clock())
        if clock() >= self._schedule.discover_at:
            self._discover()
        if self.status.look and self._schedule.may_publish(clock()):
            await self._publish(self.status.look)
        self.status = replace(self.status, busy_since=None)
        return max(0.0, self._schedule.wake_at - clock())

    async def close(self) -> None:
        """Closes the connection; the next round makes another."""
        api, self._api = self._api, None
        if api:
            with suppress(Exception):
                await api.close()

    def _discover(self) -> None:
        started, at = self._clock.monotonic(), self._clock.now()
        try:
            topology = sound(self._discover_topology())
            for work in self._works:
                topology = work.told(topology)
            look = _look_at(with_known_ends(topology, self._memory.readable))
        except Exception:  # an odd machine must not end the program that reports on it
            self._bug()
            self.status = replace(self.status, look=None).counted(Count.DISCOVERIES, "bug")
        else:
            if look != self.status.look:
                self._log_look(look)
            self._looked_at = at
            seconds = self._clock.monotonic() - started
            outcome = "problem" if topology.problem else "complete"
            self.status = replace(self.status, look=look, discovery_seconds=seconds).counted(Count.DISCOVERIES, outcome)
        self._schedule = self._schedule.discovered(self._clock.monotonic(), self._clock.jitter())

    async def _publish(self, look: Look) -> None:
        try:
            refusal = await self._write(look)
        except ApiError as error:
            self._count_api_error(error)
            asked = error.retry_after if isinstance(error, ApiServerAway) else 0.0
            await self._failed(str(error), kind="api", asked=asked)
        except GpuTopologyError as error:
            await self._failed(str(error), kind="configuration")
        except Exception:  # as above
            self._bug()
            await self._retry_later()
        else:
            if self._schedule.failures:
                self._log.recovered(self._schedule.failures)
            self._schedule = self._schedule.published()
            self.status = replace(self.status, in_step=True, failure=refusal, confirmed_at=self._clock.monotonic())

    async def _write(self, look: Look) -> str:
        """Writes ``look`` to the cluster, and renews the Lease that says when it was true.

        Returns:
            Why the renewal of the Lease was refused; empty if it was not.

        Raises:
            ApiError: not everything could be written. A refusal of the Node's change or of taints does not stop the
                other writes.
        """
        api = self._api = self._api or self._connect()
        at = self._clock.now()
        observed = await self._observe(api)
        memory = self._memory.at_start(observed.config_map)
        look = self._announced(look, memory.readable)
        publication = decide(observed, look, memory=memory, options=self._options, at=at)
        refused: ApiError | None = None
        await self._create_events(api, publication.events)
        if publication.node:
            try:
                await self._change_node(api, publication.node, look, memory.readable)
            except ApiRefused as error:
                refused = error
        if publication.config_map:
            await self._apply(api, publication.config_map)
        if not refused:
            self._memory = memory.after(look.topology)
        refused = await self._taint(api, observed.node, look, memory.readable) or refused
        refusal = await self._renew(api, observed.node)
        if refused:
            raise refused
        begin_in_turn(self._works)
        return refusal

    def _announced(self, look: Look, published: NodeTopology | None) -> Look:
        """Returns the look with what is known from before, and the mark of work on free GPUs that begins."""
        topology = with_known_ends(look.topology, published)
        if not self._works and topology is look.topology:
            return look
        for work in self._works:
            topology = work.announced(topology, published, self._clock.now())
        told = _look_at(topology)
        self.status = replace(self.status, look=told)
        return told

    async def _observe(self, api: Api) -> Observed:
        try:
            node = (await api.get(NODE, self._node)).object()
        except NotFound as error:
            raise NotFound(f"{error}. --node, or {names.AGENT_NODE_NAME}, must be the name of a Node") from None
        found = await api.find(CONFIG_MAP, config_map_name(self._node), self._options.namespace)
        return Observed(node=node, config_map=found.object() if found else None)

    async def _create_events(self, api: Api, events: tuple[Object, ...]) -> None:
        """Creates Events. No program depends on them, so a refused Event does not end the round."""
        for event in events:
            try:
                with suppress(Conflict):  # it was created before the agent restarted
                    await api.create(EVENT, event)
            except ApiRefused as error:
                self._count_api_error(error)
                self._log.failed(str(error), kind="event")
            else:
                self._wrote("Event", event["reason"], event["note"])

    async def _change_node(self, api: Api, change: NodeChange | None, look: Look, before: NodeTopology | None) -> None:
        attempts = 0
        while change is not None:
            attempts += 1
            try:
                await api.patch(NODE, self._node, "", change.patch, PatchForm.MERGE)
            except Conflict as error:
                if attempts == ATTEMPTS:
                    raise
                self._count_api_error(error)
                node = (await api.get(NODE, self._node)).object()
                cordon, at = self._options.cordon, self._clock.now()
                change = node_change(node, look, before=before, cordon=cordon, at=at)
            else:
                self._wrote("Node", self._node, _written(change.patch))
                await self._create_events(api, change.events)
                return

    async def _taint(self, api: Api, node: Object, look: Look, before: NodeTopology | None) -> ApiError | None:
        """Updates the taints of ill GPUs, if the agent writes taints; returns the refusal, or None."""
        if not self._tainting:
            return None
        done = await self._tainting.round(api, node, look, before)
        self.status = replace(self.status, taints=self._tainting.status)
        at, seed = self._clock.now(), node["metadata"]["resourceVersion"]
        await self._create_events(api, taint_event_manifests(done.tainted, done.untainted, node, at=at, seed=seed))
        return done.refused

    async def _apply(self, api: Api, manifest: Object) -> None:
        await api.apply(CONFIG_MAP, manifest)
        self._wrote("ConfigMap", manifest["metadata"]["name"])

    async def _renew(self, api: Api, node: Object) -> str:
        """Renews the Lease, which says when the published topology was true; returns why it was refused, or "".

        A refusal does not delay publications. Only a renewal whose outcome differs from the one before is logged.
        """
        options, interval = self._options, self._schedule.interval
        manifest = lease_manifest(
            node, namespace=options.namespace, interval=interval, at=self._looked_at, traffic=self._traffic()
        )
        before = self._renewal
        try:
            await api.apply(LEASE, manifest)
        except ApiRefused as error:
            self._renewal = str(error)
            self._count_api_error(error)
            self.status = self.status.counted(Count.ERRORS, "api")
            if self._renewal != before and not self._once:  # as for other failures
                self._log.failed(self._renewal, kind="lease")
        else:
            self._renewal = ""
            self.status = self.status.counted(Count.WRITES, "lease")
            if before != "":
                self._log.wrote("Lease", manifest["metadata"]["name"])
        return self._renewal

    def _wrote(self, kind: str, name: str, text: str = "") -> None:
        self._log.wrote(kind, name, text)
        self.status = self.status.counted(Count.WRITES, kind.lower())

    def _count_api_error(self, error: ApiError) -> None:
        self.status = self.status.counted(Count.API_ERRORS, error.kind)

    async def _failed(self, error: str, *, kind: str, asked: float = 0.0) -> None:
        self.status = replace(self.status, failure=error).counted(Count.ERRORS, kind)
        delay = await self._retry_later(asked=asked)
        if not self._once:  # a single round is not retried, and its caller reports ``status.failure``
            self._log.failed(error, kind=kind, retry_seconds=delay)

    def _bug(self) -> None:
        self._log.bug(traceback.format_exc())
        text = "something happened that should not be possible; the log has the traceback"
        self.status = replace(self.status, failure=text, in_step=False).counted(Count.ERRORS, "bug")

    async def _retry_later(self, *, asked: float = 0.0) -> float:
        """Schedules the retry and closes the connection, because token and authority may be new by then.

        Returns:
            The seconds until the retry.
        """
        await self.close()
        now = self._clock.monotonic()
        self._schedule = self._schedule.failed(now, self._clock.jitter(), asked=asked)
        self.status = replace(self.status, in_step=False)
        return (self._schedule.retry_at or now) - now

    def _log_look(self, look: Look) -> None:
        self._log.discovered(
            state=look.health.state.value,
            gpus=len(look.topology.gpus),
            findings=look.health.findings,
            slower=look.health.slower,
            problem=look.topology.problem,
            nccl_problem=nccl_problem(look.topology),
        )


def _look_at(topology: NodeTopology) -> Look:
    return Look(topology, node_health(topology))


def _written(patch: Object) -> str:
    """Describes a patch of a Node in words."""
    metadata = patch["metadata"]
    members = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    return ", ".join(f"{key}={value}" if value is not None else f"{key} removed" for key, value in members.items())
