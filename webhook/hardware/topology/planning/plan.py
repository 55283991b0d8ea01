"""The plan of a job that may need several nodes: the nodes and their GPUs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from webhook.hardware.topology.planning.fleet import Member, fleet
from webhook.hardware.topology.planning.network import NodePath, node_path
from webhook.hardware.topology.planning.placement import (
    Limits,
    Placement,
    Seat,
    as_good,
    best_fit,
    carried,
    pack,
    rooms,
    spread,
)
from webhook.hardware.topology.ring import all_reduce_bandwidth
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.selection.request import (
    UNCONSTRAINED,
    Constraints,
    NodeFree,
    check_count,
    check_number,
)
from webhook.words.choices import NodePolicy
from webhook.words.listing import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """A request for GPUs of one or several nodes that will work together.

    Raises:
        FormatError: a count is below 1, or the bandwidth is negative or no number.
    """

    count: int
    policy: NodePolicy = NodePolicy.BEST_FIT
    constraints: Constraints = UNCONSTRAINED
    """The constraints for the set on each node."""
    max_nodes: int | None = None
    min_gpus_per_node: int = 1
    network_bandwidth: float | None = None
    """GB/s per direction between a node and others; None for the bandwidth of the NICs near the chosen GPUs."""

    def __post_init__(self) -> None:
        check_count("count", self.count)
        check_count("max-nodes", 1 if self.max_nodes is None else self.max_nodes)
        check_count("min-gpus-per-node", self.min_gpus_per_node)
        if self.network_bandwidth is not None:
            check_number("network-bandwidth", self.network_bandwidth, "GB/s per direction, 0 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShare:
    """The GPUs of one node in a plan."""

    node: str
    models: tuple[str, ...]
    """The models of the GPUs, as far as they are known, sorted."""
    choice: Choice
    path: NodePath
    """The way of the job's ring through the node."""
    network: float
    """GB/s per direction between the chosen GPUs and other nodes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The nodes and GPUs of a job."""

    shares: tuple[NodeShare, ...]
    """The shares in the order of the ring over the nodes: those of one NVLink fabric together, then by name."""
    ring_bandwidth: float
    """Estimated GB/s that each GPU can pass on in rings: the least of all nodes and their networks; 0 for one GPU."""

    @property
    def count(self) -> int:
        """The number of GPUs on all nodes."""
        return sum(len(share.choice.gpus) for share in self.shares)

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all GPUs, as far as they are known, sorted."""
        return tuple(sorted({model for share in self.shares for model in share.models}))

    @property
    def all_reduce(self) -> float:
        """Estimated GB/s of reduced data; 0 for one GPU."""
        return all_reduce_bandwidth(self.ring_bandwidth, self.count)

    @property
    def meets_constraints(self) -> bool:
        """Whether the sets on all nodes meet the constraints."""
        return not any(share.choice.unmet for share in self.shares)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """The answer if the free GPUs do not suffice."""

    reason: str


_RANK: Mapping[NodePolicy, Callable[[Sequence[Seat], Limits], Placement]] = {
    NodePolicy.PACK: pack,
    NodePolicy.SPREAD: spread,
}


def plan(nodes: Iterable[NodeFree], request: PlanRequest) -> Plan | NoPlan:
    """Chooses nodes and GPUs.

    Nodes whose GPUs meet the constraints are tried first, each with at most as many GPUs as meet them. If these nodes
    do not suffice, constraints are given up where necessary; the choice on each node says so. The GPUs of each model
    are tried alone and all together, so that of equally good placements one with a single model is found.

    Args:
        nodes: The nodes, with different names.
        request: The request.

    Raises:
        FormatError: two nodes have the same name.
    """
    members = fleet(nodes, request.constraints, request.network_bandwidth)
    limits = Limits(request.count, request.min_gpus_per_node, request.max_nodes or max(len(members), 1))
    pools = _pools(members)
    strict = _seated(pools, limits, strict=True) if request.constraints.asked else []
    placement = _place(strict, limits, request.policy)
    placement = placement or _place(_seated(pools, limits, strict=False), limits, request.policy)
    if not placement:
        return NoPlan(_reason(members, limits))
    shares = sorted(placement, key=lambda given: (given[0].member.fabric, given[0].member.name))
    return Plan(
        shares=tuple(_share(seat.member, count) for seat, count in shares),
        ring_bandwidth=carried(placement),
    )


def _pools(members: Sequence[Member]) -> list[Sequence[Member]]:
    """Returns the nodes with the free GPUs of one model, for each model; in the end the nodes with all free GPUs."""
    having: dict[str, list[Member]] = {}
    for member in members:
        for model in member.models:
            having.setdefault(model, []).append(member)
    by_model = [[member.of_model(model) for member in having[model]] for model in sorted(having)]
    return [*by_model, members] if len(having) > 1 else [members]


def _seated(pools: Sequence[Sequence[Member]], limits: Limits, *, strict: bool) -> list[list[Seat]]:
    return [_seats(members, limits, strict=strict) for members in pools]


def _place(pools: Sequence[Sequence[Seat]], limits: Limits, policy: NodePolicy) -> Placement:
    """Returns the placement by the policy. ``pack`` and ``spread`` keep to the model of ``best-fit``, if it has one."""
    best = best_fit(pools, limits)
    if not best or policy not in _RANK:
        return best
    seats = next(pool for pool in pools if {seat for seat, _ in best} <= set(pool))
    return _RANK[policy](as_good(seats, best), limits)


def _seats(members: Sequence[Member], limits: Limits, *, strict: bool) -> list[Seat]:
    """Returns the nodes with room for the least number of GPUs; if strict, only for GPUs that meet the constraints."""
    seats = []
    for member in members:
        sizes = range(len(member.free), limits.least - 1, -1)
        size = next((size for size in sizes if not strict or member.meets(size)), 0)
        if size:
            seats.append(Seat(member, size))
    return seats


def _share(member: Member, count: int) -> NodeShare:
    share = member.share(count)
    return NodeShare(
        node=member.name,
        models=tuple(sorted(share.models)),
        choice=share.choice,
        path=node_path(share.choice.chosen, member.build.connections),
        network=share.network,
    )


def _reason(members: Sequence[Member], limits: Limits) -> str:
    """Returns why there is no plan.

    Too few GPUs are free: at all, or on nodes with the least number, or on the most nodes. Or no number of nodes fits.
    """
    asked = f"asked for {counted(limits.count, 'GPU')}"
    free = sum(len(member.free) for member in members)
    if free < limits.count:
        return f"{asked}, {free} {'is' if free == 1 else 'are'} free on {counted(len(members), 'node')}"
    asked += f", {limits.least} or more on each node" if limits.least > 1 else ""
    most = rooms(_seats(members, limits, strict=False))
    if not most or most[-1] < limits.count:
        return f"{asked}: nodes with so many have {most[-1] if most else 0} of {free}"
    if most[: limits.nodes][-1] < limits.count:
        return (
            f"{asked}, on at most {counted(limits.nodes, 'node')}: only {most[: limits.nodes][-1]} are free on so few"
        )
    return f"{asked}: no number of nodes gives just so many"
