"""What a job would get now, and what is in its way."""

from dataclasses import replace

import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20, l40s
from webhook.decisions.place.survey import MOST_NODES, Job, NodeView, Survey, survey, take
from webhook.hardware.topology.planning.plan import PlanRequest
from webhook.hardware.topology.selection.request import UNCONSTRAINED, Constraints, Policy
from webhook.insight.drawings.choices import survey_text
from webhook.words.choices import NodePolicy

LINKED = Constraints(require_nvlink=True)


def pairs(*more: str) -> PlacedCluster:
    """Nodes of four A100 with two bridged pairs: GPU0-GPU1 and GPU2-GPU3."""
    return PlacedCluster(*(named(a100_pcie_bridged(), name) for name in ("pairs", *more)))


def asked(
    cluster: PlacedCluster,
    gpus: int,
    *,
    node: str = "",
    policy: Policy = Policy.BEST_FIT,
    node_policy: NodePolicy = NodePolicy.BEST_FIT,
    constraints: Constraints = UNCONSTRAINED,
    max_nodes: int | None = None,
) -> Survey:
    request = PlanRequest(count=gpus, policy=node_policy, constraints=constraints, max_nodes=max_nodes)
    return survey(cluster.world, Job(request=request, node=node, policy=policy))


def shares(found: Survey) -> list[tuple[str, tuple[int, ...]]]:
    return [(share.node, share.choice.gpus) for share in found.plan.shares] if found.plan else []


def view(found: Survey, name: str) -> NodeView:
    (node,) = (node for node in found.nodes if node.name == name)
    return node


def hold(cluster: PlacedCluster, name: str, node: str, *cards: int) -> None:
    """A pod with these cards."""
    cluster.create(name, len(cards), gated=False)
    cluster.give(name, node, tuple(f"GPU-{node}.{card}" for card in cards))


@pytest.mark.parametrize("held", [(), (3,), (0,), (1, 2), (0, 1), (0, 2, 3)])
@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_a_job_would_get_what_the_planner_gives_to_a_pod(held: tuple[int, ...], gpus: int) -> None:
    cluster = pairs("twin")
    if held:
        hold(cluster, "first", "pairs", *held)
    found = asked(cluster, gpus)
    cluster.create("job", gpus)
    cluster.round()
    assert [f"{node}:{card}" for node, cards in shares(found) for card in cards] == cluster.cards("job")


def test_a_slice_on_one_card_leaves_the_linked_pair() -> None:
    cluster = pairs()
    hold(cluster, "slice", "pairs", 3)
    found = asked(cluster, 2)
    assert shares(found) == [("pairs", (0, 1))]
    node = view(found, "pairs")
    assert (node.cards, node.free, node.holders, node.is_chosen) == (4, (0, 1, 2), ("team/slice",), True)


def test_a_card_that_a_waiting_pod_was_pinned_to_is_not_free() -> None:
    cluster = pairs()
    cluster.create("pinned", 2)
    cluster.round()
    cluster.round()
    found = asked(cluster, 2)
    assert shares(found) == [("pairs", (2, 3))]
    assert view(found, "pairs").holders == ("team/pinned",)


def test_a_pod_that_names_cards_of_another_node_holds_none_of_them() -> None:
    cluster = pairs("twin")
    cluster.create("odd", 1, gated=False)
    cluster.give("odd", "twin", ("GPU-pairs.0",))
    node = view(asked(cluster, 2), "pairs")
    assert (node.free, node.holders) == ((0, 1, 2, 3), ())
    hold(cluster, "slice", "pairs", 0)
    node = view(asked(cluster, 2), "pairs")
    assert (node.free, node.holders) == ((1, 2, 3), ("team/slice",))


def test_of_a_full_node_it_is_said_who_holds_it() -> None:
    cluster = pairs()
    hold(cluster, "one", "pairs", 0, 1)
    hold(cluster, "two", "pairs", 2, 3)
    found = asked(cluster, 2, max_nodes=1)
    assert (found.plan, found.reason) == (None, "no node has 2 free GPUs that the job could get")
    node = view(found, "pairs")
    assert (node.free, node.holders, node.hindrance) == ((), ("team/one", "team/two"), "is full")
    assert asked(cluster, 2).reason == "asked for 2 GPUs, 0 are free on 1 node"


def test_a_job_that_no_node_has_room_for_gets_several() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"), named(l40s(), "c"))
    found = asked(cluster, 12)
    assert [node for node, _ in shares(found)] == ["a", "b"]
    assert asked(cluster, 12, max_nodes=1).plan is None
    assert asked(cluster, 12, node="a").plan is None
    assert [len(cards) for _, cards in shares(asked(cluster, 12))] == [6, 6]


def test_constraints_that_no_free_set_meets_are_told_of_the_nearest() -> None:
    cluster = pairs()
    hold(cluster, "one", "pairs", 0)
    hold(cluster, "two", "pairs", 3)
    found = asked(cluster, 2, constraints=LINKED)
    assert shares(found) == [("pairs", (1, 2))]
    assert found.plan is not None
    assert not found.plan.meets_constraints
    other = pairs("twin")
    hold(other, "one", "pairs", 0)
    hold(other, "two", "pairs", 3)
    found = asked(other, 2, constraints=LINKED)
    assert shares(found)[0][0] == "twin"
    assert view(found, "pairs").hindrance.startswith("no 2 free GPUs")


