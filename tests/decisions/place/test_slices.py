"""Slices and single cards of pods that are not injected: linked if there are several, and where they break no pair."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.control_plane.hami.nodes import SLOTS
from tests.decisions.place.cluster import Object, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, hgx_h100
from webhook.decisions.place.card_parts import PartAsked
from webhook.decisions.place.pod import MOST_PARTS
from webhook.decisions.place.writes import Write
from webhook.objects.pod import Namespace

SLICES_ON = {"slices": "on"}


def machine(*nodes: str, **settings: Any) -> PlacedCluster:
    """Nodes of four A100 with the pairs GPU0 GPU1 and GPU2 GPU3."""
    return PlacedCluster(*(named(a100_pcie_bridged(), node) for node in nodes), settings={**SLICES_ON, **settings})


def asks(
    cluster: PlacedCluster, name: str, count: int = 1, *, containers: int = 1, cores: int | None = 30, **limits: int
) -> Object:
    """A pod with parts of so many cards, as admission leaves it."""
    pod = cluster.create(name, *[count] * containers)
    del pod["metadata"]["annotations"]["gpu.topology/injected"]
    for container in pod["spec"]["containers"]:
        asked = {"nvidia.com/gpu": count, **limits, **({"nvidia.com/gpucores": cores} if cores is not None else {})}
        container["resources"]["limits"] = {key: str(value) for key, value in asked.items()}
    cluster.tell(name)
    return pod


def part(mib: int) -> dict[str, int]:
    """The memory of each card."""
    return {"nvidia.com/gpumem": mib}


def runs(
    cluster: PlacedCluster, name: str, *cards: int, node: str = "a", memory_mib: int = 8000, cores: int = 30
) -> None:
    """A pod without a gate that has parts of these cards."""
    cluster.create(name, len(cards), gated=False)
    cluster.give(name, node, tuple(f"GPU-{node}.{card}" for card in cards), memory_mib=memory_mib, cores=cores)


def placed(cluster: PlacedCluster, name: str) -> list[str]:
    """The cards of a pod after a round."""
    cluster.round()
    return cluster.cards(name)


def test_a_slice_goes_to_a_card_that_is_shared_already() -> None:
    cluster = machine("a")
    runs(cluster, "other", 2)
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == ["a:2"]
    assert cluster.gates("pod") == []


def test_a_slice_that_has_no_room_there_goes_beside_it() -> None:
    cluster = machine("a")
    runs(cluster, "other", 2, memory_mib=70000)
    asks(cluster, "pod", **part(20000))
    assert placed(cluster, "pod") == ["a:3"]


def test_a_slice_goes_to_the_node_that_it_breaks_least() -> None:
    cluster = machine("a", "b")
    runs(cluster, "whole", 0, node="b", memory_mib=81920, cores=100)
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == ["b:1"]


def test_several_slices_of_one_container_get_linked_cards() -> None:
    cluster = machine("a")
    runs(cluster, "one", 1)
    runs(cluster, "two", 2, memory_mib=80000)
    asks(cluster, "pod", 2, **part(8000))
    assert placed(cluster, "pod") == ["a:0", "a:1"]


def test_several_slices_share_a_pair_that_is_shared_already() -> None:
    cluster = machine("a", "b")
    runs(cluster, "other", 2, 3, node="b")
    asks(cluster, "pod", 2, **part(8000))
    assert placed(cluster, "pod") == ["b:2", "b:3"]


def test_on_a_machine_whose_links_are_all_alike_shared_cards_come_first() -> None:
    cluster = PlacedCluster(named(hgx_h100(), "a"), settings=SLICES_ON)
    runs(cluster, "other", 5)
    asks(cluster, "pod", 2, **part(8000))
    found = placed(cluster, "pod")
    assert "a:5" in found
    assert len(found) == 2


@pytest.mark.parametrize(
    ("used", "asked", "has_room"),
    [
        ({"memory_mib": 41920, "cores": 0}, part(40000), True),
        ({"memory_mib": 41921, "cores": 0}, part(40000), False),
        ({"memory_mib": 0, "cores": 70}, part(1), True),
        ({"memory_mib": 0, "cores": 71}, part(1), False),
        ({"memory_mib": 40960, "cores": 0}, {"nvidia.com/gpumem-percentage": 50}, True),
        ({"memory_mib": 40961, "cores": 0}, {"nvidia.com/gpumem-percentage": 50}, False),
    ],
)
def test_a_card_has_room_as_hami_counts_it(used: dict[str, int], asked: dict[str, int], has_room: bool) -> None:
    cluster = machine("a")
    for card in range(4):
        runs(cluster, f"other-{card}", card, memory_mib=used["memory_mib"], cores=used["cores"])
    asks(cluster, "pod", **asked)
    assert bool(placed(cluster, "pod")) is has_room


def test_a_pod_without_room_says_so_and_is_let_go_after_a_minute() -> None:
    cluster = machine("a")
    for card in range(4):
        runs(cluster, f"other-{card}", card, memory_mib=81000)
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == []
    reason, message = cluster.why("pod")
    assert reason == "NoFreeCards"
    assert message.startswith("GT658: no node has room for the pod on 1 cards: a: 0 of 4 cards")
    cluster.now += 61
    cluster.round()
    assert (cluster.label("pod"), cluster.gates("pod")) == ("released", [])
    assert cluster.why("pod")[1].startswith("GT659")


def test_a_card_that_is_promised_to_a_pod_takes_no_other_slice_until_hami_counts_the_first() -> None:
    cluster = machine("a")
    for name in ("one", "two"):
        asks(cluster, name, **part(8000))
    cluster.round()
    pinned = next(name for name in ("one", "two") if cluster.gates(name) == [])
    other = "two" if pinned == "one" else "one"
    assert cluster.gates(other) == ["gpu.topology/place"]
    node, card = cluster.cards(pinned)[0].split(":")
    cluster.give(pinned, node, (f"GPU-{node}.{card}",), memory_mib=8000, cores=30)
    assert placed(cluster, other) == cluster.cards(pinned)


def test_whole_cards_take_no_card_that_is_promised_to_a_slice() -> None:
    cluster = machine("a")
    asks(cluster, "slice", **part(8000))
    cluster.round()
    cluster.create("whole", 4)
    cluster.round()
    assert cluster.cards("whole") == []
    assert cluster.why("whole")[0] == "NoFreeCards"


def test_a_pinned_slice_keeps_its_card_while_other_slices_come_to_it() -> None:
    cluster = machine("a")
    runs(cluster, "other", 0)
    asks(cluster, "pod", **part(8000))
    cluster.round()
    runs(cluster, "third", 0)
    cluster.round()
    assert (cluster.cards("pod"), cluster.label("pod")) == (["a:0"], "pinned")
    cluster.refuse("pod", "0/1 nodes are available: 1 ResourceQuotaNotFit.")
    cluster.round()
    assert (cluster.cards("pod"), cluster.label("pod")) == ([], "released")


def test_a_slice_whose_room_was_taken_gets_other_cards_of_the_node() -> None:
    cluster = machine("a")
    runs(cluster, "other", 0)
    asks(cluster, "pod", **part(8000))
    cluster.round()
    runs(cluster, "third", 0, memory_mib=70000)
    cluster.refuse("pod")
    cluster.now += 1
    cluster.round()
    assert cluster.cards("pod") == ["a:1"]


@pytest.mark.parametrize("change", ["off", "observe", "several", "mutex", "own-list"])
def test_a_pod_that_the_planner_does_not_place_is_let_go_at_once(change: str) -> None:
    cluster = machine("a", slices=change if change in ("off", "observe") else "on")
    pod = asks(cluster, "pod", containers=2 if change == "several" else 1, **part(8000))
    if change == "mutex":
        pod["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] = "topology-aware,mutex"
    if change == "own-list":
        pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] = "GPU-a.3"
    cluster.tell("pod")
    cluster.round()
    assert (cluster.label("pod"), cluster.gates("pod")) == ("released", [])


def test_a_single_card_that_nobody_asked_to_inject_breaks_no_pair() -> None:
    cluster = machine("a")
    runs(cluster, "other", 2)
    pod = cluster.create("pod", 1)
    del pod["metadata"]["annotations"]["gpu.topology/injected"]
    cluster.tell("pod")
    assert placed(cluster, "pod") == ["a:3"]


def test_options_of_the_namespace_for_injected_pods_do_not_hold_a_slice_back() -> None:
    wanted = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
    cluster = PlacedCluster(named(a100_pcie_bridged(), "a"), settings=SLICES_ON, namespace=wanted)
    for card in (1, 3):
        runs(cluster, f"other-{card}", card, memory_mib=81000)
    asks(cluster, "pod", 2, **part(8000))
    assert placed(cluster, "pod") == ["a:0", "a:2"]


def bound(cluster: PlacedCluster, name: str, *cards: int, memory_mib: int = 8000, cores: int = 30) -> list[Write]:
    """What is written about a pod without mark and gate that HAMi gives parts of these cards."""
    pod = cluster.create(name, len(cards), gated=False)
    del pod["metadata"]["annotations"]["gpu.topology/injected"]
    cluster.tell(name)
    cluster.give(name, "a", tuple(f"GPU-a.{card}" for card in cards), memory_mib=memory_mib, cores=cores)
    return [write for write in cluster.round() if write.name == name]


def test_observed_a_slice_that_broke_a_pair_is_counted_and_nothing_is_changed() -> None:
    cluster = machine("a", slices="observe")
    runs(cluster, "other", 0)
    (write,) = bound(cluster, "pod", 2)
    assert (write.result, write.patch, write.event, write.given_up) == ("slices-better-possible", (), None, 0.0)
    assert write.log["text"] == (
        "GT660: HAMi gave GPU2 of node a (one card), which takes 460 GB/s from other pods; GPU0 (one card) had room, "
        "and would take 0 GB/s"
    )


def test_observed_slices_without_link_name_the_pair_that_had_room() -> None:
    (write,) = bound(machine("a", slices="observe"), "pod", 1, 2)
    assert (write.result, write.given_up) == ("slices-better-possible", 230.0)


@pytest.mark.parametrize("cards", [(0,), (0, 1)])
def test_observed_the_best_slices_are_only_counted(cards: tuple[int, ...]) -> None:
    cluster = machine("a", slices="observe")
    runs(cluster, "other", 0, 1)
    (write,) = bound(cluster, "pod", *cards)
    assert (write.result, write.given_up) == ("slices-same", 0.0)


def test_nothing_is_said_of_slices_where_they_are_off_or_the_namespace_has_not_opted_in() -> None:
    assert bound(machine("a", slices="off"), "pod", 1, 2) == []
    cluster = machine("a", slices="observe")
    cluster.namespace = Namespace("team", {}, {})
    assert bound(cluster, "pod", 1, 2) == []


def test_observed_a_single_whole_card_that_broke_a_pair_is_counted() -> None:
    cluster = machine("a", slices="observe")
    runs(cluster, "other", 0)
    (write,) = bound(cluster, "pod", 2, memory_mib=81920, cores=100)
    assert write.result == "slices-better-possible"
    cluster = machine("a", slices="observe")
    runs(cluster, "other", 0)
    (write,) = bound(cluster, "pod", 1, memory_mib=81920, cores=100)
    assert write.result == "slices-same"


def test_a_card_takes_no_more_containers_than_hami_lets_share_it() -> None:
    cluster = machine("a")
    for number in range(SLOTS):
        runs(cluster, f"other-{number}", 2, memory_mib=10, cores=0)
    asks(cluster, "pod", cores=None, **part(10))
    assert placed(cluster, "pod") == ["a:3"]


def test_a_whole_card_of_another_pod_has_no_room() -> None:
    cluster = machine("a")
    for card in range(3):
        runs(cluster, f"whole-{card}", card, memory_mib=100, cores=100)
    asks(cluster, "pod", cores=None, **part(10))
    assert placed(cluster, "pod") == ["a:3"]


@pytest.mark.parametrize(
    "forged", ["GPU-a.2,NVIDIA,-81920,-100:;", "GPU-a.2,NVIDIA,x,y:;", f"GPU-a.2,NVIDIA,{'9' * 5000},1:;"]
)
def test_amounts_that_are_none_free_nothing(forged: str) -> None:
    cluster = machine("a")
    runs(cluster, "other", 2, memory_mib=81000)
    cluster.create("forged", 1, gated=False)
    cluster.pods["forged"]["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": forged,
    }
    cluster.tell("forged")
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == ["a:3"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40000), st.integers(0, 100)), max_size=12)
)
def test_when_all_pods_are_gone_all_cards_have_room_again(changes: list[tuple[int, int, int, int]]) -> None:
    cluster = machine("a")
    for name, card, memory, cores in changes:
        if f"pod-{name}" in cluster.pods:
            cluster.delete(f"pod-{name}")
        runs(cluster, f"pod-{name}", card, (card + 1) % 4, memory_mib=memory, cores=cores)
    for gone in list(cluster.pods):
        cluster.delete(gone)
    whole = PartAsked(0, 100, 100)
    assert cluster.world.has_room_for(whole, "a", [f"GPU-a.{card}" for card in range(4)])


def test_a_card_that_was_shared_once_and_is_a_pods_own_now_has_no_room() -> None:
    cluster = machine("a")
    for card in range(3):
        runs(cluster, "gone", card)
        cluster.delete("gone")
        runs(cluster, f"whole-{card}", card, memory_mib=100, cores=100)
    asks(cluster, "pod", cores=None, **part(10))
    assert placed(cluster, "pod") == ["a:3"]


def test_a_list_of_devices_takes_no_room_on_cards_of_another_node() -> None:
    cluster = machine("a", "b")
    runs(cluster, "other", 2)
    for cores in (30, 100):
        forged = "".join(f"GPU-a.{card},NVIDIA,81920,{cores}:" for card in range(4))
        cluster.create(f"forger-{cores}", 1, gated=False)
        cluster.pods[f"forger-{cores}"]["metadata"]["annotations"] |= {
            "hami.io/vgpu-node": "b",
            "hami.io/vgpu-devices-allocated": f"{forged};",
        }
        cluster.tell(f"forger-{cores}")
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == ["a:2"]


@pytest.mark.parametrize(("devices", "kept"), [(MOST_PARTS, True), (MOST_PARTS + 1, False)])
def test_of_a_list_without_end_no_parts_are_kept_and_its_cards_have_no_room(devices: int, kept: bool) -> None:
    cluster = machine("a")
    cluster.create("forger", 1, gated=False)
    cluster.pods["forger"]["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": "GPU-a.2,NVIDIA,0,0:" * devices + ";",
    }
    cluster.tell("forger")
    assert bool(cluster.records["team/forger"].parts) is kept
    assert cluster.records["team/forger"].held == ("GPU-a.2",)
    runs(cluster, "other", 2)
    asks(cluster, "pod", **part(8000))
    assert placed(cluster, "pod") == ["a:3"]
