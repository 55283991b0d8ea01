"""Which node and which cards are best: each rule with nodes on which only that rule makes the difference."""

from collections.abc import Mapping

import pytest

from tests.decisions.place.cluster import Object, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, bent, h20, l40s
from webhook.hardware.topology.model import MigMode, NodeTopology


def free(**nodes: tuple[NodeTopology, str]) -> PlacedCluster:
    """Nodes of which only cards with these indices are free."""
    return aiming("bandwidth", nodes)


def aiming(objective: str, nodes: Mapping[str, tuple[NodeTopology, str]]) -> PlacedCluster:
    """The same, with an objective of the planner."""
    machines = (named(machine, node) for node, (machine, _) in nodes.items())
    cluster = PlacedCluster(*machines, settings={"objective": objective})
    for node, (machine, indices) in nodes.items():
        for gpu in machine.gpus:
            if str(gpu.index) not in indices:
                holder = f"holds-{node}-{gpu.index}"
                cluster.create(holder, 1, gated=False)
                cluster.give(holder, node, (f"GPU-{node}.{gpu.index}",))
        cluster.world.refresh()  # the planner has looked, and knows the nodes in this order
    return cluster


def chosen(
    cluster: PlacedCluster,
    *counts: int,
    options: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> list[str]:
    """The cards of a pod."""
    cluster.create("train", *counts, options=options, annotations=annotations)
    cluster.round()
    return cluster.cards("train")


@pytest.mark.parametrize(
    ("policy", "counts", "node"),
    [
        # Of seven, five are left: others lose no four. Of five, three are left.
        ("best-fit", ("0123456", "01234"), "a"),
        ("pack", ("0123456", "01234"), "b"),
        ("spread", ("0123456", "01234"), "a"),
        # Of six and of seven others lose nothing: six leave the fewest.
        ("best-fit", ("0123456", "012345"), "b"),
    ],
)
def test_nodes_with_equally_good_sets_are_ranked_by_the_policy(policy: str, counts: tuple[str, str], node: str) -> None:
    cluster = free(a=(h20(), counts[0]), b=(h20(), counts[1]))
    assert chosen(cluster, 2, options={"node-policy": policy})[0][0] == node


def test_a_single_card_is_taken_where_no_pair_is_broken() -> None:
    assert chosen(free(a=(a100_pcie_bridged(), "01"), b=(a100_pcie_bridged(), "023")), 1) == ["b:0"]
    pairs = free(a=(a100_pcie_bridged(), "01"), b=(a100_pcie_bridged(), "02"))
    assert chosen(pairs, 1, options={"node-policy": "pack"}) == ["b:0"]
    pairs = free(a=(a100_pcie_bridged(), "01"), b=(a100_pcie_bridged(), "02"))
    assert chosen(pairs, 1, options={"node-policy": "spread"}) == ["b:0"]


def test_slow_links_serve_those_who_ask_for_no_more() -> None:
    nodes = {"fast": (h20(), "01"), "slow": (a100_pcie_bridged(), "0123"), "none": (l40s(), "0123")}
    assert chosen(free(**nodes), 2)[0][:4] == "fast"
    assert chosen(aiming("linked", nodes), 2)[0][:4] == "slow"
    asking = {"min-bandwidth": "300"}
    assert chosen(aiming("linked", nodes), 2, options=asking)[0][:4] == "fast"
    # All three cards are linked on no node with slow links.
    nodes = {"fast": (h20(), "012"), "slow": (a100_pcie_bridged(), "0123")}
    assert chosen(aiming("linked", nodes), 3)[0][:4] == "fast"


def test_faster_cards_are_not_waited_for_where_linked_ones_are_good_enough() -> None:
    for objective, reason in (("bandwidth", "BetterLater"), ("linked", "Pinned")):
        cluster = aiming(objective, {"slow": (a100_pcie_bridged(), "01"), "fast": (h20(), "0")})
        chosen(cluster, 2, options={"place-wait": "30s"})
        assert cluster.why("train")[0] == reason
    # Without links it is worth the wait.
    cluster = aiming("linked", {"none": (l40s(), "01"), "fast": (h20(), "0")})
    assert chosen(cluster, 2, options={"place-wait": "30s"}) == []


def test_the_class_comes_before_what_others_lose() -> None:
    assert chosen(free(a=(l40s(), "01"), b=(h20(), "01234567")), 2)[0][0] == "b"
    assert chosen(free(a=(l40s(), "01"), b=(h20(), "0")), 2)[0][0] == "a"


NUMA_BIND = {"nvidia.com/numa-bind": "true"}


def test_with_numa_bind_only_sets_on_one_numa_node_will_do() -> None:
    nodes = {"a": (h20(), "07"), "b": (l40s(), "01")}
    assert chosen(free(**nodes), 2) == ["a:0", "a:7"]
    assert chosen(free(**nodes), 2, annotations=NUMA_BIND) == ["b:0", "b:1"]
    assert chosen(free(a=(h20(), "07")), 2, annotations=NUMA_BIND) == []


@pytest.mark.parametrize(
    ("annotations", "node"),
    [
        ({}, "a"),
        ({"nvidia.com/use-gputype": "l40s"}, "b"),
        ({"nvidia.com/use-gputype": "H20,L40S"}, "a"),
        ({"nvidia.com/use-gputype": "none, L40"}, "b"),
        ({"nvidia.com/nouse-gputype": "h20"}, "b"),
        ({"nvidia.com/use-gputype": "H20", "nvidia.com/nouse-gputype": "H20"}, ""),
        ({"nvidia.com/use-gputype": "nvidia"}, "a"),
        ({"nvidia.com/nouse-gputype": "nvidia"}, ""),
    ],
)
def test_cards_of_the_named_types_are_taken(annotations: dict[str, str], node: str) -> None:
    found = chosen(free(a=(h20(), "01"), b=(l40s(), "01")), 2, annotations=annotations)
    assert "".join(card[0] for card in found[:1]) == node


def test_links_matter_where_one_container_has_several_cards() -> None:
    nodes = {"a": (a100_pcie_bridged(), "01"), "b": (l40s(), "0123")}
    assert chosen(free(**nodes), 2) == ["a:0", "a:1"]
    # The two containers have no card in common, and a pair that others could use is left whole.
    assert chosen(free(**nodes), 1, 1)[0][0] == "b"
    # In this profile the processes of both reach each other's cards.
    assert chosen(free(**nodes), 1, 1, options={"profile": "pod-peers"}) == ["a:0", "a:1"]


def resources_of(cluster: PlacedCluster) -> Object:
    """Requests of the one container."""
    limits: Object = cluster.pods["train"]["spec"]["containers"][0]["resources"]["limits"]
    return limits


def test_a_node_without_room_is_left_out_and_cards_are_counted_by_hami() -> None:
    cluster = free(a=(h20(), "01"), b=(l40s(), "01"))
    for node in "ab":
        cluster.nodes[node]["status"]["allocatable"] |= {"cpu": "4", "nvidia.com/gpu": "0"}
        cluster.tell_node(node)
    cluster.create("web", gated=False, nodeName="a")
    cluster.pods["web"]["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    cluster.tell("web")
    cluster.create("train", 2)
    resources_of(cluster)["cpu"] = "2"
    cluster.tell("train")
    cluster.round()
    assert cluster.cards("train") == ["b:0", "b:1"]


def test_a_pinned_pod_takes_room_of_its_node() -> None:
    cluster = free(a=(h20(), "0123"), b=(l40s(), "0123"))
    for node in "ab":
        cluster.nodes[node]["status"]["allocatable"]["cpu"] = "3"
        cluster.tell_node(node)
    for name in ("first", "train"):
        cluster.create(name, 2)
        cluster.pods[name]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
        cluster.tell(name)
        cluster.round()
    assert (cluster.cards("first")[0][0], cluster.cards("train")[0][0]) == ("a", "b")


def test_cards_in_mig_mode_are_not_chosen_whatever_hami_says() -> None:
    cut = bent(a100_pcie_bridged(), 0, mig_mode=MigMode.ENABLED)
    assert chosen(free(a=(cut, "0123")), 3) == ["a:1", "a:2", "a:3"]
    assert chosen(free(a=(cut, "0123")), 4) == []


def test_cards_of_which_no_links_are_known_are_not_chosen() -> None:
    cluster = free(a=(a100_pcie_bridged(), "0123"))
    cluster.topologies["a"] = None
    cluster.tell_node("a")
    assert chosen(cluster, 1) == []


def test_a_label_that_comes_opens_a_node() -> None:
    cluster = free(a=(h20(), "01"))
    cluster.create("train", 2, nodeSelector={"pool": "train"})
    cluster.round()
    assert cluster.why("train")[0] == "NoNode"
    cluster.nodes["a"]["metadata"]["labels"]["pool"] = "train"
    cluster.tell_node("a")
    cluster.round()
    assert len(cluster.cards("train")) == 2


def test_what_better_cards_there_would_be_follows_the_nodes_of_the_pod() -> None:
    cluster = free(a=(l40s(), "01"), b=(h20(), "0"))
    cluster.create("train", 2, options={"place-wait": "30s"}, nodeSelector={"kubernetes.io/hostname": "a"})
    cluster.create("other", 2, options={"place-wait": "30s"})
    cluster.round()
    assert (cluster.cards("train"), cluster.why("other")[0]) == (["a:0", "a:1"], "BetterLater")
