"""Groups whose pods all wait: pins for all of them first, gates afterwards; until the first opens all is taken back."""

import json
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.decisions.place.cluster import BEGIN, GATE, PlacedCluster, named
from tests.decisions.place.objects import as_json
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.gate import find_gate, open_gate
from webhook.decisions.place.writes import Write
from webhook.words.choices import Placement

LABEL = {"gpu.topology/group": "ring"}
THREE = {"one": 2, "two": 1, "four": 4}
NAMES = tuple(THREE)
PLACED = "gpu.topology/placed"
FULL, RESERVE = 60, 600


def member(
    cluster: PlacedCluster, name: str, cards: int, *, size: int | None = 3, denies: bool = True, **more: Any
) -> None:
    options = {"on-violation": "deny" if denies else "warn"} | ({"group-size": str(size)} if size else {})
    cluster.create(name, cards, options=options, labels=LABEL, **more)


def group(*nodes: str, denies: bool = True, used: int = 0, two: int = 1) -> PlacedCluster:
    """A group of three on nodes with eight cards, of which so many of each are in use."""
    cluster = PlacedCluster(*(named(h20(), name) for name in nodes or ("a",)))
    for node in cluster.nodes if used else ():
        takes(cluster, node, *range(used))
    for name, cards in (THREE | {"two": two}).items():
        member(cluster, name, cards, denies=denies)
        cluster.now += 1
    return cluster


def takes(cluster: PlacedCluster, node: str, *indices: int) -> str:
    """A pod without a gate has these cards of a node; its name is returned."""
    name = f"other-{cluster.version}"
    cluster.create(name, len(indices), gated=False)
    cluster.give(name, node, tuple(f"GPU-{node}.{index}" for index in indices))
    return name


def pinned(cluster: PlacedCluster, *names: str) -> list[int]:
    """How many cards each pod is pinned to."""
    return [len(cluster.pinned(name)) for name in names or NAMES]


def gated(cluster: PlacedCluster, *names: str) -> list[bool]:
    return [bool(cluster.gates(name)) for name in names or NAMES]


def decided(cluster: PlacedCluster, busy: tuple[str, ...] = ()) -> dict[str, Write]:
    """What the planner wants now, by pod, without doing it."""
    return {write.name: write for write in cluster.planner.decide(cluster.now, BEGIN, busy)}


def begun() -> PlacedCluster:
    """A group of which the first pod is past its gate, and the others are pinned behind theirs."""
    cluster = group("a", "b", used=1)
    cluster.round()
    cluster.round()
    assert gated(cluster) == [False, True, True]
    return cluster


@pytest.mark.parametrize("two", [1, 2])
@pytest.mark.parametrize("denies", [False, True])
def test_a_group_of_which_one_pod_is_being_written_waits_for_it(two: int, denies: bool) -> None:
    """The condition of a pod is on its way to the API server: nothing may be decided about the others meanwhile."""
    cluster = group(denies=denies, used=2, two=two)
    for busy in NAMES:
        cluster.round(busy=(f"team/{busy}",))
        assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [True, True, True])


def test_without_room_for_all_no_pod_gets_cards_and_each_says_so() -> None:
    cluster = group(used=2)
    for _ in range(3):
        cluster.round()
        cluster.now += 1000
    assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [True, True, True])
    for name in NAMES:
        assert cluster.why(name)[0] == "NoFreeCards"
        assert "the 3 pods of group ring need 7 free cards" in cluster.why(name)[1]


def test_all_are_pinned_before_the_gate_of_the_oldest_is_opened_and_then_the_others() -> None:
    cluster = group()
    cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([2, 1, 4], [True, True, True])
    assert [cluster.label(name) for name in NAMES] == ["waiting"] * 3
    cluster.round()
    assert gated(cluster) == [False, True, True]
    for left in ([False, False, True], [False, False, False]):
        cluster.schedule()
        cluster.round()
        assert gated(cluster) == left
    cluster.schedule()
    assert [write.result for write in cluster.round()] == ["taken"]
    assert cluster.round() == []


