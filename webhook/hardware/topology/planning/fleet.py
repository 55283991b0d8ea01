"""The nodes that a plan may use: what is free on each, and what a share of the GPUs would carry there."""

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
from webhook.hardware.topology.selection.request import UNCONSTRAINED, Constraints, NodeFree, Policy, Request
from webhook.hardware.topology.selection.score import LINK_VALUES
from webhook.hardware.topology.sets import LinkClass
from webhook.words.errors import FormatError

CHOICES_KEPT = 4096
"""Of each build."""
_Asked = tuple[frozenset[int], int, Constraints, Policy]
Grade = tuple[float, float]
"""How good a set is: its link class as a number from 0 to 1, then GB/s per direction of its weakest pair."""


@dataclass(frozen=True, slots=True)
class Share:
    """The best set of some size on a node."""

    choice: Choice
    network: float
    """GB/s per direction between it and other nodes."""

    @property
    def grade(self) -> Grade:
        """NVSwitches and NVLinks between all pairs are one class here; a single GPU has no pair that could be weak."""
        chosen = self.choice.chosen
        return LINK_VALUES[chosen.link], round(chosen.bandwidth, 3) if chosen.weakest else inf

    @property
    def ring_bandwidth(self) -> float:
        """GB/s that a ring over several nodes can have in this one; a single GPU is no hindrance."""
        return min(self.network, self.choice.chosen.ring_bandwidth if len(self.choice.gpus) > 1 else inf)


class Build:
    """What nodes that are built alike have in common; what is reckoned for one holds for all.

    Args:
        topology: One of them.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self.topology, self.connections = topology, Connections(topology)
        self._selector = Selector(topology, self.connections)
        self._choices: dict[_Asked, Choice] = {}
        self._networks: dict[tuple[int, ...], float] = {}

    def choice(
        self,
        free: frozenset[int],
        count: int,
        constraints: Constraints = UNCONSTRAINED,
        policy: Policy = Policy.BEST_FIT,
    ) -> Choice:
        """The best set of ``count`` GPUs out of those with the indices ``free``, which are enough."""
        asked = (free, count, constraints, policy)
        if asked not in self._choices:
            busy = frozenset(gpu.index for gpu in self.topology.gpus) - free
            choice = self._selector.select(Request(count=count, policy=policy, constraints=constraints, busy=busy))
            if isinstance(choice, NoChoice):
                raise FormatError("share of a node", expected=f"at most {len(free)} GPUs", found=count)
            if len(self._choices) >= CHOICES_KEPT:
                self._choices.clear()
            self._choices[asked] = choice
        return self._choices[asked]

    def network(self, choice: Choice) -> float:
        """GB/s per direction between a set and other nodes, by the NICs near it."""
        if choice.gpus not in self._networks:
            if len(self._networks) >= CHOICES_KEPT:
                self._networks.clear()
            self._networks[choice.gpus] = network_bandwidth(self.topology, choice.chosen, self.connections)
        return self._networks[choice.gpus]

    @cached_property
    def least_grade(self) -> Grade:
        """No set of its GPUs has a lesser grade: one with ways through a third GPU has NVLink, a better class."""
        pairs = [self.connections.direct(one.index, other.index) for one, other in permutations(self.topology.gpus, 2)]
        least = min((pair.bandwidth for pair in pairs), default=inf)
        every = all(pair.type is PathType.NVL for pair in pairs)
        return LINK_VALUES[LinkClass.NVLINK if every else LinkClass.SYS], round(least, 3)


class Builds:
    """The builds of the nodes that are known at the moment, each once."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[NodeTopology, Build] = WeakValueDictionary()

    def of(self, topology: NodeTopology) -> Build:
        """The build of a node."""
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
    """Cluster and clique of the NVLink fabric that it shares with other nodes, if there is one."""
    build: Build
    free: frozenset[int]
    """Indices of the usable GPUs that are not in use."""
    constraints: Constraints
    """What a set here should meet."""
    network: float | None
    """GB/s per direction between this node and others; None for what its NICs have."""

    def share(self, count: int) -> Share:
        """The best set of ``count`` of its free GPUs, which are enough."""
        choice = self.build.choice(self.free, count, self.constraints)
        return Share(choice, self.build.network(choice) if self.network is None else self.network)

    def most_network(self, count: int) -> float:
        """GB/s that no set of so many GPUs exceeds between this node and others."""
        return most_network(self.build.topology, count) if self.network is None else self.network

    def meets(self, count: int) -> bool:
        """Whether a set of so many meets all constraints."""
        return count <= len(self.free) and not self.share(count).choice.unmet


def fleet(nodes: Iterable[NodeFree], constraints: Constraints, network: float | None) -> list[Member]:
    """The nodes, by name.

    Args:
        nodes: With different names.
        constraints: What the set on each node should meet.
        network: GB/s per direction between a node and others; None for what its NICs have.

    Raises:
        FormatError: two nodes have one name.
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
    """What two nodes have in common if they are built alike."""
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
