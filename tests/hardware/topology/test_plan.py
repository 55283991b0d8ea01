"""Which nodes take part where one may not suffice, and how the ring of a job goes over them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_a100,
    hgx_h100,
    l40s,
    with_switch_links,
)
from tests.hardware.topology.small_nodes import small_nodes
from webhook.hardware.topology.model import Fabric, MigMode, NodeTopology
from webhook.hardware.topology.planning.plan import NoPlan, Plan, PlanRequest, plan
from webhook.hardware.topology.selection.request import Constraint, Constraints, NodeFree
from webhook.hardware.topology.sets import LINK_VALUES
from webhook.words.choices import NodePolicy
from webhook.words.errors import FormatError

PACK, SPREAD, BEST_FIT = NodePolicy.PACK, NodePolicy.SPREAD, NodePolicy.BEST_FIT


def node(name: str, topology: NodeTopology, *busy: int) -> NodeFree:
    return NodeFree(replace(topology, node=name), frozenset(busy))


def planned(nodes: Sequence[NodeFree], count: int, **asked: Any) -> Plan:
    found = plan(nodes, PlanRequest(count=count, **asked))
    assert isinstance(found, Plan)
    return found


def refused(nodes: Sequence[NodeFree], count: int, **asked: Any) -> str:
    found = plan(nodes, PlanRequest(count=count, **asked))
    assert isinstance(found, NoPlan)
    return found.reason


def sizes(found: Plan) -> dict[str, int]:
    return {share.node: len(share.choice.gpus) for share in found.shares}


MIXED = [node("a", hgx_h100()), node("b", hgx_h100(), 0, 1, 2, 3), node("c", hgx_h100(), 6, 7)]
"""Eight, four and six free GPUs."""


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (4, {"b": 4}),
        (5, {"c": 5}),
        (10, {"a": 8, "b": 2}),
        (13, {"a": 8, "c": 5}),
    ],
)
def test_pack_takes_the_fewest_nodes_and_those_with_least_to_spare(count: int, expected: dict[str, int]) -> None:
    assert sizes(planned(MIXED, count, policy=PACK)) == expected


@pytest.mark.parametrize(
    ("count", "least", "expected"),
    [(10, 4, {"a": 6, "b": 4}), (11, 3, {"a": 8, "b": 3}), (9, 2, {"a": 7, "b": 2}), (4, 4, {"b": 4})],
)
def test_pack_gives_no_node_less_than_each_has_to_give(count: int, least: int, expected: dict[str, int]) -> None:
    assert sizes(planned(MIXED, count, policy=PACK, min_gpus_per_node=least)) == expected


@pytest.mark.parametrize(
    ("count", "asked", "expected"),
    [
        (6, {}, {"a": 2, "b": 2, "c": 2}),
        (7, {}, {"a": 3, "b": 2, "c": 2}),
        (6, {"max_nodes": 2}, {"a": 3, "c": 3}),
        (7, {"min_gpus_per_node": 3}, {"a": 4, "c": 3}),
        (3, {"max_nodes": 1}, {"a": 3}),
    ],
)
def test_spread_takes_many_nodes_and_even_shares(count: int, asked: dict[str, Any], expected: dict[str, int]) -> None:
    assert sizes(planned(MIXED, count, policy=SPREAD, **asked)) == expected


FOUR_ON_PCIE, NVSWITCHED = node("a", a100_pcie_bridged()), node("b", hgx_h100())
"""Four cards whose weakest pair has 10 GB/s, the fewest to spare; and eight GPUs with 370.8."""


def test_without_a_policy_the_best_set_is_taken() -> None:
    assert PlanRequest(count=4).policy is BEST_FIT
    assert sizes(planned([FOUR_ON_PCIE, NVSWITCHED], 4)) == {"b": 4}


def test_policies_rank_within_a_class_and_bandwidth() -> None:
    """On c four GPUs are free, on b eight; both are better than a."""
    nodes = [FOUR_ON_PCIE, NVSWITCHED, node("c", hgx_h100(), 0, 1, 2, 3)]
    assert sizes(planned(nodes, 4, policy=PACK)) == {"c": 4}
    assert sizes(planned(nodes, 4, policy=SPREAD)) == {"b": 2, "c": 2}


def test_nodes_of_a_worse_class_are_taken_where_the_better_ones_do_not_suffice() -> None:
    nodes = [FOUR_ON_PCIE, NVSWITCHED]
    assert [sizes(planned(nodes, 12, policy=policy)) for policy in NodePolicy] == [{"a": 4, "b": 8}] * 3


UNLIKE = [
    node("a-v100", replace(dgx1_v100(), nics=())),
    node("b-l40s", l40s()),
    node("c-h100", replace(hgx_h100(), nics=())),
    node("d-h100", replace(hgx_h100(), nics=())),
]
"""Idle nodes without NICs, so that the network limits every ring over several of them to the same bandwidth."""


@pytest.mark.parametrize("policy", list(NodePolicy))
def test_of_rings_that_the_network_makes_equal_the_links_decide_before_the_names(policy: NodePolicy) -> None:
    found = planned(UNLIKE, 16, policy=policy)
    assert sizes(found) == {"c-h100": 8, "d-h100": 8}
    assert found.models == ("NVIDIA H100 80GB HBM3",)


def test_worse_links_are_taken_where_a_faster_ring_needs_them() -> None:
    """The nodes with NVSwitches have no NICs, so a ring over them has 1.25 GB/s; the others have 48."""
    nodes = [node(name, dgx1_v100()) for name in "ab"] + UNLIKE[2:]
    assert sizes(planned(nodes, 16)) == {"a": 8, "b": 8}


@pytest.mark.parametrize("policy", list(NodePolicy))
def test_the_same_links_are_better_of_one_model(policy: NodePolicy) -> None:
    """H20 and H100 have equally fast NVSwitches."""
    nodes = [node("a", h20()), node("b", hgx_h100()), node("c", h20()), node("d", hgx_h100(), 0)]
    found = planned(nodes, 16, policy=policy, network_bandwidth=25)
    assert sizes(found) == {"a": 8, "c": 8}
    assert found.models == ("NVIDIA H20",)
    found = planned(nodes, 9, policy=BEST_FIT, network_bandwidth=25, max_nodes=2)
    assert found.models == ("NVIDIA H100 80GB HBM3",)


@pytest.mark.parametrize("policy", list(NodePolicy))
def test_models_are_mixed_rather_than_links_worse(policy: NodePolicy) -> None:
    nodes = [node("a", dgx1_v100()), node("b", dgx1_v100()), node("c", h20()), node("d", hgx_h100())]
    found = planned(nodes, 16, policy=policy, network_bandwidth=25)
    assert sizes(found) == {"c": 8, "d": 8}
    assert found.models == ("NVIDIA H100 80GB HBM3", "NVIDIA H20")


def test_a_node_with_two_models_gives_those_of_one() -> None:
    mixed = hgx_h100()
    for index in (0, 2, 4):
        mixed = bent(mixed, index, name="NVIDIA H200")
    (share,) = planned([node("a", mixed)], 3).shares
    assert (share.choice.gpus, share.models) == ((0, 2, 4), ("NVIDIA H200",))
    (share,) = planned([node("a", mixed)], 4).shares
    assert share.models == ("NVIDIA H100 80GB HBM3",)
    (share,) = planned([node("a", mixed)], 6).shares
    assert share.models == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")


def test_one_gpu_is_taken_from_the_node_that_has_least_to_spare() -> None:
    assert sizes(planned([FOUR_ON_PCIE, NVSWITCHED], 1)) == {"a": 1}


def test_best_fit_stays_on_one_node_where_the_network_is_slower() -> None:
    nodes = [node(name, hgx_h100()) for name in "ab"]
    found = planned(nodes, 8, policy=BEST_FIT)
    assert sizes(found) == {"a": 8}
    assert found.ring_bandwidth == 370.8


def test_best_fit_leaves_the_node_where_the_network_is_faster() -> None:
    """Eight L40S of a node reach each other over two sockets at 22 GB/s, four of one socket at 24."""
    nodes = [node(name, l40s()) for name in "ab"]
    found = planned(nodes, 8, policy=BEST_FIT, network_bandwidth=50)
    assert sizes(found) == {"a": 4, "b": 4}
    assert found.ring_bandwidth == 24.0
    assert sizes(planned(nodes, 4, policy=BEST_FIT, network_bandwidth=50)) == {"a": 4}


def test_best_fit_shares_out_evenly_because_each_gpu_brings_its_nic() -> None:
    """Nine GPUs on two nodes: four GPUs and their NICs have 192 GB/s, one would have 48."""
    found = planned([node(name, hgx_h100()) for name in "ab"], 9, policy=BEST_FIT)
    assert sizes(found) == {"a": 5, "b": 4}
    assert found.ring_bandwidth == 192.0


def test_best_fit_takes_the_larger_shares_where_they_carry_enough() -> None:
    """On a, GPU 7 has few links: eight GPUs there would hold up all others."""
    nodes = [node("a", with_switch_links(hgx_h100(), 7, 4)), node("b", hgx_h100())]
    assert sizes(planned(nodes, 15, policy=BEST_FIT)) == {"a": 7, "b": 8}


@pytest.mark.parametrize("policy", list(NodePolicy))
def test_of_equal_nodes_the_one_whose_links_are_whole_is_taken(policy: NodePolicy) -> None:
    nodes = [node("a", with_switch_links(hgx_h100(), 2, 10)), node("b", hgx_h100())]
    assert sizes(planned(nodes, 8, policy=policy, max_nodes=1)) == {"b": 8}


@pytest.mark.parametrize("policy", list(NodePolicy))
def test_of_equal_nodes_the_first_names_are_taken(policy: NodePolicy) -> None:
    nodes = [node(name, hgx_h100()) for name in ("n3", "n1", "n2", "n4")]
    assert list(sizes(planned(nodes, 16, policy=policy, max_nodes=2))) == ["n1", "n2"]


def test_the_ring_carries_what_the_weakest_node_or_network_does() -> None:
    nodes = [node(name, hgx_h100()) for name in "ab"]
    found = planned(nodes, 16)
    assert found.ring_bandwidth == 370.8
    assert found.all_reduce == pytest.approx(197.76)  # x 16 / 30
    assert planned(nodes, 16, network_bandwidth=100).ring_bandwidth == 100
    assert planned(nodes, 8, network_bandwidth=100).ring_bandwidth == 370.8
    weak = [nodes[0], node("b", with_switch_links(hgx_h100(), 0, 10))]
    assert planned(weak, 16).ring_bandwidth == pytest.approx(206.0)


def test_a_single_gpu_on_a_node_holds_up_no_ring() -> None:
    nodes = [node(name, hgx_h100(), *range(1, 8)) for name in "ab"]
    assert planned(nodes, 2, network_bandwidth=400).ring_bandwidth == 400


@pytest.mark.parametrize(
    ("topology", "count", "network"),
    [
        (hgx_h100(), 8, 384.0),  # 400 Gbit/s are 50 GB/s, of which PCIe leaves 48; eight NICs
        (hgx_h100(), 1, 48.0),
        (hgx_a100(), 8, 96.0),  # four NICs of 200 Gbit/s, PCIe leaves 24 of 25
        (hgx_a100(), 2, 24.0),  # both GPUs share one
        (dgx1_v100(), 4, 24.0),  # two NICs of 100 Gbit/s, PCIe leaves 12
        (h20(), 8, 120.0),
        (l40s(), 8, 1.25),  # no NIC is known
    ],
)
def test_the_network_is_that_of_the_nics_near_the_gpus(topology: NodeTopology, count: int, network: float) -> None:
    assert planned([node("a", topology)], count).shares[0].network == network


def test_nics_carry_no_more_than_the_gpus_can_send() -> None:
    """Four NICs are equally far from the only GPU, whose PCIe link has 48 GB/s."""
    topology = hgx_h100()
    far = tuple(replace(nic, parent="", root="0000:ff") for nic in topology.nics)
    assert planned([node("a", replace(topology, nics=far))], 1).shares[0].network == 48.0


def test_nics_of_unknown_speed_count_as_ten_gigabit() -> None:
    topology = hgx_h100()
    unknown = replace(topology, nics=tuple(replace(nic, speed_gbps=0) for nic in topology.nics))
    assert planned([node("a", unknown)], 8).shares[0].network == 1.25


def test_the_ring_enters_and_leaves_a_node_near_nics() -> None:
    path = planned([node("a", hgx_h100())], 8).shares[0].path
    assert path.gpus == (0, 1, 2, 3, 4, 5, 6, 7)
    assert (path.entry_nic, path.exit_nic) == ("mlx5_0", "mlx5_7")


def test_the_ring_is_cut_open_where_both_ends_have_a_nic() -> None:
    """Only GPU 2 and 5 have a NIC beside them."""
    topology = hgx_h100()
    topology = replace(topology, nics=(topology.nics[2], topology.nics[5]))
    topology = replace(topology, nics=tuple(replace(nic, distance=()) for nic in topology.nics))
    gpus = tuple(replace(gpu, distance=()) for gpu in topology.gpus)
    path = planned([node("a", replace(topology, gpus=gpus), 3, 4)], 6).shares[0].path
    assert path.gpus == (5, 6, 7, 0, 1, 2)
    assert (path.entry_nic, path.exit_nic) == ("mlx5_5", "mlx5_2")


def test_the_ring_is_cut_open_at_its_slowest_hop() -> None:
    """All four are beside a NIC; 0 and 1 have one link, the other hops of the ring have two."""
    path = planned([node("a", dgx1_v100())], 4).shares[0].path
    assert path.gpus == (1, 2, 3, 0)
    assert (path.entry_nic, path.exit_nic) == ("mlx5_0", "mlx5_0")


def test_a_node_without_nics_names_none() -> None:
    path = planned([node("a", l40s())], 1).shares[0].path
    assert path.gpus == (0,)
    assert (path.entry_nic, path.exit_nic) == ("", "")


def test_nodes_of_one_nvlink_fabric_follow_each_other() -> None:
    def tray(name: str, cluster: str) -> NodeFree:
        fabric = Fabric(state="completed", cluster_uuid=cluster, clique_id=1)
        return node(name, replace(gb200_tray(), fabric=fabric))

    nodes = [tray("t1", "rack-b"), tray("t2", "rack-a"), tray("t3", "rack-b"), tray("t4", "rack-a")]
    assert list(sizes(planned(nodes, 16))) == ["t2", "t4", "t1", "t3"]


def test_constraints_hold_on_each_node() -> None:
    """Four GPUs of each node are on one NUMA node, so eight take two nodes."""
    nodes = [node(name, hgx_h100()) for name in "ab"]
    found = planned(nodes, 8, constraints=Constraints(same_numa=True, require_nvlink=True))
    assert sizes(found) == {"a": 4, "b": 4}
    assert found.meets_constraints


def test_nodes_that_cannot_meet_the_constraints_are_passed_over() -> None:
    nodes = [node("a", l40s()), node("b", hgx_h100())]
    assert sizes(planned(nodes, 4, constraints=Constraints(require_nvlink=True))) == {"b": 4}


def test_constraints_are_given_up_where_no_nodes_meet_them() -> None:
    found = planned([node("a", hgx_h100())], 8, constraints=Constraints(same_numa=True))
    assert sizes(found) == {"a": 8}
    assert not found.meets_constraints
    (given_up,) = found.shares[0].choice.unmet
    assert given_up.constraint is Constraint.SAME_NUMA
    assert given_up.evidence == "no 8 free GPUs on one NUMA node: NUMA 0 has 4 free, NUMA 1 has 4"


def test_gpus_in_use_may_be_named_by_uuid() -> None:
    topology = hgx_h100()
    nodes = [NodeFree(topology, frozenset(gpu.uuid for gpu in topology.gpus[:4]))]
    assert planned(nodes, 4).shares[0].choice.gpus == (4, 5, 6, 7)


@pytest.mark.parametrize("policy", list(NodePolicy))
@pytest.mark.parametrize(
    ("count", "asked", "reason"),
    [
        (19, {}, "asked for 19 GPUs, 18 are free on 3 nodes"),
        (15, {"max_nodes": 2}, "asked for 15 GPUs, on at most 2 nodes: only 14 are free on so few"),
        (9, {"max_nodes": 1}, "asked for 9 GPUs, on at most 1 node: only 8 are free on so few"),
        (16, {"min_gpus_per_node": 5}, "asked for 16 GPUs, 5 or more on each node: nodes with so many have 14 of 18"),
        (9, {"min_gpus_per_node": 9}, "asked for 9 GPUs, 9 or more on each node: nodes with so many have 0 of 18"),
        (
            9,
            {"min_gpus_per_node": 5},
            "asked for 9 GPUs, 5 or more on each node: no number of nodes gives just so many",
        ),
        (
            2,
            {"min_gpus_per_node": 3},
            "asked for 2 GPUs, 3 or more on each node: no number of nodes gives just so many",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    policy: NodePolicy, count: int, asked: dict[str, int], reason: str
) -> None:
    assert refused(MIXED, count, policy=policy, **asked) == reason


def test_without_nodes_nothing_is_free() -> None:
    assert refused([], 1) == "asked for 1 GPU, 0 are free on 0 nodes"


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(FormatError, match=r'^nodes of a plan: expected each node once, found "a twice"$'):
        plan([node("a", hgx_h100()), node("a", l40s())], PlanRequest(count=1))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"count": 0}, '^count: expected 1 or more, found "0"$'),
        ({"max_nodes": 0}, '^max-nodes: expected 1 or more, found "0"$'),
        ({"min_gpus_per_node": -1}, '^min-gpus-per-node: expected 1 or more, found "-1"$'),
        (
            {"network_bandwidth": float("nan")},
            '^network-bandwidth: expected GB/s per direction, 0 or more, found "nan"$',
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        PlanRequest(**({"count": 1} | asked))


@st.composite
def fleets(draw: st.DrawFn) -> list[NodeFree]:
    """Up to four nodes, some of them built alike."""
    builds = [draw(small_nodes(name=name, most=4)) for name in "xy"]
    names = draw(st.permutations("abcd"))
    return [
        node(name, draw(st.sampled_from(builds)), *draw(st.frozensets(st.integers(0, 3), max_size=2)))
        for name in names[: draw(st.integers(1, 4))]
    ]


plan_requests = st.builds(
    PlanRequest,
    count=st.integers(1, 10),
    policy=st.sampled_from(NodePolicy),
    constraints=st.builds(Constraints, require_nvlink=st.booleans(), same_numa=st.booleans()),
    max_nodes=st.none() | st.integers(1, 4),
    min_gpus_per_node=st.integers(1, 3),
    network_bandwidth=st.none() | st.sampled_from([0.0, 5.0, 30.0]),
)


def free_gpus(nodes: Sequence[NodeFree]) -> dict[str, set[int]]:
    return {
        node.topology.node: {
            gpu.index
            for gpu in node.topology.gpus
            if gpu.mig_mode is not MigMode.ENABLED and gpu.index not in node.busy
        }
        for node in nodes
    }


def ways(nodes: Sequence[NodeFree], request: PlanRequest) -> list[list[int]]:
    """All shares that keep to the limits, by node, 0 for none."""
    least, most = request.min_gpus_per_node, request.max_nodes or len(nodes)
    rooms = [[0, *range(least, len(free) + 1)] for free in free_gpus(nodes).values()]
    found = [list(shares) for shares in product(*rooms) if sum(shares) == request.count]
    return [shares for shares in found if sum(1 for share in shares if share) <= most]


@given(fleets(), plan_requests)
def test_a_plan_keeps_to_its_limits_and_exists_if_one_can(nodes: list[NodeFree], request: PlanRequest) -> None:
    found, possible = plan(nodes, request), ways(nodes, request)
    if isinstance(found, NoPlan):
        assert not possible
        return
    given_by = sizes(found)
    assert [given_by.get(name, 0) for name in free_gpus(nodes)] in possible
    assert all(set(share.choice.gpus) <= free_gpus(nodes)[share.node] for share in found.shares)
    assert all(sorted(share.path.gpus) == list(share.choice.gpus) for share in found.shares)


@given(fleets(), plan_requests)
def test_of_equal_nodes_pack_takes_the_fewest_and_spread_the_most(nodes: list[NodeFree], request: PlanRequest) -> None:
    request, nodes = replace(request, constraints=Constraints()), alike(nodes)
    numbers = [sum(1 for share in shares if share) for shares in ways(nodes, request)]
    if numbers:
        assert len(planned_by(PACK, nodes, request).shares) == min(numbers)
        assert len(planned_by(SPREAD, nodes, request).shares) == max(numbers)


@given(fleets(), plan_requests)
def test_of_equal_nodes_spread_takes_shares_as_even_as_they_can_be(nodes: list[NodeFree], request: PlanRequest) -> None:
    request, nodes = replace(request, constraints=Constraints()), alike(nodes)
    possible = ways(nodes, request)
    if possible:
        found = planned_by(SPREAD, nodes, request)
        shares = [sorted(filter(None, shares), reverse=True) for shares in possible]
        assert sorted(sizes(found).values(), reverse=True) == min(
            given for given in shares if len(given) == len(found.shares)
        )


@given(fleets(), plan_requests)
def test_no_ring_over_several_nodes_carries_more_than_that_of_best_fit_or_of_any_node_alone(
    nodes: list[NodeFree], request: PlanRequest
) -> None:
    request = replace(request, constraints=Constraints())
    if ways(nodes, request):
        alone = [plan([node], replace(request, policy=BEST_FIT)) for node in nodes]
        most = max(
            planned_by(BEST_FIT, nodes, request).ring_bandwidth,
            *(found.ring_bandwidth for found in alone if isinstance(found, Plan)),
            0.0,
        )
        for policy in (PACK, SPREAD):
            found = planned_by(policy, nodes, request)
            assert len(found.shares) == 1 or found.ring_bandwidth <= most


@given(fleets(), plan_requests, st.sampled_from(NodePolicy))
def test_on_one_node_every_policy_takes_the_best_class_and_then_the_best_weakest_pair(
    nodes: list[NodeFree], request: PlanRequest, policy: NodePolicy
) -> None:
    request = replace(request, constraints=Constraints(), max_nodes=1)
    if ways(nodes, request):
        alone = [plan([node], request) for node in nodes]
        assert grade(planned_by(policy, nodes, request)) == max(grade(one) for one in alone if isinstance(one, Plan))


def alike(nodes: Sequence[NodeFree]) -> list[NodeFree]:
    """As many nodes, all like the first and idle."""
    return [node(one.topology.node, nodes[0].topology) for one in nodes]


def grade(found: Plan) -> tuple[float, float]:
    """Of a plan on one node."""
    (share,) = found.shares
    return LINK_VALUES[share.choice.chosen.link], round(share.choice.chosen.bandwidth, 3)


@given(fleets(), plan_requests)
def test_the_order_of_the_nodes_does_not_matter(nodes: list[NodeFree], request: PlanRequest) -> None:
    assert plan(nodes, request) == plan(nodes[::-1], request)


def planned_by(policy: NodePolicy, nodes: Sequence[NodeFree], request: PlanRequest) -> Plan:
    found = plan(nodes, replace(request, policy=policy))
    assert isinstance(found, Plan)
    return found