@pytest.mark.parametrize(
    ("spec", "hindrance"),
    [
        ({"unschedulable": True}, "is cordoned"),
        ({"taints": [{"key": "team", "effect": "NoSchedule", "value": "b"}]}, "has the taint team"),
        ({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"}]}, ""),
        ({}, ""),
    ],
)
def test_a_node_on_which_the_job_cannot_run_says_why(spec: dict[str, object], hindrance: str) -> None:
    cluster = PlacedCluster()
    cluster.add_node(named(a100_pcie_bridged(), "pairs"), **spec)
    found = asked(cluster, 2)
    assert (found.plan is None, view(found, "pairs").hindrance) == (bool(hindrance), hindrance)


def test_a_node_whose_links_are_not_known_says_so() -> None:
    cluster = pairs()
    cluster.topologies["pairs"] = None
    cluster.tell_node("pairs")
    found = asked(cluster, 2)
    assert found.plan is None
    assert view(found, "pairs").hindrance == "has no GPU that HAMi hands out whole and whose links are known"


def test_only_the_node_that_is_named_counts() -> None:
    cluster = pairs("twin")
    hold(cluster, "slice", "pairs", 3)
    found = asked(cluster, 2, node="twin")
    assert ([node for node, _ in shares(found)], [node.name for node in found.nodes]) == (["twin"], ["twin"])


def test_cards_can_be_taken_for_in_use() -> None:
    cluster = pairs()
    take(cluster.world, {"pairs": ["GPU-pairs.0"]})
    found = asked(cluster, 2)
    assert shares(found) == [("pairs", (2, 3))]
    assert view(found, "pairs").holders == ("busy-pairs",)


def test_pods_that_wait_are_named_in_the_order_of_their_turns() -> None:
    cluster = pairs()
    cluster.create("late", 8)
    cluster.now += 10
    cluster.create("urgent", 8, priority=10)
    cluster.create("done", 1, gated=False)
    assert asked(cluster, 2).waiting == ("team/urgent", "team/late")


def test_nodes_beyond_those_that_are_told_of_are_counted() -> None:
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), f"node-{number:02}") for number in range(MOST_NODES + 3)))
    hold(cluster, "one", "node-00", 0)
    found = asked(cluster, 3)
    assert (len(found.nodes), found.more_nodes) == (MOST_NODES, 3)
    assert found.nodes[0].is_chosen
    assert survey_text(found, Constraints()).plain.endswith("\n\nand 3 more nodes")


def test_the_policy_for_cards_and_for_nodes_holds() -> None:
    cluster = PlacedCluster(named(l40s(), "a"), named(l40s(), "b"))
    hold(cluster, "one", "b", 0)
    assert shares(asked(cluster, 2))[0][0] == "b"
    assert shares(asked(cluster, 2, node_policy=NodePolicy.SPREAD))[0][0] == "a"
    assert shares(asked(cluster, 2, policy=Policy.SPREAD))[0][1] != shares(asked(cluster, 2))[0][1]


def test_names_of_the_cluster_move_no_terminal() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"), named(a100_pcie_bridged(), "b"))
    hold(cluster, "pod\x9b2J", "a", 3)
    cluster.create("late\x07", 8)
    for count in (2, 7):
        found = asked(cluster, count, max_nodes=2)
        assert found.plan
        found = replace(
            found,
            nodes=tuple(replace(node, name=f"{node.name}\x1b[2J") for node in found.nodes),
            plan=replace(found.plan, shares=tuple(replace(one, node=f"{one.node}\u202e") for one in found.plan.shares)),
        )
        text = survey_text(found, Constraints()).plain
        assert all(line.isprintable() for line in text.split("\n"))
        said = (r"a\x1b[2J", r"a\u202e", r"team/pod\x9b2J", r"team/late\x07")
        assert all(name in text for name in said)


def test_in_words_it_is_a_table() -> None:
    cluster = PlacedCluster(named(a100_pcie_bridged(), "pairs"), named(replace(h20(), nics=()), "board"))
    hold(cluster, "slice", "pairs", 3)
    hold(cluster, "big", "board", 0, 1, 2, 3, 4, 5)
    cluster.create("waiting", 8)
    text = survey_text(asked(cluster, 2, node="pairs"), Constraints()).plain
    assert (
        text
        == """\
A job of 2 GPUs gets GPU0 and GPU1 of node pairs (NVIDIA A100 80GB PCIe).
NVLink: every pair has NVLinks of its own.
  weakest pair 240.0 GB/s (GPU0-GPU1, NV12)
  mean         240.0 GB/s
  ring         240.0 GB/s (0-1-0), estimated
  all-reduce   about 240.0 GB/s
  NUMA         0

No pair of GPUs of this node is faster than their weakest pair.
No 2 GPUs of this node have faster rings, even if all are free.

1 pod waits for cards already and would come before it at the same priority: team/waiting.

node   free GPUs    the best for this job    held by
pairs  3 of 4: 0-2  0, 1 (NVLink, 240 GB/s)  team/slice  chosen"""
    )
    text = survey_text(asked(cluster, 3, max_nodes=1), Constraints()).plain
    table = text.split("\n\n")[-1].splitlines()
    assert table[1:] == [
        "pairs  3 of 4: 0-2   0-2 (NVLink-partial, 10 GB/s)  team/slice  chosen",
        "board  2 of 8: 6, 7                                 team/big    has too few free GPUs",
    ]


def test_without_gpus_in_the_cluster_it_says_so() -> None:
    found = asked(PlacedCluster(), 2)
    assert found.plan is None
    assert survey_text(found, Constraints()).plain == "No node of this cluster has GPUs that HAMi has registered."
