"""The survey of a job: the GPUs it would get at this moment from the planner, and the hindrances on each node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from webhook.decisions.configuration import PlacementSettings
from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.choice import Chooser, Chosen
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.decisions.place.ranking import request_of
from webhook.decisions.place.scheduling import node_needs
from webhook.decisions.place.world import PlaceNode, World
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.planning.network import node_path
from webhook.hardware.topology.planning.plan import NodeShare, NoPlan, Plan, PlanRequest, plan
from webhook.hardware.topology.selection.request import NodeFree, Policy
from webhook.hardware.topology.sets import GpuSet, models_of
from webhook.objects.pod import NO_CONDITION, Pod
from webhook.words import names
from webhook.words.choices import Objective

MOST_NODES = 20
"""The most nodes that a survey describes."""
_RESOURCE = "nvidia.com/gpu"
_JOB = "a job"
_BUSY = "busy"
_TOLERATIONS = msgspec.Raw(f'[{{"key": "{_RESOURCE}", "operator": "Exists"}}]'.encode())
"""The toleration of the taint that keeps pods without GPUs away: admission plugin ExtendedResourceToleration of
kube-apiserver."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job that does not exist yet, and that asks only for GPUs."""

    request: PlanRequest
    policy: Policy = Policy.BEST_FIT
    """The policy that chooses the set on a node."""
    objective: Objective = PlacementSettings().objective
    """The aim of the choice, as the planner has it."""
    node: str = ""
    """The only node that the job may use; empty: any."""

    @property
    def may_spread(self) -> bool:
        """Whether several nodes may serve the job."""
        return not self.node and self.request.max_nodes != 1


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """A node with GPUs, from the point of view of the job."""

    name: str
    cards: int
    """The number of GPUs that HAMi may hand out whole, and whose links are known."""
    free: tuple[int, ...]
    """The indices of the GPUs that no pod holds."""
    holders: tuple[str, ...]
    """The pods that hold the other GPUs, as ``namespace/name``."""
    offer: GpuSet | None
    """The best set of free GPUs for the job; ``None``: too few are free."""
    hindrance: str
    """Why the job cannot have this offer, in a clause about the node; empty: it could."""
    is_chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The answer to the question which GPUs a job would get."""

    plan: Plan | None
    """The GPUs that the job would get; None: it would get none."""
    reason: str
    """Why the job would get no GPUs; empty if it would get some."""
    nodes: tuple[NodeView, ...]
    """The chosen nodes, then the nodes with the most free GPUs."""
    more_nodes: int
    """The number of nodes with GPUs that are not among ``nodes``."""
    waiting: tuple[str, ...]
    """Pods that wait for their cards already, as ``namespace/name``, in the order of their turns."""
    topologies: Mapping[str, NodeTopology]
    """The topologies of the nodes of the plan."""


def survey(world: World, job: Job) -> Survey:
    """Returns the GPUs that a job would get now.

    A job that one node can serve gets the cards that the planner would give a pod with so many GPUs. Otherwise it gets
    GPUs of several nodes, from a plan over the free GPUs.

    Args:
        world: The pods and nodes of the cluster.
        job: The job.
    """
    return _Surveyor(world, job).answer()


def take(world: World, busy: Mapping[str, Sequence[str]]) -> None:
    """Marks free GPUs as in use.

    Args:
        world: The pods and nodes of the cluster.
        busy: The UUIDs of the GPUs, by the names of their nodes.
    """
    for node, uuids in busy.items():
        held = PodRecord(
            namespace="",
            name=f"{_BUSY}-{node}",
            uid="",
            node=node,
            is_bound=True,
            amounts={},
            held=tuple(uuids),
            held_on=node,
            group="",
            unbound=None,
        )
        world.pod_changed(held.key, None, held)


class _Surveyor:
    def __init__(self, world: World, job: Job) -> None:
        self._world, self._job = world, job
        self._pod = _pod()
        self._asked = _asked(job)
        self._chooser = Chooser(world, frozenset())

    def answer(self) -> Survey:
        found = self._plan()
        chosen = {share.node for share in found.shares} if isinstance(found, Plan) else set()
        nodes = sorted(self._nodes(), key=lambda node: (node.name not in chosen, -len(self._free(node)), node.name))
        nodes_of_plan = [self._world.nodes[name] for name in sorted(chosen)]
        return Survey(
            plan=found if isinstance(found, Plan) else None,
            reason=found.reason if isinstance(found, NoPlan) else "",
            nodes=tuple(self._view(node, chosen) for node in nodes[:MOST_NODES]),
            more_nodes=len(nodes[MOST_NODES:]),
            waiting=tuple(pod.key for pod in sorted(self._waiting(), key=_turn)),
            topologies={node.name: node.topology for node in nodes_of_plan if node.topology},
        )

    def _plan(self) -> Plan | NoPlan:
        job = self._job
        chosen = self._chooser.best(self._pod, self._asked, only={job.node} if job.node else None)
        is_possible = job.request.min_gpus_per_node <= job.request.count
        if chosen and is_possible:
            return _alone(chosen)
        if not job.may_spread:
            return NoPlan(f"no node has {job.request.count} free GPUs that the job could get")
        return plan(list(self._fleet()), job.request)

    def _fleet(self) -> Iterator[NodeFree]:
        """Yields the nodes on which the job may run, with all GPUs that are not free as busy."""
        for node in self._nodes():
            if node.topology and not self._chooser.refusal(node, self._pod):
                free = set(self._free(node))
                yield NodeFree(node.topology, frozenset(gpu.index for gpu in node.topology.gpus) - free)

    def _nodes(self) -> Iterator[PlaceNode]:
        """Yields the nodes that the job may use and whose GPUs HAMi has registered."""
        for node in self._world.nodes.values():
            if node.record and node.record.most and self._job.node in ("", node.name):
                yield node

    def _view(self, node: PlaceNode, chosen: set[str]) -> NodeView:
        free = self._free(node)
        stock, request = self._world.free_of(node.name), self._job.request
        offer = None
        if stock and len(free) >= request.count:
            offer = stock.build.choice(stock.free, request_of(self._asked))
        hindrance = "" if node.name in chosen else self._hindrance(node, free)
        if offer and not hindrance and node.name not in chosen:
            hindrance = "; ".join(unmet.evidence for unmet in offer.unmet)
        return NodeView(
            name=node.name,
            cards=len(node.uuids),
            free=free,
            holders=tuple(sorted(key.removeprefix("/") for key in self._holders(node, free))),
            offer=offer.chosen if offer else None,
            hindrance=hindrance,
            is_chosen=node.name in chosen,
        )

    def _holders(self, node: PlaceNode, free: tuple[int, ...]) -> set[str]:
        """Returns the keys of the pods that hold the cards which are not free."""
        taken = (uuid for index, uuid in node.uuids.items() if index not in free)
        return {key for uuid in taken for key in self._world.holders(uuid, node.name)}

    def _hindrance(self, node: PlaceNode, free: tuple[int, ...]) -> str:
        if not node.uuids:
            return "has no GPU that HAMi hands out whole and whose links are known"
        refusal = self._chooser.refusal(node, self._pod)
        if refusal or len(free) >= self._job.request.count:
            return refusal
        return "has too few free GPUs" if free else "is full"

    def _free(self, node: PlaceNode) -> tuple[int, ...]:
        stock = self._world.free_of(node.name)
        return tuple(sorted(stock.free)) if stock else ()

    def _waiting(self) -> Iterator[PodRecord]:
        return (pod for pod in self._world.unbound.values() if pod.unbound and pod.unbound.is_gated)


def _alone(chosen: Chosen) -> Plan:
    """Returns the plan that uses one node."""
    node, choice = chosen.node, chosen.choice
    if node.build is None:
        raise TypeError(f"node {node.name} has no topology")
    share = NodeShare(
        node=node.name,
        models=tuple(sorted(models_of(node.build.topology, choice.gpus))),
        choice=choice,
        path=node_path(choice.chosen, node.build.connections),
        network=node.build.network(choice),
    )
    return Plan(shares=(share,), ring_bandwidth=choice.chosen.ring_bandwidth)


def _turn(pod: PodRecord) -> tuple[int, str, str]:
    """Returns the sort key of a pod for its turn: the most urgent first, then the oldest, as far as the pods say it."""
    unbound = pod.unbound
    return (-unbound.priority, unbound.created, pod.uid) if unbound else (0, "", pod.uid)


def _asked(job: Job) -> CardsAsked:
    request = job.request
    return CardsAsked(
        count=request.count,
        linked=request.count > 1,
        constraints=request.constraints,
        policy=job.policy,
        node_policy=request.policy,
        objective=job.objective,
        one_numa_node=False,
        types=(),
        not_types=(),
    )


def _pod() -> PodRecord:
    """Returns a pod that asks its node for nothing but GPUs."""
    unbound = UnboundPod(
        pod=Pod(),
        version="",
        gates=(names.PLACE_GATE,),
        priority=0,
        created="",
        needs=node_needs(msgspec.Raw(), msgspec.Raw(), _TOLERATIONS),
        scheduled=NO_CONDITION,
        placed=NO_CONDITION,
        is_ending=False,
    )
    return PodRecord(
        namespace="",
        name=_JOB,
        uid="",
        node="",
        is_bound=False,
        amounts={},
        held=(),
        held_on="",
        group="",
        unbound=unbound,
    )