@pytest.mark.parametrize("lost", NAMES)
def test_a_pin_that_was_not_written_takes_all_pins_back(lost: str) -> None:
    cluster = group()
    for name, write in decided(cluster).items():
        if name != lost:
            cluster.apply(write)
    for _ in range(1 if lost == "one" else 2):  # the pin of the oldest goes first
        cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [True, True, True])
    assert not any(PLACED in cluster.pods[name]["metadata"]["annotations"] for name in NAMES)
    kept = next(name for name in NAMES if name != lost)
    assert cluster.why(kept) == (
        "TakenBack",
        f"GT650: the cards that were chosen for group ring are given back: pod {lost} has none",
    )
    cluster.round()
    assert pinned(cluster) == [2, 1, 4]


def test_the_pin_of_the_pod_whose_gate_would_be_opened_first_is_taken_back_first() -> None:
    cluster = group()
    cluster.round()
    opening = decided(cluster)
    assert list(opening) == ["one"]
    takes(cluster, "a", 7)
    takes(cluster, "a", *(int(card[-1]) for card in cluster.cards("four")))
    assert [write.result for write in decided(cluster).values()] == ["taken-back"]
    (back,) = decided(cluster).values()
    assert back.name == "one"
    cluster.apply(back)
    assert sorted(write.name for write in decided(cluster).values()) == ["four", "two"]


def test_until_the_first_gate_is_open_a_card_that_is_taken_takes_all_back() -> None:
    cluster = group("a", "b")
    cluster.round()
    assert {card[0] for name in NAMES for card in cluster.cards(name)} == {"a"}
    takes(cluster, "a", int(cluster.cards("four")[0][-1]), 7)
    for _ in range(3):
        cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([2, 1, 4], [True, True, True])
    assert {card[0] for name in NAMES for card in cluster.cards(name)} == {"b"}


def test_once_the_first_gate_is_open_a_card_that_is_taken_takes_nothing_back() -> None:
    cluster = begun()
    before = {name: cluster.cards(name) for name in NAMES}
    (card,) = before["two"]
    takes(cluster, card[0], int(card[-1]))
    for _ in range(4):
        cluster.schedule()
        cluster.round()
    assert gated(cluster) == [False, False, False]
    assert {name: cluster.cards(name) for name in NAMES} == before


def test_until_the_first_gate_is_open_a_node_that_is_cordoned_takes_all_back() -> None:
    cluster = group("a", "b")
    cluster.round()
    cluster.add_node(named(h20(), "a"), unschedulable=True)
    for _ in range(3):
        cluster.round()
    assert {card[0] for name in NAMES for card in cluster.cards(name)} == {"b"}
    assert gated(cluster) == [True, True, True]


@pytest.mark.parametrize("gone", NAMES)
def test_until_the_first_gate_is_open_a_pod_that_is_gone_takes_all_back(gone: str) -> None:
    cluster = group()
    cluster.round()
    cluster.delete(gone)
    rest = [name for name in NAMES if name != gone]
    for _ in range(3):
        cluster.round()
    assert (pinned(cluster, *rest), gated(cluster, *rest)) == ([0, 0], [True, True])
    assert cluster.why(rest[0]) == ("GroupIncomplete", "GT633: 2 of 3 pods of group ring are there")
    member(cluster, gone, THREE[gone])
    cluster.round()
    assert pinned(cluster) == [2, 1, 4]


