"""State from a cluster: answers from mirrors that other tasks fill, without a wait except for namespaces in doubt.

The tasks that fill the mirrors run on the event loop of the reviews. Any thread may ask for answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from time import monotonic, time
from typing import NamedTuple, Protocol

import msgspec

from webhook.cluster import kinds
from webhook.cluster.state.cache import Cache, Form, Versioned
from webhook.cluster.state.keeper import Keeper, waiting
from webhook.cluster.state.nodes import MOST_NODES, FastestPairs, NodeSources
from webhook.cluster.state.reduction import (
    LEASES,
    NAMESPACE_FORM,
    NO_TEXTS,
    NODE_FORM,
    PLAIN,
    PLANNERS,
    TOPOLOGY_FORM,
    Heartbeat,
    Packed,
    lease_reader,
    planner_reader,
    read_namespace,
    weigh_heartbeat,
)
from webhook.cluster.state.report import CacheReport, StateReport, TopologyReport
from webhook.cluster.state.slices import DriverSlices, MirroredPools
from webhook.cluster.token_bucket import Rate, TokenBucket
from webhook.decisions.claims.slices import Pools
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.errors import ManifestError, StateUnknown, TooManyNamespaceReads
from webhook.words.node_names import config_map_name

ASK_AGAIN_SECONDS = 1.0
"""The time for which the API server's answer about a namespace in doubt counts as true."""
NAMESPACE_READS = Rate(burst=50, per_second=20)
"""The rate of reads of namespaces that the mirror lacks, and the same rate for those that it has without the opt-in
label. The mirror is milliseconds behind, so genuine reads are few. Forged reviews can name any namespace."""
VERSIONS = "versions"
_NO_CLAIMS = ClaimSettings()


class Places(NamedTuple):
    """The namespaces of mirrored objects."""

    topologies: str = ""
    """The namespace in which the agents publish."""
    planner: str = ""
    """The namespace of the planner's Lease; empty if there is no planner to watch."""


class Namespaces(Protocol):
    """Namespaces in their present state."""

    async def get(self, name: str) -> Versioned | None:
        """Return the namespace; ``None`` if there is none of that name.

        Raises:
            StateUnknown: the namespace is not known.
        """


_NOWHERE = Places()


_SIGNS = ((False, False), (False, True), (True, False), (True, True))
"""Whether a planner is alive, and whether nodes show that HAMi may be nowhere."""


def _variants(facts: ClusterFacts) -> Mapping[tuple[bool, bool], ClusterFacts]:
    """Return the facts by :data:`_SIGNS`."""
    known = facts if not facts.lacks_hami else msgspec.structs.replace(facts, lacks_hami=False)
    with_planner = [msgspec.structs.replace(found, has_planner=True) for found in (known, facts)]
    return dict(zip(_SIGNS, (known, facts, *with_planner), strict=True))


