"""State from a cluster: answers from mirrors that other tasks fill, and never a wait, but for namespaces in doubt.

Whoever fills the mirrors runs on the event loop of the reviews; answers may be asked for in any thread.
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
from webhook.cluster.state.nodes import NodeSources
from webhook.cluster.state.reduction import (
    LEASES,
    NAMESPACE_FORM,
    NO_TEXTS,
    NODE_FORM,
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
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.errors import ManifestError, StateUnknown, TooManyNamespaceReads
from webhook.words.node_names import config_map_name

ASK_AGAIN_SECONDS = 1.0
"""For so long what the API server said of a namespace in doubt is taken for true."""
NAMESPACE_READS = Rate(burst=50, per_second=20)
"""Of namespaces that the mirror does not have, and as many of those that it has without the label of the opt-in. The
mirror is milliseconds behind, so real ones are few; forged reviews can be about any name."""
VERSIONS = "versions"
_NO_CLAIMS = ClaimSettings()


class Places(NamedTuple):
    """Where the objects of a program's mirrors are."""

    topologies: str = ""
    """The namespace in which the agents publish."""
    planner: str = ""
    """The namespace in which the planner has its Lease; empty: there is none to look for."""


class Namespaces(Protocol):
    """Namespaces as they are at this moment."""

    async def get(self, name: str) -> Versioned | None:
        """The namespace; ``None`` if there is none of that name.

        Raises:
            StateUnknown: it is not known.
        """


_NOWHERE = Places()


