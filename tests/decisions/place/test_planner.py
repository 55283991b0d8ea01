"""Stories of pods that wait for their cards, on machines whose links are known."""

import json
from dataclasses import replace

import pytest

from tests.decisions.place.cluster import BEGIN, Object, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, bent, dgx1_v100, h20, hgx_h100, l40s
from webhook.hardware.topology.model import NodeTopology


def bridged(**settings: object) -> PlacedCluster:
    """One node of four A100 with two bridged pairs: GPU0-GPU1 and GPU2-GPU3."""
    return PlacedCluster(named(a100_pcie_bridged(), "pairs"), settings=settings)


def slice_on(cluster: PlacedCluster, name: str, node: str, index: int) -> None:
    """A pod without our gate holds a part of that card."""
    cluster.create(name, 1, gated=False)
    cluster.give(name, node, (f"GPU-{node}.{index}",))


def test_two_cards_are_the_pair_that_is_free() -> None:
    cluster = bridged()
    slice_on(cluster, "slice", "pairs", 3)
    cluster.create("train", 2)
    (write,) = cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:1"]
    assert (cluster.gates("train"), cluster.label("train")) == ([], "pinned")
    assert write.condition is not None
    assert cluster.why("train") == ("Pinned", "GT620: node pairs: GPU0, GPU1 (NVLink, 240 GB/s)")
    cluster.schedule()
    assert [write.result for write in cluster.round()] == ["taken"]
    assert cluster.round() == []


def test_of_two_nodes_the_one_is_taken_where_others_lose_least() -> None:
    cluster = PlacedCluster(named(h20(), "a-whole"), named(h20(), "b-rest"))
    cluster.create("six", 6, gated=False)
    cluster.give("six", "b-rest", tuple(f"GPU-b-rest.{index}" for index in range(6)))
    cluster.create("a-pair", 2)
    cluster.create("eight", 8)
    cluster.round()
    assert cluster.cards("a-pair") == ["b-rest:6", "b-rest:7"]
    assert len(cluster.cards("eight")) == 8


def test_a_whole_board_is_left_to_pods_that_need_it_though_its_links_are_slow() -> None:
    cluster = PlacedCluster(named(dgx1_v100(), "board"), named(a100_pcie_bridged(), "pairs"))
    cluster.create("single", 1)
    cluster.round()
    assert cluster.cards("single")[0].startswith("pairs:"), "a pair at 240 GB/s is lost, and no board"
    cluster.schedule()
    cluster.create("eight", 8)
    cluster.round()
    assert cluster.cards("eight") == [f"board:{card}" for card in range(8)]


def test_a_board_that_is_broken_already_takes_the_next_single_card() -> None:
    cluster = PlacedCluster(named(dgx1_v100(), "board"), named(a100_pcie_bridged(), "pairs"))
    slice_on(cluster, "there", "board", 0)
    cluster.create("single", 1)
    cluster.round()
    assert cluster.cards("single")[0].startswith("board:")


def test_a_pod_that_denies_waits_without_cards_and_goes_on_when_a_pair_is_free() -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    slice_on(cluster, "two", "pairs", 3)
    cluster.create("train", 2, options={"require-nvlink": "true", "on-violation": "deny"})
    cluster.round()
    assert cluster.gates("train") == ["gpu.topology/place"]
    assert cluster.why("train") == (
        "RequirementNotMet",
        "GT622: no 2 free cards with NVLink between every pair: pairs has GPU0, GPU2",
    )
    cluster.now += 10_000
    assert cluster.round() == []
    cluster.delete("one")
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:1"]


def test_no_bandwidth_is_told_of_links_that_nothing_tells() -> None:
    """HAMi's annotations without pair scores, after the agent's ConfigMap is gone."""
    found = named(h20(), "silent")
    silent = replace(
        found,
        source="hami",
        problem="HAMi published no pair scores, so links are unknown.",
        gpus=tuple(replace(gpu, nvlinks=()) for gpu in found.gpus),
    )
    cluster = PlacedCluster(silent)
    cluster.create("train", 2)
    cluster.round()
    assert cluster.why("train")[1] == "GT620: node silent: GPU0, GPU1 (links not known)"
    placed = json.loads(cluster.pods["train"]["metadata"]["annotations"]["gpu.topology/placed"])
    assert (placed["link"], placed["bandwidth"]) == ("unknown", 0.0)
    told = PlacedCluster(named(h20(), "told"))
    told.create("train", 2)
    told.round()
    assert told.why("train")[1] == "GT620: node told: GPU0, GPU1 (NVSwitch, 370.8 GB/s)"


TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDONED = {"unschedulable": True, "taints": [TAINT]}
"""The spec of a node after ``kubectl cordon``: the node controller adds the taint."""


@pytest.mark.parametrize("spec", [CORDONED, {"unschedulable": True}], ids=["taint", "no taint yet"])
def test_cordoned_nodes_whose_cards_would_do_are_named(spec: Object) -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    slice_on(cluster, "two", "pairs", 3)
    cluster.add_node(named(h20(), "closed"), **spec)
    cluster.create("train", 2, options={"require-nvlink": "true", "on-violation": "deny"})
    cluster.create("large", 4)
    cluster.round()
    would_do = "cordoned, and would do: closed (8 free cards)"
    assert cluster.why("train")[1] == (
        f"GT622: no 2 free cards with NVLink between every pair: pairs has GPU0, GPU2; {would_do}"
    )
    assert cluster.why("large")[1] == f"GT621: no node has 4 free cards for the pod: pairs has GPU0, GPU2; {would_do}"
    cluster.delete("large")
    cluster.add_node(named(h20(), "closed"))
    cluster.round()
    assert [card.partition(":")[0] for card in cluster.cards("train")] == ["closed", "closed"]


def test_a_cordoned_node_that_would_not_do_is_not_named() -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    slice_on(cluster, "two", "pairs", 3)
    cluster.add_node(named(a100_pcie_bridged(), "broken"), **CORDONED)
    slice_on(cluster, "three", "broken", 1)
    slice_on(cluster, "four", "broken", 3)
    kept = {"key": "reserved", "value": "other", "effect": "NoSchedule"}
    cluster.add_node(named(h20(), "reserved"), unschedulable=True, taints=[TAINT, kept])
    cluster.create("train", 2, options={"require-nvlink": "true", "on-violation": "deny"})
    cluster.round()
    assert cluster.why("train")[1] == "GT622: no 2 free cards with NVLink between every pair: pairs has GPU0, GPU2"


def test_where_every_node_is_cordoned_the_one_that_would_do_is_named() -> None:
    cluster = PlacedCluster()
    cluster.add_node(named(h20(), "closed"), **CORDONED)
    cluster.create("train", 2)
    cluster.round()
    assert cluster.why("train")[1] == (
        "GT624: the pod can run on no node with cards: 1 node has the taint node.kubernetes.io/unschedulable; "
        "cordoned, and would do: closed (8 free cards)"
    )


def test_a_pod_that_warns_gets_the_best_that_is_free_and_is_told_what_it_gave_up() -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    slice_on(cluster, "two", "pairs", 3)
    cluster.create("train", 2, options={"require-nvlink": "true"})
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:2"]
    assert (
        "no 2 free GPUs with NVLink between every pair"
        in cluster.pods["train"]["metadata"]["annotations"]["gpu.topology/placed"]
    )


def test_better_cards_are_waited_for_as_long_as_the_pod_says() -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    slice_on(cluster, "two", "pairs", 3)
    cluster.create("train", 2, options={"place-wait": "30s"})
    cluster.round()
    assert cluster.why("train")[0] == "BetterLater"
    cluster.now += 29
    assert cluster.round() == []
    cluster.now += 1
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:2"]


def test_a_pod_that_warns_is_let_go_where_no_node_has_enough() -> None:
    cluster = bridged()
    slice_on(cluster, "one", "pairs", 1)
    cluster.create("train", 4)
    cluster.round()
    assert cluster.why("train") == (
        "NoFreeCards",
        "GT621: no node has 4 free cards for the pod: pairs has GPU0, GPU2, GPU3",
    )
    cluster.now += 60
    cluster.round()
    assert (cluster.gates("train"), cluster.label("train"), cluster.pinned("train")) == ([], "released", ())
    assert cluster.why("train")[0] == "Released"


def test_a_pod_that_fits_nowhere_is_told_so() -> None:
    cluster = bridged()
    cluster.create("train", 10, options={"on-violation": "deny"})
    cluster.round()
    assert cluster.why("train") == ("NeverFits", "GT623: the pod asks for 10 cards, no node has more than 4")