class ClusterState:
    """The state of a cluster, as :class:`webhook.cluster.state.State`.

    Args:
        live: The source of a namespace for which the mirror may be behind.
        places: The namespaces of mirrored objects.
        max_age: ``binding.topologyMaxAgeSeconds``, for the report.
        tell: A function that takes a text for the log.
        claims: The settings that name the drivers whose ResourceSlices are kept; none if claims are disabled.
        clock: A clock in seconds that never goes back.
        wall: The seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - the sources, their places and the clocks
        self,
        live: Namespaces,
        places: Places = _NOWHERE,
        *,
        max_age: float,
        tell: Callable[[str], None],
        claims: ClaimSettings = _NO_CLAIMS,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._live = live
        self._max_age = max_age
        self._clock = clock
        self._asked: dict[str, float] = {}
        """The time of the last read of each namespace from the API server."""
        self._absent: dict[str, float] = {}
        """The time of the API server's last answer that a namespace does not exist."""
        self._unknown_reads, self._doubtful_reads = TokenBucket(NAMESPACE_READS), TokenBucket(NAMESPACE_READS)
        self._asking: dict[str, asyncio.Task[Namespace]] = {}
        """The running reads of namespaces. Further requests for one of them wait with it."""
        self._ready = False
        self._facts: ClusterFacts | None = None
        self._variants = _variants(ClusterFacts())
        self._facts_at: float | None = None
        self.versions_problem = ""
        """The reason why the versions are not known."""

        self.keeper = keeper = Keeper(tell=tell, clock=clock)
        self.namespaces: Cache[Namespace] = keeper.keep(kinds.NAMESPACES, NAMESPACE_FORM)
        self._plain = self._annotated = 0
        """Nodes that offer GPUs without HAMi, and nodes that HAMi has annotated."""
        self.nodes: Cache[Packed] = keeper.keep(kinds.NODES, NODE_FORM, changed=self._count_node)
        self.topologies: Cache[Packed] = keeper.keep(kinds.config_maps(places.topologies), TOPOLOGY_FORM)
        read_lease = lease_reader(clock=clock, wall=wall, heard=lambda: self.leases.confirmed)
        form = Form(read_lease, weigh_heartbeat, LEASES)
        self.leases: Cache[Heartbeat] = keeper.keep(kinds.leases(places.topologies), form)
        read_planner = planner_reader(clock=clock, wall=wall, heard=lambda: self.planners.confirmed)
        self.planners = Cache[Heartbeat](
            "planner", Form(read_planner, weigh_heartbeat, PLANNERS), tell=tell, clock=clock
        )
        """The planner's Lease. Reviews are answered without it: an unknown planner counts as none."""
        if places.planner:  # a role without the Lease means that there is no planner
            keeper.add(kinds.planner_lease(places.planner), self.planners, is_needed=False)
        drivers = [driver.name for driver in claims.drivers] if claims.enabled else []
        self.slices = {driver: DriverSlices(driver, claims, tell=tell, clock=clock) for driver in drivers}
        """The slices of DRA drivers, by the names of the drivers."""
        for driver, slices in self.slices.items():
            keeper.add(kinds.resource_slices(driver), slices.cache)
        self._pools = MirroredPools(self.slices)
        self._fastest = FastestPairs(self.topologies)
        self._sources = NodeSources(self.topologies, self.nodes, clock=clock)

    @property
    def ready(self) -> bool:
        """True if everything was known once."""
        if not self._ready:
            self._ready = self._facts is not None and self.keeper.is_filled
        return self._ready

    @property
    def waiting_for(self) -> str:
        """The parts that were never known yet, with the first known reason; empty if the state is ready."""
        if self.ready:
            return ""
        versions = [(VERSIONS, self.versions_problem)] if self._facts is None else []
        return waiting([*self.keeper.missing, *versions])

    def namespace(self, name: str) -> Namespace | Awaitable[Namespace]:
        """Return the namespace.

        The API server sends reviews for namespaces with the opt-in label. If the mirror has no such label, it is
        probably behind: the namespace has just been created or labelled. Then the API server is asked, at a bounded
        rate.

        Raises:
            StateUnknown: some parts are not known yet. Awaiting the answer may also raise TooManyNamespaceReads.
        """
        self._require()
        found = self.namespaces.get(name)
        if found is not None and (found.injection_enabled or self._is_fresh(self._asked, name)):
            return found
        if found is None and self._is_fresh(self._absent, name):
            return Namespace(name, known=False)
        return self._ask_once(name, found)

    def cluster(self) -> ClusterFacts:
        """Return the known versions, whether a planner is alive, and whether HAMi is known to be nowhere.

        The value is identical while nothing changes.

        Raises:
            StateUnknown: some parts are not known yet.
        """
        if self._facts is None:
            self._require()
        return self._variants[self.has_planner, self.has_plain_gpus]

    @property
    def has_planner(self) -> bool:
        """True if a planner has renewed its Lease, and the renewal still counts."""
        heartbeat = self.planners.get(names.PLANNER_LEASE)
        return heartbeat is not None and self._sources.age(heartbeat) < heartbeat.lasts

    @property
    def has_plain_gpus(self) -> bool:
        """True if Nodes offer GPUs and HAMi is known to have annotated none of them."""
        if not self.nodes.filled or self.nodes.is_incomplete:
            return False
        return self._plain > 0 and self._annotated == 0

    def _count_node(self, _name: str, before: Packed | None, now: Packed | None) -> None:
        for node, change in ((before, -1), (now, 1)):
            if node is not None:
                self._plain += change * (node == PLAIN)
                self._annotated += change * bool(node.data)

    @property
    def planner_silence(self) -> float:
        """The seconds since a planner renewed its Lease; infinite if none ever did.

        While the holder may still renew the Lease under our watch, the time in the Lease is not used.
        """
        heartbeat = self.planners.get(names.PLANNER_LEASE)
        if heartbeat is None:
            return inf
        watched = self._clock() - heartbeat.seen
        return watched if watched < heartbeat.lasts else self._sources.age(heartbeat)

    def node(self, name: str) -> Sources:
        """Return the facts of the agent and of HAMi about the GPUs of a node.

        Raises:
            StateUnknown: some parts are not known yet.
        """
        self._require()
        published = self._sources.published(name)
        heartbeat = self.leases.get(config_map_name(name))
        return Sources(
            published=published,
            age=self._sources.age(heartbeat) if published else None,
            lasts=heartbeat.lasts if heartbeat else 0.0,
            annotated=self._sources.annotated(name),
            exists=self.nodes.get(name) is not None,
        )

    def fastest_pair(self) -> FastestPair | None:
        """Return the fastest pair of GPUs of all nodes that agents publish; ``None`` while that is not known."""
        if len(self.nodes) > MOST_NODES:
            return None
        is_known = all(self._is_published(name, packed) for name, packed in self.nodes.values().items())
        return self._fastest.best() if is_known else None

    def _is_published(self, name: str, node: Packed) -> bool:
        """Return whether the node has no GPUs, as far as is known, or an agent that tells them."""
        return node == NO_TEXTS or self.topologies.get(config_map_name(name)) is not None

    def pools(self) -> Pools:
        """Return the devices that DRA drivers publish; none if claims are disabled.

        Raises:
            StateUnknown: some parts are not known yet.
        """
        self._require()
        return self._pools

    def detected(self, facts: ClusterFacts) -> None:
        """Take the versions. Equal ones keep the earlier value."""
        if self._facts != facts:
            self._facts, self._variants = facts, _variants(facts)
        self._facts_at = self._clock()

    def report(self) -> StateReport:
        """Report the condition of the state."""
        caches = [*self.keeper.report()]
        facts, at = self._facts or ClusterFacts(), self._facts_at
        caches.append(
            CacheReport(
                name=VERSIONS,
                objects=sum(version is not None for version in (facts.hami, facts.kubernetes)),
                bytes=0,
                left_out=0,
                filled=self._facts is not None,
                confirmed_seconds=None if at is None else self._clock() - at,
            )
        )
        return StateReport(caches=tuple(caches), topologies=self._report_topologies())

    def _report_topologies(self) -> TopologyReport:
        published, heartbeats = self.topologies.values(), self.leases.values()
        fresh = sum(self._sources.is_fresh(heartbeats.get(key), self._max_age) for key in published)
        missing = sum(
            bool(packed.data) and config_map_name(name) not in published for name, packed in self.nodes.values().items()
        )
        return TopologyReport(fresh=fresh, old=len(published) - fresh, missing=missing)

    def _require(self) -> None:
        if not self.ready:
            raise StateUnknown(f"waiting for {self.waiting_for}")

    def _is_fresh(self, answers: Mapping[str, float], name: str) -> bool:
        asked = answers.get(name)
        return asked is not None and self._clock() - asked < ASK_AGAIN_SECONDS

    async def _ask_once(self, name: str, known: Namespace | None) -> Namespace:
        """Join a running read of the namespace, or start :meth:`_ask`: pods of one namespace come in bursts."""
        asking = self._asking.get(name)
        if asking is None:
            reads = self._unknown_reads if known is None else self._doubtful_reads
            if not reads.take(self._clock()):
                raise TooManyNamespaceReads(f"get namespace {name}: too many namespaces are asked for")
            asking = asyncio.create_task(self._ask(name, known))
            self._asking[name] = asking
            asking.add_done_callback(lambda _: self._asking.pop(name, None))
            # asyncio would log an exception that is never retrieved, if no review waits for it any more.
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def _ask(self, name: str, known: Namespace | None) -> Namespace:
        """Read the namespace from the API server, and fall back to its last known state.

        Raises:
            StateUnknown: the namespace was never known, and the request failed.
        """
        try:
            versioned = await self._live.get(name)
        except StateUnknown:
            if known is None:
                raise
            return known
        if versioned is None:
            self._absent = {key: at for key, at in self._absent.items() if self._is_fresh(self._absent, key)}
            self._absent[name] = self._clock()
            return Namespace(name, known=False)
        self._absent.pop(name, None)
        left_out = self.namespaces.left_out
        self.namespaces.put(versioned)
        if self.namespaces.left_out > left_out:  # the cache has no room for it, so each review reads it
            return _unkept(versioned)
        self._asked[name] = self._clock()
        if len(self._asked) > len(self.namespaces):
            self._asked = {key: at for key, at in self._asked.items() if self.namespaces.get(key)}
        found = self.namespaces.get(name)
        if found is None:
            raise StateUnknown(f"get namespace {name}: it was deleted, or cannot be read")
        return found


def _unkept(versioned: Versioned) -> Namespace:
    """Return a namespace that the cache has no room for. Raises StateUnknown if it cannot be read."""
    try:
        return read_namespace(versioned.document, versioned.name, None)
    except ManifestError as error:
        raise StateUnknown(f"get namespace {versioned.name}: {error}") from None
