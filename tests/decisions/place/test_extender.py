"""What the scheduler extender says of nodes: by hand, on machines whose links are known."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.decisions.place.extender import LeftAlone, Question, Verdict, judge, read_question, scores
from webhook.objects.pod import Namespace

POLICY = admit_policy(parse_config({}), version="1.0.0")
PAIRS, WHOLE = "pairs", "whole"
DENY = {"require-nvlink": "true", "on-violation": "deny"}
TEAM = Namespace("team", {"gpu.topology/injection": "enabled"})


def pairs() -> PlacedCluster:
    """One node of four A100 with two bridged pairs: GPU0-GPU1 and GPU2-GPU3."""
    return PlacedCluster(named(a100_pcie_bridged(), PAIRS))


def both() -> PlacedCluster:
    """That node, and one of eight H20 on NVSwitches."""
    return PlacedCluster(named(a100_pcie_bridged(), PAIRS), named(h20(), WHOLE))


def plain(cluster: PlacedCluster, cards: int, node: str = PAIRS) -> PlacedCluster:
    """The same with NVIDIA's device plugin on the node, which offers so many cards, in place of HAMi's."""
    found = cluster.nodes[node]
    found["metadata"]["annotations"] = {}
    found["status"]["allocatable"]["nvidia.com/gpu"] = str(cards)
    cluster.tell_node(node)
    return cluster


def holds(cluster: PlacedCluster, *cards: int, node: str = PAIRS) -> None:
    """Another pod holds these cards."""
    name = f"other-{node}-{cards[0]}"
    cluster.create(name, len(cards), gated=False)
    cluster.give(name, node, tuple(f"GPU-{node}.{card}" for card in cards))


def runs(cluster: PlacedCluster, count: int, node: str = PAIRS) -> None:
    """A pod with so many cards of a plain device plugin, nobody knows which, runs on the node."""
    cluster.create(f"other-{node}-{count}", count, gated=False, nodeName=node)


def question(cluster: PlacedCluster, name: str = "train") -> Question:
    return read_question(cluster.records[f"team/{name}"], POLICY, lambda _: TEAM)


def judged(cluster: PlacedCluster, *nodes: str, late: Callable[[], bool] = lambda: False) -> dict[str, Verdict]:
    return judge(cluster.world, question(cluster), nodes or tuple(cluster.nodes), late)


def refusals(cluster: PlacedCluster, *nodes: str) -> dict[str, tuple[str, bool]]:
    """Of the nodes that do not pass the text, and whether it lasts."""
    verdicts = judged(cluster, *nodes)
    return {name: (str(found.refusal), found.lasts) for name, found in verdicts.items() if found.refusal}


def points(cluster: PlacedCluster, *nodes: str) -> dict[str, int]:
    return scores(judged(cluster, *nodes))


def test_a_node_with_a_free_pair_passes() -> None:
    cluster = pairs()
    holds(cluster, 3)
    cluster.create("train", 2, gated=False, options=DENY)
    assert refusals(cluster) == {}


def test_a_pod_that_denies_does_not_get_a_node_whose_pairs_are_broken() -> None:
    cluster = pairs()
    holds(cluster, 1)
    holds(cluster, 3)
    cluster.create("train", 2, gated=False, options=DENY)
    assert refusals(cluster) == {PAIRS: ("GT692: no 2 free cards with NVLink between every pair", False)}


def test_a_pod_that_warns_does() -> None:
    cluster = pairs()
    holds(cluster, 1)
    holds(cluster, 3)
    cluster.create("train", 2, gated=False, options={"require-nvlink": "true"})
    assert refusals(cluster) == {}


def test_what_the_node_can_never_do_lasts() -> None:
    cluster = both()
    cluster.create("train", 3, gated=False, options=DENY)
    assert refusals(cluster) == {PAIRS: ("GT693: the node has no 3 cards with NVLink between every pair", True)}


def test_a_bandwidth_that_no_pair_has_is_refused() -> None:
    cluster = both()
    cluster.create("train", 2, gated=False, options={"min-bandwidth": "300", "on-violation": "deny"})
    assert refusals(cluster) == {PAIRS: ("GT693: the node has no 2 cards with 300 GB/s between every pair", True)}


def test_more_cards_than_the_node_has_are_refused_whatever_the_pod_says_of_links() -> None:
    cluster = both()
    cluster.create("train", 6, gated=False)
    text = "GT691: the node has 4 cards that the pod may use, the pod asks for 6"
    assert refusals(cluster) == {PAIRS: (text, True)}


def test_more_cards_than_are_free_are_refused_for_now() -> None:
    cluster = both()
    holds(cluster, 0, 1, 2)
    cluster.create("train", 2, gated=False)
    assert refusals(cluster) == {PAIRS: ("GT690: 1 of the 2 cards that the pod asks for are free", False)}


def test_cards_that_another_pod_is_pinned_to_are_not_free_and_ones_own_are() -> None:
    cluster = pairs()
    cluster.create("train", 4)
    cluster.round()
    cluster.round()  # what the planner itself holds until its choice is written is no longer held
    assert len(cluster.pinned("train")) == 4
    cluster.create("later", 1, gated=False)
    later = question(cluster, "later")
    (found,) = judge(cluster.world, later, [PAIRS], lambda: False).values()
    assert str(found.refusal) == "GT690: 0 of the 1 cards that the pod asks for are free"
    assert refusals(cluster) == {}
    assert len(cluster.world.holders(f"GPU-{PAIRS}.0", PAIRS)) == 1, "the question changed something"


def test_what_a_predecessor_of_that_name_holds_is_not_free() -> None:
    cluster = pairs()
    cluster.create("train", 4)
    cluster.round()
    asked = question(cluster)
    cluster.delete("train")
    cluster.create("train", 4)
    cluster.round()
    cluster.round()
    (found,) = judge(cluster.world, asked, [PAIRS], lambda: False).values()
    assert str(found.refusal) == "GT690: 0 of the 4 cards that the pod asks for are free"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"nvidia.com/use-gpuuuid": "GPU-pairs.0,GPU-pairs.1"}, set()),
        ({"nvidia.com/use-gpuuuid": " GPU-pairs.0 , GPU-pairs.1 "}, set()),
        ({"nvidia.com/use-gpuuuid": " "}, set()),
        ({"nvidia.com/use-gpuuuid": "GPU-pairs.1,GPU-pairs.2"}, {"GT693"}),
        ({"nvidia.com/use-gpuuuid": "GPU-pairs.1"}, {"GT691"}),
        ({"nvidia.com/use-gpuuuid": "GPU-elsewhere.0"}, {"GT691"}),
        ({"nvidia.com/nouse-gpuuuid": "GPU-pairs.0,GPU-pairs.2"}, {"GT693"}),
        ({"nvidia.com/nouse-gpuuuid": "GPU-pairs.0"}, set()),
        ({"nvidia.com/use-gputype": "A100"}, set()),
        ({"nvidia.com/use-gputype": "H100"}, {"GT691"}),
        ({"nvidia.com/nouse-gputype": "a100"}, {"GT691"}),
    ],
)
def test_only_cards_that_hami_may_give_count(annotations: dict[str, str], expected: set[str]) -> None:
    cluster = pairs()
    cluster.create("train", 2, gated=False, options=DENY, annotations=annotations)
    assert {text.partition(":")[0] for text, _ in refusals(cluster).values()} == expected


def test_what_hami_itself_refuses_for_numa_bind_passes() -> None:
    cluster = pairs()
    holds(cluster, 0)
    holds(cluster, 2)
    cluster.create("train", 2, gated=False, annotations={"nvidia.com/numa-bind": "true"})
    assert judged(cluster) == {PAIRS: Verdict()}


def test_nodes_of_which_too_little_is_known_pass_without_a_score() -> None:
    cluster = both()
    cluster.topologies[PAIRS] = None
    cluster.tell_node(PAIRS)
    cluster.create("train", 2, gated=False, options=DENY)
    assert refusals(cluster, PAIRS, WHOLE, "never-heard-of") == {}
    assert points(cluster, PAIRS, WHOLE, "never-heard-of") == {PAIRS: 0, WHOLE: 10, "never-heard-of": 0}


def test_without_time_for_a_choice_all_nodes_pass() -> None:
    cluster = both()
    cluster.create("train", 6, gated=False, options=DENY)
    assert judged(cluster, late=lambda: True) == {PAIRS: Verdict(), WHOLE: Verdict()}


def test_nodes_that_are_alike_need_one_choice() -> None:
    cluster = PlacedCluster(*(named(h20(), f"node-{k}") for k in range(20)))
    cluster.create("train", 2, gated=False)
    asked: list[int] = []

    def late() -> bool:
        asked.append(1)
        return len(asked) > 1

    found = judged(cluster, late=late)
    assert len(asked) == 1
    assert {verdict.rank for verdict in found.values()} == {found["node-0"].rank}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"annotations": {}}, "the pod has a node, or was not injected"),
        ({"resources": {"cpu": "1"}}, "the pod does not ask for whole cards"),
        ({"resources": {"nvidia.com/gpu": "0"}}, "the pod does not ask for whole cards"),
        ({"resources": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1000"}}, "the pod does not ask for whole cards"),
        ({"resources": {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "50"}}, "the pod does not ask for whole cards"),
        ({"resources": {"volcano.sh/vgpu-number": "2"}}, "the pod asks for other cards than HAMi's"),
        ({"init": {"nvidia.com/gpu": "1"}}, "init containers of the pod ask for cards"),
        ({"init": {"nvidia.com/mig-1g.10gb": "1"}}, "the pod does not ask for whole cards"),
        ({"resources": {"nvidia.com/gpu": "two"}}, "nvidia.com/gpu of container c0: expected"),
        ({"annotations": {"gpu.topology/injected": "1.0.0/exclusive", "gpu.topology/min-bandwidth": "fast"}}, '"fast"'),
        ({"nodeName": PAIRS}, "the pod has a node, or was not injected"),
    ],
)
def test_pods_that_are_not_ours_to_judge(fields: dict[str, Any], why: str) -> None:
    cluster = pairs()
    pod = cluster.create("train", 2, gated=False)
    if "annotations" in fields:
        pod["metadata"]["annotations"] = fields["annotations"]
    if "resources" in fields:
        pod["spec"]["containers"][0]["resources"] = {"limits": fields["resources"]}
    if "init" in fields:
        pod["spec"]["initContainers"] = [{"name": "init", "resources": {"limits": fields["init"]}}]
    if "nodeName" in fields:
        pod["spec"]["nodeName"] = fields["nodeName"]
    cluster.tell("train")
    with pytest.raises(LeftAlone, match=why):
        question(cluster)


def test_options_of_the_namespace_count() -> None:
    cluster = pairs()
    holds(cluster, 1)
    holds(cluster, 3)
    cluster.create("train", 2, gated=False)
    strict = Namespace("team", TEAM.labels, {f"gpu.topology/{key}": value for key, value in DENY.items()})
    asked = read_question(cluster.records["team/train"], POLICY, lambda _: strict)
    (found,) = judge(cluster.world, asked, [PAIRS], lambda: False).values()
    assert found.refusal is not None
    assert found.refusal.code == "GT692"


def test_better_links_score_higher() -> None:
    cluster = both()
    holds(cluster, 1)
    holds(cluster, 3)
    cluster.create("train", 2, gated=False)
    assert points(cluster) == {PAIRS: 1, WHOLE: 10}


def test_nodes_with_equal_cards_score_by_what_others_lose() -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in ("a", "b", "c")))
    holds(cluster, 0, 1, 2, 3, 4, 5, node="b")
    cluster.create("train", 2, gated=False)
    assert points(cluster) == {"a": 1, "b": 10, "c": 1}


def test_the_policy_of_the_pod_decides_between_nodes_with_equal_cards() -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in ("a", "b")))
    holds(cluster, 0, 1, 2, 3, node="b")
    cluster.create("train", 2, gated=False, options={"node-policy": "spread"})
    assert points(cluster) == {"a": 10, "b": 1}


def test_scores_go_down_by_rank_and_are_none_for_what_is_not_known() -> None:
    ranks: dict[str, Verdict] = {f"n{k}": Verdict(rank=(float(k),)) for k in range(4)}
    assert scores(ranks | {"x": Verdict()}) == {"n3": 10, "n2": 7, "n1": 4, "n0": 1, "x": 0}


def test_there_are_scores_for_any_number_of_ranks() -> None:
    found = scores({f"n{k}": Verdict(rank=(float(k),)) for k in range(5000)})
    assert (found["n4999"], found["n0"], set(found.values())) == (10, 1, set(range(1, 11)))


# A plain device plugin: how many cards are taken is known, which ones is not.


def test_a_plain_node_passes_if_some_of_its_cards_would_do() -> None:
    cluster = plain(pairs(), 4)
    runs(cluster, 2)
    cluster.create("train", 2, gated=False, options=DENY)
    assert refusals(cluster) == {}


def test_a_plain_node_none_of_whose_cards_would_do_is_refused() -> None:
    cluster = plain(plain(both(), 4), 8, WHOLE)
    cluster.create("train", 3, gated=False, options=DENY)
    assert refusals(cluster) == {PAIRS: ("GT693: the node has no 3 cards with NVLink between every pair", True)}


def test_all_cards_of_a_plain_node_are_known() -> None:
    cluster = plain(plain(both(), 4), 8, WHOLE)
    cluster.create("train", 4, gated=False, options=DENY)
    assert refusals(cluster) == {PAIRS: ("GT693: the node has no 4 cards with NVLink between every pair", True)}


def test_the_cards_of_a_plain_node_are_counted() -> None:
    cluster = plain(pairs(), 4)
    runs(cluster, 3)
    cluster.create("train", 2, gated=False)
    assert refusals(cluster) == {PAIRS: ("GT690: 1 of the 2 cards that the pod asks for are free", False)}
    cluster.create("train", 6, gated=False)
    text = "GT691: the node has 4 cards that the pod may use, the pod asks for 6"
    assert refusals(cluster) == {PAIRS: (text, True)}


@pytest.mark.parametrize("offered", [0, 8])
def test_cards_that_nobody_offers_or_that_pods_share_in_turns_are_not_judged(offered: int) -> None:
    cluster = plain(pairs(), offered)
    cluster.create("train", 3, gated=False, options=DENY)
    assert judged(cluster) == {PAIRS: Verdict()}


def test_a_plain_node_in_use_scores_by_the_worst_that_the_pod_may_get() -> None:
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), name) for name in ("idle", "used")))
    for node in cluster.nodes:
        plain(cluster, 4, node)
    runs(cluster, 1, "used")
    cluster.create("train", 2, gated=False)
    assert points(cluster) == {"idle": 10, "used": 1}


def test_where_all_links_are_equal_a_plain_node_in_use_comes_first() -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in ("idle", "used")))
    for node in cluster.nodes:
        plain(cluster, 8, node)
    runs(cluster, 4, "used")
    cluster.create("train", 2, gated=False)
    assert points(cluster) == {"idle": 1, "used": 10}


def test_lists_for_hami_mean_nothing_to_a_plain_device_plugin() -> None:
    cluster = plain(pairs(), 4)
    annotations = {"nvidia.com/use-gputype": "H100", "nvidia.com/numa-bind": "true", "nvidia.com/use-gpuuuid": "x"}
    cluster.create("train", 4, gated=False, annotations=annotations)
    assert refusals(cluster) == {}
    assert points(cluster) == {PAIRS: 10}