def test_cards_that_were_taken_meanwhile_are_chosen_anew() -> None:
    cluster = bridged()
    cluster.create("train", 2)
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:1"]
    slice_on(cluster, "thief", "pairs", 0)
    cluster.refuse("train")
    (write,) = cluster.round()
    assert write.result == "repinned"
    assert cluster.cards("train") == ["pairs:2", "pairs:3"]
    cluster.schedule()
    assert [write.result for write in cluster.round()] == ["taken"]


def test_a_node_that_the_scheduler_does_not_take_is_left_out_of_the_next_choice() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("train", 2)
    cluster.round()
    assert cluster.cards("train")[0].startswith("a:")
    cluster.refuse("train", "0/2 nodes are available: 1 node(s) had volume node affinity conflict.")
    cluster.round()
    assert cluster.cards("train")[0].startswith("b:")


@pytest.mark.parametrize("reason", ["SchedulingGated", "SchedulerError", ""])
def test_while_the_scheduler_is_away_a_pod_keeps_what_was_chosen(reason: str) -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("train", 2)
    cluster.round()
    cards = cluster.cards("train")
    if reason:
        cluster.condition(cluster.pods["train"], "PodScheduled", "False", reason)
        cluster.tell("train")
    for _ in range(10):
        cluster.now += 100
        assert cluster.round() == []
    assert cluster.cards("train") == cards
    cluster.schedule()
    assert [write.result for write in cluster.round()] == ["taken"]


def test_a_pod_that_the_scheduler_passes_over_gets_other_cards() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("train", 2)
    cluster.round()
    cluster.now += 50
    cluster.create("next", 2, nodeSelector={"kubernetes.io/hostname": "b"})
    cluster.round()
    cluster.now += 50
    cluster.give("next", "b", cluster.pinned("next"))
    cluster.round()
    cluster.now += 59
    assert cluster.round() == []
    cluster.now += 1
    (write,) = cluster.round()
    assert write.result == "repinned"
    assert {card.partition(":")[0] for card in cluster.cards("train")} == {"b"}


def test_a_pod_that_warns_is_unpinned_when_its_tries_are_used_up() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("train", 2)
    cluster.round()
    for attempt in range(2):
        cluster.refuse("train", f"refusal {attempt}")
        cluster.round()
    assert (cluster.pinned("train"), cluster.label("train")) == ((), "released")
    assert cluster.why("train")[0] == "GivenUp"
    cluster.now += 10_000
    assert cluster.round() == []


def test_a_pod_that_denies_stays_pinned_holds_nothing_and_is_pinned_anew() -> None:
    cluster = bridged()
    cluster.create("train", 2, options={"require-nvlink": "true", "on-violation": "deny"})
    cluster.round()
    slice_on(cluster, "thief", "pairs", 0)
    slice_on(cluster, "other", "pairs", 2)
    cluster.refuse("train")
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:1"]
    assert (cluster.label("train"), cluster.why("train")[0]) == ("released", "CardsLost")
    cluster.create("one", 1)
    cluster.round()
    assert cluster.cards("one") in (["pairs:1"], ["pairs:3"])
    cluster.delete("one")
    cluster.delete("other")
    cluster.now += 61
    cluster.round()
    assert cluster.cards("train") == ["pairs:2", "pairs:3"]
    assert cluster.label("train") == "pinned"


def test_at_most_so_many_are_on_their_way_and_one_for_each_node() -> None:
    cluster = PlacedCluster(*(named(h20(), f"n{k}") for k in range(4)), settings={"inFlight": 3})
    for k in range(12):
        cluster.create(f"p{k}", 4, options={"node-policy": "spread"})
    cluster.round()
    assert sum(bool(cluster.pinned(f"p{k}")) for k in range(12)) == 3
    for _ in range(20):
        cluster.schedule()
        cluster.round()
    held = [card for name in cluster.pods for card in cluster.pinned(name)]
    assert len(held) == len(set(held)) == 32


def test_a_pod_whose_write_is_not_done_keeps_its_cards() -> None:
    cluster = bridged()
    cluster.create("train", 4)
    cluster.now += 1
    cluster.create("late", 4)
    writes = cluster.planner.decide(cluster.now, BEGIN)
    assert [write.name for write in writes if write.patch] == ["train"]
    again = cluster.planner.decide(cluster.now, BEGIN, busy={"team/train"})
    assert not any(write.patch for write in again)