def test_a_pod_that_is_being_deleted_is_none_of_the_group() -> None:
    """As the pods of a Job, which have a finalizer."""
    cluster = group()
    cluster.pods["four"]["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    cluster.tell("four")
    cluster.round()
    assert cluster.why("one") == ("GroupIncomplete", "GT633: 2 of 3 pods of group ring are there")
    ended = takes(cluster, "a", 0)
    cluster.pods[ended]["metadata"] |= {"labels": LABEL, "deletionTimestamp": "2026-11-22T12:00:00Z"}
    cluster.tell(ended)
    cluster.round()
    assert pinned(cluster) == [0, 0, 0]


def test_once_the_first_gate_is_open_a_pod_that_is_gone_takes_nothing_back() -> None:
    cluster = begun()
    cluster.delete("two")
    for _ in range(3):
        cluster.schedule()
        cluster.round()
    assert (pinned(cluster, "one", "four"), gated(cluster, "one", "four")) == ([2, 4], [False, False])


@pytest.mark.parametrize("rounds", range(5))
def test_the_next_leader_goes_on_where_the_last_one_stopped(rounds: int) -> None:
    cluster = group("a", "b")
    for _ in range(rounds):
        cluster.round()
        cluster.schedule()
    before = {name: cluster.cards(name) for name in NAMES if cluster.pinned(name)}
    cluster.restart()
    for _ in range(6):
        cluster.round()
        cluster.schedule()
    assert (pinned(cluster), gated(cluster)) == ([2, 1, 4], [False, False, False])
    assert {name: cluster.cards(name) for name in before} == before
    assert {json.loads(cluster.pods[name]["metadata"]["annotations"][PLACED])["attempt"] for name in NAMES} == {1}


def test_a_pod_more_than_the_group_counts_gets_its_cards_with_the_others_or_nobody_does() -> None:
    cluster = group()
    cluster.round()
    member(cluster, "five", 2)
    for _ in range(4):
        cluster.round()
    assert pinned(cluster, *NAMES, "five") == [0, 0, 0, 0]
    cluster.delete("five")
    member(cluster, "five", 1)
    cluster.round()
    assert pinned(cluster, *NAMES, "five") == [2, 1, 4, 1]


def test_where_pods_differ_about_the_size_of_their_group_the_greatest_holds() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    member(cluster, "one", 2, size=2)
    member(cluster, "two", 1, size=3)
    cluster.round()
    assert cluster.why("one")[1] == cluster.why("two")[1] == "GT633: 2 of 3 pods of group ring are there"


def test_a_pod_that_names_no_size_goes_alone_and_the_group_follows_it() -> None:
    cluster = group(used=2)
    member(cluster, "alone", 1, size=None)
    cluster.round()
    assert pinned(cluster, *NAMES, "alone") == [0, 0, 0, 1]


def test_a_group_waits_while_another_program_holds_one_of_its_pods_back() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    member(cluster, "one", 2)
    member(cluster, "two", 1)
    gates = [{"name": "example.org/quota"}, {"name": GATE}]
    member(cluster, "four", 4, gated=False, schedulingGates=gates)
    for _ in range(3):
        cluster.round()
        cluster.now += FULL
    assert pinned(cluster) == [0, 0, 0]
    assert cluster.why("one") == (
        "OtherGates",
        "GT651: other scheduling gates hold pods of group ring back: example.org/quota (1 of them)",
    )
    assert cluster.why("four")[1] == "GT626: other scheduling gates hold the pod back: example.org/quota"
    cluster.pods["four"]["spec"]["schedulingGates"].pop(0)
    cluster.tell("four")
    cluster.round()
    assert pinned(cluster) == [2, 1, 4]


def test_pods_that_warn_and_never_fit_together_go_to_the_scheduler_together_and_without_cards() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    for name, cards in {"one": 6, "two": 4, "four": 4}.items():
        member(cluster, name, cards, denies=False)
    cluster.round()
    assert gated(cluster) == [True, True, True]
    cluster.now += FULL
    cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [False, False, False])


def test_pods_that_warn_stay_together_while_other_pods_have_their_cards() -> None:
    cluster = group(denies=False, used=2)
    cluster.round()
    for passed in (FULL, 2 * RESERVE - 2 * FULL):
        cluster.now += passed
        cluster.round()
        assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [True, True, True])
    cluster.now += FULL
    cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [False, False, False])


