"""The nodes that a plan may use, with their free GPUs and the bandwidth of a share of these."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import inf
from weakref import WeakValueDictionary

from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.planning.network import most_network, network_bandwidth
from webhook.hardware.topology.selection.choice import Choice, NoChoice, Selector
from webhook.hardware.topology.selection.request import Constraints, NodeFree, Request
from webhook.hardware.topology.sets import LINK_VALUES, LinkClass, Quality, models_of, quality_of
from webhook.words.errors import FormatError

CHOICES_KEPT = 4096
"""The most choices, and the most networks, that a build remembers."""
Grade = tuple[float, float]
"""The quality of a set: its link class as a number from 0 to 1, then GB/s per direction of its weakest pair."""


@dataclass(frozen=True, slots=True)
class Share:
    """The best set of a certain size on a node."""

    choice: Choice
    network: float
    """GB/s per direction between the set and other nodes."""

    models: frozenset[str]
    """The models of its GPUs, without those that are not known."""

    @property
    def quality(self) -> Quality:
        """The quality of the set."""
        return quality_of(self.choice.chosen)

    @property
    def grade(self) -> Grade:
        """The grade of the set. NVSwitches and NVLinks between all pairs have the same class value here.

        A single GPU has no pairs, so its bandwidth is infinite.
        """
        return self.quality.link, self.quality.weakest

    @property
    def ring_bandwidth(self) -> float:
        """GB/s that a ring over several nodes can have in this node. A single GPU is limited only by the network."""
        return min(self.network, self.choice.chosen.ring_bandwidth if len(self.choice.gpus) > 1 else inf)


class Build:
    """A build: the common topology of nodes that are built alike. What is computed for one node is valid for all.

    Args:
        topology: The topology of one of the nodes.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self.topology, self.connections = topology, Connections(topology)
        self._selector = Selector(topology, self.connections)
        self._choices: dict[tuple[frozenset[int], Request], Choice] = {}
        self._networks: dict[tuple[int, ...], float] = {}

    def choice(self, free: frozenset[int], request: Request) -> Choice:
        """Returns the best set of the GPUs with the indices ``free`` for a request, which names no GPUs in use.

        Raises:
            FormatError: fewer GPUs are free.
        """
        asked = (free, request)
        if asked not in self._choices:
            busy = frozenset(gpu.index for gpu in self.topology.gpus) - free
            choice = self._selector.select(replace(request, busy=busy))
            if isinstance(choice, NoChoice):
                raise FormatError("share of a node", expected=f"at most {len(free)} GPUs", found=request.count)
            if len(self._choices) >= CHOICES_KEPT:
                self._choices.clear()
            self._choices[asked] = choice
        return self._choices[asked]

    def network(self, choice: Choice) -> float:
        """Returns the GB/s per direction between a set and other nodes, by the NICs near it."""
        if choice.gpus not in self._networks:
            if len(self._networks) >= CHOICES_KEPT:
                self._networks.clear()
            self._networks[choice.gpus] = network_bandwidth(self.topology, choice.chosen, self.connections)
        return self._networks[choice.gpus]

    def worth(self, free: frozenset[int]) -> float:
        """Returns what free GPUs are worth to jobs that come later, in GB/s (``Packing.worth``)."""
        return self._selector.packing.worth(self._selector.table.mask(free))

    def linked(self, free: frozenset[int], size: int) -> int:
        """Returns the most disjoint sets of one size of these GPUs, in which every pair has direct NVLinks."""
        return self._selector.packing.linked(self._selector.table.mask(free), size)

    @cached_property
    def least_grade(self) -> Grade:
        """A lower bound for the grades of all sets of its GPUs.

        Ways through a third GPU need not be considered: a set that has them has NVLink, a better class.
        """
        pairs = [self.connections.direct(one.index, other.index) for one, other in permutations(self.topology.gpus, 2)]
        least = min((pair.bandwidth for pair in pairs), default=inf)
        every = all(pair.type is PathType.NVL for pair in pairs)
        return LINK_VALUES[LinkClass.NVLINK if every else LinkClass.SYS], round(least, 3)


class Builds:
    """The builds of the nodes that are in use, each once."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[NodeTopology, Build] = WeakValueDictionary()

    def of(self, topology: NodeTopology) -> Build:
        """Returns the build of a node."""
        alike = _without_names(topology)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = Build(topology)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A node of a fleet."""

    name: str
    fabric: tuple[str, int]
    """Cluster and clique of the NVLink fabric that the node shares with others, if there is one."""
    build: Build
    free: frozenset[int]
    """Indices of the usable GPUs that are not in use."""
    constraints: Constraints
    """The constraints for the set on this node."""
    network: float | None
    """GB/s per direction between this node and others; None for the bandwidth of its NICs."""

    def share(self, count: int) -> Share:
        """Returns the best set of ``count`` of its free GPUs. At least as many must be free."""
        choice = self.build.choice(self.free, Request(count=count, constraints=self.constraints))
        network = self.build.network(choice) if self.network is None else self.network
        return Share(choice, network, models_of(self.build.topology, choice.gpus))

    @property
    def models(self) -> frozenset[str]:
        """The models of its free GPUs, without those that are not known."""
        return models_of(self.build.topology, self.free)

    def of_model(self, model: str) -> "Member":
        """Returns this node with no free GPUs but those of one model."""
        topology = self.build.topology
        return replace(self, free=frozenset(index for index in self.free if models_of(topology, (index,)) == {model}))

    def most_network(self, count: int) -> float:
        """Returns an upper bound for the GB/s between a set of ``count`` GPUs of this node and other nodes."""
        return most_network(self.build.topology, count) if self.network is None else self.network

    def meets(self, count: int) -> bool:
        """Returns whether a set of ``count`` GPUs meets all constraints."""
        return count <= len(self.free) and not self.share(count).choice.unmet


def fleet(nodes: Iterable[NodeFree], constraints: Constraints, network: float | None) -> list[Member]:
    """Returns the members of a fleet, sorted by name.

    Args:
        nodes: The nodes, with different names.
        constraints: The constraints for the set on each node.
        network: GB/s per direction between a node and others; None for the bandwidth of its NICs.

    Raises:
        FormatError: two nodes have the same name.
    """
    builds = Builds()
    members = [_member(node, builds.of(node.topology), constraints, network) for node in nodes]
    twice = [name for name, count in Counter(member.name for member in members).items() if count > 1]
    if twice:
        raise FormatError("nodes of a plan", expected="each node once", found=f"{twice[0]} twice")
    return sorted(members, key=lambda member: member.name)


def _member(node: NodeFree, build: Build, constraints: Constraints, network: float | None) -> Member:
    topology, request = node.topology, Request(count=1, busy=node.busy)
    fabric = topology.fabric
    return Member(
        name=topology.node,
        fabric=(fabric.cluster_uuid, fabric.clique_id) if fabric else ("", 0),
        build=build,
        free=frozenset(gpu.index for gpu in topology.gpus if request.may_use(gpu)),
        constraints=constraints,
        network=network,
    )


def _without_names(topology: NodeTopology) -> NodeTopology:
    """Returns the topology without the values in which nodes that are built alike may differ."""
    return replace(
        topology,
        node="",
        source="",
        driver_version="",
        cuda_version="",
        problem="",
        lost=(),
        fabric=None,
        measured_at="",
        gpus=tuple(replace(gpu, uuid="", minor=None, measured=()) for gpu in topology.gpus),
    )