def test_a_pod_whose_write_was_refused_holds_no_cards_until_its_next_try() -> None:
    cluster = bridged()
    cluster.create("train", 4)
    cluster.now += 1
    cluster.create("late", 4)
    cluster.planner.decide(cluster.now, BEGIN)
    refused = {"team/train"}
    (write,) = (each for each in cluster.planner.decide(cluster.now, BEGIN, refused, refused) if each.patch)
    assert write.name == "late"
    again = cluster.planner.decide(cluster.now, BEGIN, {"team/late"})
    assert not any(each.patch for each in again)


@pytest.mark.parametrize(("seconds", "first"), [(100, "late"), (130, "next")])
def test_a_namespace_whose_pods_cannot_be_written_comes_behind_others_for_a_while(seconds: int, first: str) -> None:
    cluster = bridged()
    cluster.create("train", 4)
    cluster.now += 1
    cluster.create("next", 4, options={"on-violation": "deny"})
    cluster.now += 1
    cluster.create("late", 4, options={"on-violation": "deny"}, namespace="other")
    refused = {"team/train"}
    cluster.planner.decide(cluster.now, BEGIN)
    cluster.planner.decide(cluster.now, BEGIN, refused | {"team/next", "other/late"}, refused)
    cluster.now += seconds
    (write,) = (each for each in cluster.planner.decide(cluster.now, BEGIN, refused) if each.patch)
    assert write.name == first


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_gates_that_are_left_are_opened_when_placement_is_off(mode: str) -> None:
    cluster = bridged(mode=mode)
    cluster.create("train", 2, options={"on-violation": "deny"})
    cluster.round()
    assert (cluster.gates("train"), cluster.label("train"), cluster.why("train")[0]) == ([], "released", "SwitchedOff")


def test_on_request_a_pod_that_asks_gets_its_cards_and_one_that_asks_no_more_is_let_go() -> None:
    cluster = bridged(mode="on-request")
    cluster.create("asks", 2, options={"require-nvlink": "true"})
    cluster.create("asks-no-more", 2)
    cluster.round()
    assert cluster.cards("asks") == ["pairs:0", "pairs:1"]
    assert (cluster.gates("asks-no-more"), cluster.why("asks-no-more")[0]) == ([], "NotPlaceable")


def test_the_gates_of_others_are_waited_for() -> None:
    cluster = bridged()
    cluster.create("train", 2, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}, {"name": "gpu.topology/place"}])
    cluster.round()
    assert cluster.why("train")[0] == "OtherGates"
    cluster.pods["train"]["spec"]["schedulingGates"].pop(0)
    cluster.tell("train")
    cluster.round()
    assert cluster.cards("train") == ["pairs:0", "pairs:1"]


