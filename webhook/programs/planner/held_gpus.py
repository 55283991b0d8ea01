"""The GPUs that pods hold for themselves, and the bandwidth between them, for the metrics of the leader.

Prometheus joins the counters of the agents to pods by these metrics: docs/observability.md. The decisions about waiting
pods are separate, and never wait for this.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, NoReturn

from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.bandwidth_ratio import bandwidth_ratio
from webhook.decisions.place.occupancy import Occupied, is_linked, occupied, sets_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.planning.fleet import Build, Builds
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.mirrors import Mirrors
from webhook.words import names

EVERY_SECONDS = 1.0
ALL_SECONDS = 300.0
"""Seconds after which all nodes are looked at again, because a namespace may say something else of NVLink."""
CHANGED_AT_A_TIME = 100
"""Most nodes for which one look finds the holders of GPUs anew."""
LONGEST_LOOK = 0.1
"""Seconds after which one look finds no more holders. The best set is chosen once for each kind of node and number of
GPUs, which takes up to 0.02 s for 8 GPUs and more for 16."""
MOST_SERIES = 20_000
"""Most series of the metric that says which pod holds which GPU, and of that of the bandwidth of pods."""


class PodGpu(NamedTuple):
    """The labels of one GPU that a pod holds."""

    namespace: str
    pod: str
    container: str
    node: str
    gpu: str
    uuid: str
    link: str
    expects_nvlink: str
    """``true`` for a GPU that has NVLink to all others that work with it, unless the pod expects no use of it."""


class PodOnNode(NamedTuple):
    """The labels of a pod that holds GPUs."""

    namespace: str
    pod: str
    node: str
    link: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldGpus:
    """The GPUs that pods hold. It is replaced as a whole, for scrapes."""

    gpus: tuple[PodGpu, ...] = ()
    left_out: int = 0
    """GPUs beyond :data:`MOST_SERIES`."""
    bandwidths: Mapping[PodOnNode, float] = field(default_factory=dict)
    """Bandwidths of pods as ratios of the best; see :mod:`webhook.decisions.place.bandwidth_ratio`."""
    bandwidths_left_out: int = 0
    """Pods beyond :data:`MOST_SERIES`."""


@dataclass(slots=True)
class _Node:
    """The state of one node."""

    record: NodeRecord | None = None
    known: KnownNode | None = None
    build: Build | None = None
    pods: dict[str, PodRecord] = field(default_factory=dict)
    """The pods with GPUs."""
    gpus: tuple[PodGpu, ...] = ()
    bandwidths: Mapping[PodOnNode, float] = field(default_factory=dict)


class HeldGpuWatch:
    """A follower of the mirrors that finds the holders of GPUs. Other threads may read ``held``.

    Args:
        mirrors: The mirrors of the cluster.
        counts: Names of the resources by which pods ask for numbers of HAMi's GPUs.
        expects: Whether the use of NVLink is expected where neither pod nor namespace says it.
        leads: Returns whether this replica leads. Only the leader has these metrics.
        clock: The clocks.
    """

    def __init__(
        self, mirrors: Mirrors, *, counts: Collection[str], expects: bool, leads: Callable[[], bool], clock: Clock
    ) -> None:
        self._mirrors = mirrors
        self._counts = counts
        self._expects = expects
        self._leads = leads
        self._clock = clock
        self._builds = Builds()
        self._nodes: dict[str, _Node] = {}
        self._changed: dict[str, None] = {}
        """Names of nodes whose holders of GPUs are to be found anew, in the order of their changes."""
        self._all_since = clock.monotonic()
        self.held = HeldGpus()
        mirrors.follow(self)

    def pod_changed(self, _: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Take the new state of a pod; see :class:`webhook.programs.planner.decisions.Follower`."""
        node = self._nodes.get(before.node) if before is not None else None
        if before is not None and node is not None and before.key in node.pods:
            del node.pods[before.key]
            self._changed[before.node] = None
            self._drop_if_empty(before.node)
        if after is not None and after.node and after.held:
            self._nodes.setdefault(after.node, _Node()).pods[after.key] = after
            self._changed[after.node] = None

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Take the new state of a node; see :class:`webhook.programs.planner.decisions.Follower`."""
        node = self._nodes.setdefault(name, _Node())
        node.record = record
        if topology is None:
            node.known = node.build = None
        elif node.known is None or node.known.topology is not topology:
            node.known, node.build = KnownNode(topology, origin=Origin.AGENT), self._builds.of(topology)
        self._changed[name] = None
        self._drop_if_empty(name)

    async def run(self) -> NoReturn:
        """Look again and again until this is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Find the holders of GPUs on the next changed nodes."""
        if not self._leads():
            self._changed = dict.fromkeys(self._nodes)
            self.held = HeldGpus()
            return
        now = self._clock.monotonic()
        if not self._changed and now - self._all_since >= ALL_SECONDS:
            self._all_since, self._changed = now, dict.fromkeys(self._nodes)
        if not self._changed:
            return
        for name in list(islice(self._changed, CHANGED_AT_A_TIME)):
            del self._changed[name]
            if node := self._nodes.get(name):
                self._find(name, node)
            if self._clock.monotonic() - now > LONGEST_LOOK:
                break
        self.held = self._published()

    def _find(self, name: str, node: _Node) -> None:
        """Find the pods that hold GPUs of a node, and the bandwidths of these GPUs."""
        found = occupied(node.pods.values(), node.record, self._counts) if node.record else []
        node.gpus = tuple(gpu for each in found for gpu in self._gpus(name, node.known, each))
        node.bandwidths = dict(_bandwidths(name, node, found))

    def _gpus(self, name: str, known: KnownNode | None, found: Occupied) -> Iterator[PodGpu]:
        linked = set[str]()
        if known and self._is_expected(found):
            linked = {uuid for uuids in sets_of(found) if is_linked(known, uuids) for uuid in uuids}
        for held in found.cards:
            gpu = known.gpu(held.uuid, None) if known else None
            yield PodGpu(
                namespace=found.pod.namespace,
                pod=found.pod.name,
                container=held.container,
                node=name,
                gpu=str(gpu.index) if gpu else "",
                uuid=held.uuid,
                link=found.occupant.link,
                expects_nvlink="true" if held.uuid in linked else "false",
            )

    def _is_expected(self, found: Occupied) -> bool:
        namespace = self._mirrors.namespace(found.pod.namespace)
        said = found.occupant.expects_nvlink or namespace.annotations.get(names.EXPECT_NVLINK, "")
        return said == "true" if said in ("true", "false") else self._expects

    def _published(self) -> HeldGpus:
        gpus = [gpu for node in self._nodes.values() for gpu in node.gpus]
        bandwidths = [entry for node in self._nodes.values() for entry in node.bandwidths.items()]
        return HeldGpus(
            gpus=tuple(gpus[:MOST_SERIES]),
            left_out=max(0, len(gpus) - MOST_SERIES),
            bandwidths=dict(bandwidths[:MOST_SERIES]),
            bandwidths_left_out=max(0, len(bandwidths) - MOST_SERIES),
        )

    def _drop_if_empty(self, name: str) -> None:
        node = self._nodes[name]
        if node.record is None and node.known is None and not node.pods:
            del self._nodes[name]


def _bandwidths(name: str, node: _Node, occupants: Collection[Occupied]) -> Iterator[tuple[PodOnNode, float]]:
    if node.known is None or node.build is None:
        return
    for found in occupants:
        ratio = bandwidth_ratio(found, node.known, node.build)
        if ratio is not None:
            yield PodOnNode(found.pod.namespace, found.pod.name, name, found.occupant.link), ratio