@pytest.mark.parametrize("first", ["has-room", "never-fits"])
def test_groups_of_as_many_pods_and_cards_that_need_other_room_get_their_own_answers(first: str) -> None:
    """Three nodes of four cards have room for 4, 2, 2 and 4, but not for 4, 3, 3 and 2."""
    cluster = PlacedCluster(*(named(a100_pcie_bridged(), name) for name in "abc"))
    for node in "abc":
        takes(cluster, node, 0, 1, 2, 3)
    groups = {"has-room": (4, 2, 2, 4), "never-fits": (4, 3, 3, 2)}
    for group in sorted(groups, key=lambda name: name != first):
        for number, cards in enumerate(groups[group]):
            options = {"group-size": "4", "on-violation": "warn"}
            cluster.create(f"{group}-{number}", cards, options=options, labels={"gpu.topology/group": group})
    cluster.round()
    cluster.now += FULL
    cluster.round()
    found = {group: {cluster.label(f"{group}-{number}") for number in range(4)} for group in groups}
    assert found == {"has-room": {"waiting"}, "never-fits": {"released"}}


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("one_node", [True, False])
def test_of_equal_nodes_the_first_name_is_taken_for_a_group(names: str, *, one_node: bool) -> None:
    cluster = PlacedCluster(*(named(h20(), name) for name in names))
    options = {"group-size": "2"} | ({"group": "ring"} if one_node else {})
    for name in ("one", "two"):
        cluster.create(name, 2, options=options, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == {"a"}


@pytest.mark.parametrize(("most", "nodes"), [("1", set()), ("2", {"a", "b"})])
def test_a_group_uses_no_more_nodes_than_it_allows(most: str, nodes: set[str]) -> None:
    """Two pods with 8 GPUs each need two nodes of 8 GPUs."""
    cluster = PlacedCluster(*(named(h20(), name) for name in "abc"))
    for name in ("one", "two"):
        cluster.create(name, 8, options={"group-size": "2", "max-nodes": most}, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == nodes


@pytest.mark.parametrize("names", ["abcd", "dcba"])
def test_of_equal_racks_the_one_with_the_first_name_is_taken(names: str) -> None:
    cluster = PlacedCluster()
    for name in names:
        cluster.add_node(named(a100_pcie_bridged(), name))
        cluster.nodes[name]["metadata"]["labels"]["network.topology.nvidia.com/leaf"] = "z" if name in "ab" else "y"
        cluster.tell_node(name)
    for name in ("one", "two"):
        cluster.create(name, 4, options={"group-size": "2"}, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == {"a", "b"}


@pytest.mark.parametrize(
    ("near", "far", "nodes"),
    [
        ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", {"a", "c"}),
        ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0", {"a", "b"}),
        ("accelerator.topograph.run/domain", "fabric.topograph.run/tier-0", {"a", "c"}),
        ("accelerator.topograph.run/sub-domain", "accelerator.topograph.run/domain", {"a", "c"}),
        ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", {"a", "c"}),
        ("fabric.example.com/tier-0", "example.com/rack", {"a", "b"}),
    ],
)
def test_of_topographs_labels_the_closest_decides_whichever_release_wrote_them(
    near: str, far: str, nodes: set[str]
) -> None:
    cluster = PlacedCluster()
    for name in "abcd":
        cluster.add_node(named(a100_pcie_bridged(), name))
        labels = {near: "x" if name in "ac" else "y", far: "x" if name in "ab" else "y"}
        cluster.nodes[name]["metadata"]["labels"].update(labels)
        cluster.tell_node(name)
    for name in ("one", "two"):
        cluster.create(name, 4, options={"group-size": "2"}, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == nodes


def test_the_rest_of_a_group_that_has_begun_and_warns_goes_on_at_once_because_others_hold_cards_idle() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    takes(cluster, "a", *range(4))
    member(cluster, "one", 4, gated=False)
    cluster.give("one", "a", tuple(f"GPU-a.{index}" for index in range(4, 8)))
    for name, cards in {"two": 1, "four": 4}.items():
        member(cluster, name, cards, denies=False)
    cluster.round()
    assert gated(cluster, "two", "four") == [True, True]
    cluster.now += FULL
    cluster.round()
    assert gated(cluster, "two", "four") == [False, False]


def test_pods_that_warn_get_their_cards_together_when_other_pods_end() -> None:
    cluster = group(denies=False, used=2)
    cluster.round()
    cluster.now += FULL
    cluster.round()
    for name in {*cluster.pods} - {*NAMES}:
        cluster.delete(name)
    cluster.round()
    assert pinned(cluster) == [2, 1, 4]


def test_a_group_with_a_pod_that_denies_waits_for_cards() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    takes(cluster, "a", 0, 1)
    for name, cards in THREE.items():
        member(cluster, name, cards, denies=name == "two")
    cluster.round()
    cluster.now += FULL
    cluster.round()
    assert (pinned(cluster), gated(cluster)) == ([0, 0, 0], [True, True, True])


def test_a_leader_without_cards_does_not_let_the_others_go_one_by_one() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    takes(cluster, "a", 0, 1)
    leader = cluster.create("leader", gated=False, labels=LABEL)
    del leader["metadata"]["annotations"]["gpu.topology/injected"]
    leader["spec"]["nodeName"] = "a"
    cluster.tell("leader")
    for name, cards in THREE.items():
        member(cluster, name, cards, size=4)
        cluster.round()
    assert (pinned(cluster), cluster.why("one")[0]) == ([0, 0, 0], "NoFreeCards")


def webhook_opens(cluster: PlacedCluster, name: str) -> None:
    """A replica of the webhook opens the gate of a pod, because no planner is alive."""
    record = cluster.records[f"team/{name}"]
    assert record.unbound
    gate = find_gate(record.unbound.pod)
    assert gate
    cluster.pods[name] = jsonpatch.apply_patch(cluster.pods[name], as_json(open_gate(gate, Placement.RELEASED)))
    cluster.tell(name)


@pytest.mark.parametrize("opened", NAMES)
def test_a_pin_whose_gate_the_webhook_opened_is_adopted_and_the_others_follow(opened: str) -> None:
    cluster = group(denies=False)
    cluster.round()
    before = {name: cluster.cards(name) for name in NAMES}
    webhook_opens(cluster, opened)
    cluster.create("stranger", 8 - 7 + THREE[opened], options={"on-violation": "deny"})
    cluster.restart()
    cluster.round()
    assert (cluster.label(opened), cluster.pinned("stranger")) == ("pinned", ())
    for _ in range(4):
        cluster.schedule()
        cluster.round()
    assert {name: cluster.cards(name) for name in NAMES} == before
    assert gated(cluster) == [False, False, False]
    assert cluster.pinned("stranger") == ()


def test_a_pin_whose_gate_the_webhook_opened_holds_no_card_that_another_pod_has() -> None:
    cluster = group("a", "b", denies=False)
    cluster.round()
    webhook_opens(cluster, "one")
    card = cluster.cards("one")[0]
    takes(cluster, card[0], int(card[-1]))
    cluster.restart()
    cluster.round()
    assert cluster.label("one") == "released"


def test_what_the_webhook_opened_without_a_pin_is_not_adopted() -> None:
    cluster = group(denies=False)
    webhook_opens(cluster, "one")
    cluster.restart()
    cluster.round()
    assert (cluster.label("one"), pinned(cluster)) == ("released", [0, 1, 4])


def test_the_rest_of_a_group_that_has_begun_gets_cards_near_those_that_have_theirs() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    one_node = {"group": "ring", "group-size": "2", "on-violation": "deny"}
    takes(cluster, "a", 0, 1, 2, 3)
    cluster.create("one", 2, options=one_node, labels=LABEL, nodeSelector={"kubernetes.io/hostname": "b"})
    cluster.round()
    cluster.now += FULL
    cluster.round()
    assert cluster.gates("one") == []
    cluster.create("two", 2, options=one_node, labels=LABEL)
    cluster.round()
    assert {card[0] for name in ("one", "two") for card in cluster.cards(name)} == {"b"}


def test_the_nodes_of_a_pod_are_narrowed_when_its_gate_opens_because_that_cannot_be_taken_back() -> None:
    cluster = PlacedCluster(*(named(h20(), f"n{number:03}") for number in range(102)))
    for name, cards in THREE.items():
        member(cluster, name, cards)
    cluster.round()
    assert pinned(cluster) == [2, 1, 4]
    assert not any("affinity" in cluster.pods[name]["spec"] for name in NAMES)
    for _ in range(3):
        cluster.round()
        cluster.schedule()
    assert all("affinity" in cluster.pods[name]["spec"] for name in NAMES)


def test_a_pod_that_waited_long_for_its_turn_says_in_the_end_that_it_has_cards() -> None:
    cluster = group()
    cluster.create("ahead", 1, options={"on-violation": "deny"}, priority=10)
    cluster.round()
    cluster.now += 31
    cluster.round()
    assert cluster.why("one")[0] == "Soon"
    cluster.schedule()
    cluster.round()
    assert (cluster.gates("one"), cluster.why("one")[0]) == ([], "Pinned")


@pytest.mark.slow
def test_a_group_whose_pins_are_undone_again_and_again_is_chosen_anew_ever_more_seldom() -> None:
    cluster = group()
    chosen = 0
    for _ in range(600):
        writes = cluster.round()
        chosen += sum(write.result == "pinned" for write in writes) // 3
        for name in NAMES[1:]:
            cluster.pods[name]["metadata"]["annotations"].pop("nvidia.com/use-gpuuuid", None)
            cluster.pods[name]["metadata"]["annotations"].pop(PLACED, None)
            cluster.tell(name)
        cluster.now += 0.5
    assert 5 <= chosen <= 12
    for _ in range(4):
        cluster.now += 60
        cluster.round()
    assert gated(cluster)[0] is False


def test_cards_of_a_copied_machine_are_those_of_the_node_that_was_chosen() -> None:
    cluster = PlacedCluster()
    for name in ("b", "a"):
        copied = replace(named(h20(), "copy"), node=name)
        cluster.add_node(copied)
    for name, cards in THREE.items():
        member(cluster, name, cards, nodeSelector={"kubernetes.io/hostname": "b"})
    for _ in range(2):
        cluster.round()
    assert (pinned(cluster), sorted(gated(cluster))) == ([2, 1, 4], [False, True, True])


KUEUE = {"kueue.x-k8s.io/pod-group-name": "ring"}
GANG = {"scheduling.x-k8s.io/pod-group": "ring"}


@pytest.mark.parametrize(
    ("labels", "size", "options"),
    [
        (KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "3"}, {}),
        (GANG, {}, {"group-size": "3"}),
    ],
    ids=["plain pods of Kueue", "a PodGroup"],
)
def test_groups_of_other_programs_get_their_cards_together(
    labels: dict[str, str], size: dict[str, str], options: dict[str, str]
) -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    for name, cards in {"one": 2, "two": 2}.items():
        cluster.create(name, cards, labels=labels, annotations=size, options=options)
    cluster.round()
    assert pinned(cluster, "one", "two") == [0, 0]
    cluster.create("three", 4, labels=labels, annotations=size, options=options)
    for _ in range(2):
        cluster.round()
    assert pinned(cluster, "one", "two", "three") == [2, 2, 4]


@pytest.mark.parametrize("text", ["", "0", "-1", "three", "٣", "3.0", "99999"])
def test_a_size_that_no_program_writes_is_none(text: str) -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("one", 2, labels=KUEUE, annotations={"kueue.x-k8s.io/pod-group-total-count": text})
    cluster.round()
    assert pinned(cluster, "one") == [2]