def test_the_list_of_a_user_is_left_alone() -> None:
    cluster = bridged()
    cluster.create("train", 2)
    cluster.round()
    cluster.pods["train"]["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] = "GPU-pairs.3,GPU-pairs.2"
    cluster.refuse("train")
    cluster.now += 1000
    assert cluster.round() == []


def test_of_pods_of_one_second_the_one_that_was_seen_first_comes_first() -> None:
    cluster = bridged()
    slice_on(cluster, "slice", "pairs", 3)
    names = [f"p{number}" for number in range(8, 0, -1)]
    for name in names:
        cluster.create(name, 4, options={"on-violation": "deny"})
        cluster.now += 0.01
        cluster.round()
    cluster.delete("slice")
    cluster.round()
    assert [name for name in names if cluster.pinned(name)] == names[:1]


@pytest.mark.parametrize("mode", ["observe", "on-request"])
def test_observed_the_better_pair_is_named_and_nothing_is_changed(mode: str) -> None:
    cluster = bridged(mode=mode)
    slice_on(cluster, "slice", "pairs", 3)
    cluster.create("train", 2, gated=False)
    cluster.give("train", "pairs", ("GPU-pairs.2", "GPU-pairs.1"))
    writes = [write for write in cluster.round() if write.name == "train"]
    assert [(write.result, write.patch, write.log["lost"]) for write in writes] == [("better-possible", (), 230.0)]
    assert writes[0].event is not None
    assert writes[0].event.note == (
        "GT637: HAMi gave GPU1, GPU2 of node pairs (SYS, 10 GB/s); GPU0, GPU1 of node pairs (NVLink, 240 GB/s) were "
        "free. Set placement.mode: on, and the planner chooses"
    )


def test_observed_the_best_pair_is_only_counted() -> None:
    cluster = bridged(mode="observe")
    cluster.create("train", 2, gated=False)
    cluster.give("train", "pairs", ("GPU-pairs.0", "GPU-pairs.1"))
    assert [(write.result, write.event) for write in cluster.round()] == [("same", None)]


GROUP = {"group": "ring", "group-size": "2"}
LABEL = {"gpu.topology/group": "ring"}


def test_a_group_waits_for_its_pods_and_is_placed_on_one_node() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("other", 2, gated=False)
    cluster.give("other", "a", ("GPU-a.0", "GPU-a.1"))
    cluster.create("one", 4, options=GROUP, labels=LABEL)
    cluster.round()
    assert cluster.why("one") == ("GroupIncomplete", "GT633: 1 of 2 pods of group ring are there")
    cluster.create("two", 4, options=GROUP, labels=LABEL)
    cluster.round()
    assert len(cluster.pinned("one")) == len(cluster.pinned("two")) == 4
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == {"b"}
    assert [len(cluster.gates(name)) for name in ("one", "two")] == [1, 1]
    cluster.round()
    assert [len(cluster.gates(name)) for name in ("one", "two")] == [0, 1]
    cluster.schedule()
    cluster.round()
    cluster.schedule()
    assert [cluster.gates(name) for name in ("one", "two")] == [[], []]
    assert [cluster.pods[name]["spec"].get("nodeName") for name in ("one", "two")] == ["b", "b"]


def test_a_group_over_several_nodes_takes_those_that_are_near_each_other() -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in ("a", "b", "c")))
    for name, zone in (("a", "x"), ("b", "y"), ("c", "x")):
        cluster.nodes[name]["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
        cluster.tell_node(name)
    spread = {**GROUP, "colocate": "preferred"}
    for name in ("one", "two"):
        cluster.create(name, 8, options=spread, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == {"a", "c"}


def nodes_of_group(*nodes: NodeTopology) -> set[str]:
    """The nodes on which a group of two pods with eight cards each is placed."""
    cluster = PlacedCluster(*nodes)
    for name in ("one", "two"):
        cluster.create(name, 8, options={**GROUP, "colocate": "preferred"}, labels=LABEL)
    cluster.round()
    return {card.split(":")[0] for name in ("one", "two") for card in cluster.cards(name)}


def test_a_group_over_several_nodes_gets_cards_of_one_model_where_their_links_are_as_good() -> None:
    """H20 and H100 have equally fast NVSwitches; without models the first two names would be taken."""
    nodes = [named(replace(hgx_h100(), nics=()), name) for name in ("b", "d")]
    assert nodes_of_group(named(h20(), "a"), *nodes) == {"b", "d"}
    assert nodes_of_group(named(h20(), "a"), nodes[0], named(h20(), "c")) == {"a", "c"}


def test_a_group_mixes_models_rather_than_wait_or_take_worse_links() -> None:
    fast = [named(h20(), "c"), named(replace(hgx_h100(), nics=()), "d")]
    assert nodes_of_group(*fast) == {"c", "d"}
    assert nodes_of_group(named(l40s(), "a"), named(l40s(), "b"), *fast) == {"c", "d"}


def test_models_are_told_apart_though_the_name_of_one_contains_that_of_the_other() -> None:
    longer = hgx_h100()
    for index in range(8):
        longer = bent(longer, index, name="NVIDIA H20-3e")
    longer = replace(longer, nics=())
    assert nodes_of_group(named(h20(), "a"), named(longer, "b"), named(h20(), "c")) == {"a", "c"}
    assert nodes_of_group(named(h20(), "a"), named(longer, "b"), named(longer, "c")) == {"b", "c"}


def test_cards_that_another_pod_leaves_in_this_round_are_waited_for() -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in "abc"))
    for name in ("one", "two"):
        cluster.create(name, 8)
        cluster.round()
    for name in ("one", "two"):
        cluster.refuse(name, "0/3 nodes are available: volumes.")
    assert [write.name for write in cluster.round()] == ["one"]
    cluster.round()
    assert [cluster.cards(name)[0] for name in ("one", "two")] == ["c:0", "a:0"]