class ClusterState:
    """:class:`webhook.cluster.state.State` of a cluster.

    Args:
        live: Asked for a namespace when the mirror may be behind.
        places: Where what is mirrored is.
        max_age: ``binding.topologyMaxAgeSeconds``, for the report.
        tell: Takes a text for the log.
        claims: Whose ResourceSlices are kept; none if claims are not enabled.
        clock: Seconds that never go back.
        wall: Seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - what is to be known, where it is, and by which clocks
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
        """When the API server was asked for a namespace last."""
        self._absent: dict[str, float] = {}
        """When the API server said last that there is no such namespace."""
        self._unknown_reads, self._doubtful_reads = TokenBucket(NAMESPACE_READS), TokenBucket(NAMESPACE_READS)
        self._asking: dict[str, asyncio.Task[Namespace]] = {}
        """Questions about namespaces that wait for their answer; who else wants to know waits with them."""
        self._ready = False
        self._facts: ClusterFacts | None = None
        self._facts_with_planner = ClusterFacts(has_planner=True)
        self._facts_at: float | None = None
        self.versions_problem = ""
        """Why no versions are there."""

        self.keeper = keeper = Keeper(tell=tell, clock=clock)
        self.namespaces: Cache[Namespace] = keeper.keep(kinds.NAMESPACES, NAMESPACE_FORM)
        self.nodes: Cache[Packed] = keeper.keep(kinds.NODES, NODE_FORM)
        self.topologies: Cache[Packed] = keeper.keep(kinds.config_maps(places.topologies), TOPOLOGY_FORM)
        read_lease = lease_reader(clock=clock, wall=wall, heard=lambda: self.leases.confirmed)
        form = Form(read_lease, weigh_heartbeat, LEASES)
        self.leases: Cache[Heartbeat] = keeper.keep(kinds.leases(places.topologies), form)
        read_planner = planner_reader(clock=clock, wall=wall, heard=lambda: self.planners.confirmed)
        self.planners = Cache[Heartbeat](
            "planner", read_planner, weigh_heartbeat, limit=PLANNERS, tell=tell, clock=clock
        )
        """The planner's Lease. Reviews are answered without it: a planner that is not known is none."""
        if places.planner:  # a role that does not name the Lease means that there is no planner
            keeper.add(kinds.planner_lease(places.planner), self.planners, is_needed=False)
        drivers = [driver.name for driver in claims.drivers] if claims.enabled else []
        self.slices = {driver: DriverSlices(driver, claims, tell=tell, clock=clock) for driver in drivers}
        """What DRA drivers publish, by their names."""
        for driver, slices in self.slices.items():
            keeper.add(kinds.resource_slices(driver), slices.cache)
        self._pools = MirroredPools(self.slices)
        self._sources = NodeSources(self.topologies, self.nodes, clock=clock)

    @property
    def ready(self) -> bool:
        """Whether all of it was known once."""
        if not self._ready:
            self._ready = self._facts is not None and self.keeper.is_filled
        return self._ready

    @property
    def waiting_for(self) -> str:
        """What was never known yet, and why as far as that is known; empty when the state is ready."""
        if self.ready:
            return ""
        versions = [(VERSIONS, self.versions_problem)] if self._facts is None else []
        return waiting([*self.keeper.missing, *versions])

    def namespace(self, name: str) -> Namespace | Awaitable[Namespace]:
        """The namespace.

        The API server asks about pods of namespaces with the label of the opt-in. If the mirror knows of no such label,
        it is probably behind: the namespace has just been created or labelled. Then the API server is asked, at a
        bounded rate.

        Raises:
            StateUnknown: not all is known yet. Awaiting the answer may also raise TooManyNamespaceReads.
        """
        self._require()
        found = self.namespaces.get(name)
        if found is not None and (found.injection_enabled or self._is_fresh(self._asked, name)):
            return found
        if found is None and self._is_fresh(self._absent, name):
            return Namespace(name, known=False)
        return self._ask_once(name, found)

    def cluster(self) -> ClusterFacts:
        """The versions that were found, and whether a planner is alive; the same value while nothing of that changes.

        Raises:
            StateUnknown: not all is known yet.
        """
        if self._facts is None:
            self._require()
        return self._facts_with_planner if self.has_planner else self._facts or ClusterFacts()

    @property
    def has_planner(self) -> bool:
        """Whether a planner has renewed its Lease, and vouches with that until now or later."""
        heartbeat = self.planners.get(names.PLANNER_LEASE)
        return heartbeat is not None and self._sources.age(heartbeat) < heartbeat.lasts

    @property
    def planner_silence(self) -> float:
        """Seconds since a planner renewed its Lease; infinite if none ever did.

        The time that the Lease names is not believed while its holder may still renew it before our eyes.
        """
        heartbeat = self.planners.get(names.PLANNER_LEASE)
        if heartbeat is None:
            return inf
        watched = self._clock() - heartbeat.seen
        return watched if watched < heartbeat.lasts else self._sources.age(heartbeat)

    def node(self, name: str) -> Sources:
        """What the agent and HAMi say of the GPUs of a node.

        Raises:
            StateUnknown: not all is known yet.
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

    def pools(self) -> Pools:
        """The devices that DRA drivers publish; none where claims are not enabled.

        Raises:
            StateUnknown: not all is known yet.
        """
        self._require()
        return self._pools

    def detected(self, facts: ClusterFacts) -> None:
        """These are the versions; equal ones stay the same value."""
        if self._facts != facts:
            self._facts, self._facts_with_planner = facts, msgspec.structs.replace(facts, has_planner=True)
        self._facts_at = self._clock()

    def report(self) -> StateReport:
        """How the state is."""
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
            packed is not NO_TEXTS and config_map_name(name) not in published
            for name, packed in self.nodes.values().items()
        )
        return TopologyReport(fresh=fresh, old=len(published) - fresh, missing=missing)

    def _require(self) -> None:
        if not self.ready:
            raise StateUnknown(f"waiting for {self.waiting_for}")

    def _is_fresh(self, answers: Mapping[str, float], name: str) -> bool:
        asked = answers.get(name)
        return asked is not None and self._clock() - asked < ASK_AGAIN_SECONDS

    async def _ask_once(self, name: str, known: Namespace | None) -> Namespace:
        """As :meth:`_ask`; pods of one namespace come in bursts, and one question answers all of them."""
        asking = self._asking.get(name)
        if asking is None:
            reads = self._unknown_reads if known is None else self._doubtful_reads
            if not reads.take(self._clock()):
                raise TooManyNamespaceReads(f"get namespace {name}: too many namespaces are asked for")
            asking = asyncio.create_task(self._ask(name, known))
            self._asking[name] = asking
            asking.add_done_callback(lambda _: self._asking.pop(name, None))
            # Without a look at it, asyncio logs a failure that no review waits for any more.
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def _ask(self, name: str, known: Namespace | None) -> Namespace:
        """The namespace as the API server has it now; as it was last known, if that cannot be had.

        Raises:
            StateUnknown: it was never known, and the API server does not say.
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
        if self.namespaces.left_out > left_out:  # there is no room for it, and it is asked for each time
            return _unkept(versioned)
        self._asked[name] = self._clock()
        if len(self._asked) > len(self.namespaces):
            self._asked = {key: at for key, at in self._asked.items() if self.namespaces.get(key)}
        found = self.namespaces.get(name)
        if found is None:
            raise StateUnknown(f"get namespace {name}: it was deleted, or cannot be read")
        return found


def _unkept(versioned: Versioned) -> Namespace:
    """Raises StateUnknown if it cannot be read."""
    try:
        return read_namespace(versioned.document, versioned.name, None)
    except ManifestError as error:
        raise StateUnknown(f"get namespace {versioned.name}: {error}") from None