def test_a_second_refusal_in_the_same_words_counts_after_a_while() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"), named(h20(), "c"))
    cluster.create("train", 2)
    cluster.round()
    cluster.refuse("train", "the same")
    cluster.round()
    assert cluster.cards("train")[0].startswith("b:")
    cluster.now += 59
    assert cluster.round() == []
    cluster.now += 1
    cluster.round()
    assert cluster.cards("train")[0].startswith("c:")


def test_what_hami_allocated_in_an_attempt_that_failed_is_left_when_the_scheduler_refuses() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    cluster.create("train", 2)
    cluster.round()
    annotations = cluster.pods["train"]["metadata"]["annotations"]
    devices = "".join(f"{card},NVIDIA,40960,100:" for card in cluster.pinned("train"))
    annotations |= {"hami.io/vgpu-node": "a", "hami.io/vgpu-devices-allocated": f"{devices};"}
    cluster.refuse("train")
    assert cluster.round() == []
    cluster.now += 60
    cluster.round()
    assert cluster.cards("train")[0].startswith("b:")


def test_a_pod_whose_turn_is_long_in_coming_says_so() -> None:
    cluster = bridged()
    cluster.create("first", 2)
    cluster.now += 1
    cluster.create("second", 2)
    cluster.round()
    assert cluster.why("second") == ("", "")
    cluster.now += 30
    cluster.round()
    assert cluster.why("second") == (
        "Soon",
        "GT636: there are cards for the pod; pods that the scheduler has to bind before it: 1",
    )
    cluster.schedule()
    cluster.round()
    assert cluster.why("second")[0] == "Pinned"


def test_a_pod_that_warns_and_was_let_go_is_pinned_when_cards_are_free_again() -> None:
    cluster = bridged()
    cluster.create("train", 4)
    cluster.round()
    slice_on(cluster, "thief", "pairs", 0)
    cluster.refuse("train")
    cluster.round()
    assert (cluster.pinned("train"), cluster.why("train")[0]) == ((), "GivenUp")
    cluster.delete("thief")
    cluster.round()
    cluster.now += 61
    cluster.round()
    assert len(cluster.pinned("train")) == 4
    assert '"attempt":2' in cluster.pods["train"]["metadata"]["annotations"]["gpu.topology/placed"]


def test_when_placement_is_off_what_the_scheduler_refuses_is_left_to_it() -> None:
    cluster = bridged(mode="observe")
    cluster.create("train", 2, gated=False, labels={"gpu.topology/placement": "pinned"})
    cards = ("GPU-pairs.0", "GPU-pairs.1")
    placed = {"node": "pairs", "cards": cards, "link": "NVLink", "bandwidth": 240, "share": 1, "attempt": 1, "at": ""}
    cluster.pods["train"]["metadata"]["annotations"] |= {
        "nvidia.com/use-gpuuuid": ",".join(cards),
        "gpu.topology/placed": json.dumps(placed),
    }
    cluster.tell("train")
    cluster.round()
    cluster.refuse("train")
    cluster.round()
    assert (cluster.pinned("train"), cluster.why("train")[0]) == ((), "SwitchedOff")


def test_what_looks_like_a_choice_without_the_label_holds_nothing() -> None:
    cluster = bridged()
    cards = [f"GPU-pairs.{index}" for index in range(4)]
    placed = {"node": "pairs", "cards": cards, "link": "NVLink", "bandwidth": 240, "share": 1, "attempt": 1, "at": ""}
    forged = {"nvidia.com/use-gpuuuid": ",".join(cards), "gpu.topology/placed": json.dumps(placed)}
    cluster.create("forger", 1, gated=False, annotations=forged)
    cluster.create("train", 4)
    cluster.round()
    assert len(cluster.pinned("train")) == 4


def test_a_pod_that_comes_late_to_a_group_that_runs_does_not_wait_for_the_others() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    three = {"group": "ring", "group-size": "3"}
    cluster.create("one", 2, options=three, labels=LABEL, gated=False)
    cluster.give("one", "a", ("GPU-a.0", "GPU-a.1"))
    cluster.create("two", 2, options=three, labels=LABEL)
    cluster.round()
    assert len(cluster.pinned("two")) == 2
