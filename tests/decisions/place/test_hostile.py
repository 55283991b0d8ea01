"""What users may write onto their pods to mislead the planner, or to keep it from its work."""

import json
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest

from tests.budget.work import instructions
from tests.decisions.place.cluster import GATE, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, h20
from webhook.decisions.place.placed_annotation import (
    MOST_CARDS,
    MOST_OTHERS,
    Placed,
    format_placed,
    read_placed,
)
from webhook.hardware.topology.model import NodeTopology, NvLink

PLACED = "gpu.topology/placed"
PIN = "nvidia.com/use-gpuuuid"
GOOD = Placed(
    node="a", cards=("GPU-a.0",), link="NVLink", bandwidth=1.5, share=0.5, attempt=2, at="2026-11-22T12:00:00Z"
)


def test_what_was_chosen_is_read_back_from_one_line() -> None:
    full = Placed(
        **{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | {"gave_up": ("x",), "refused": ("b",)}
    )
    for placed in (GOOD, full):
        text = format_placed(placed)
        assert "\n" not in text
        assert read_placed({PLACED: text}) == placed
    assert json.loads(format_placed(full))["gaveUp"] == ["x"]
    assert "gaveUp" not in format_placed(GOOD)


def changed(**members: Any) -> str:
    """The annotation with other members."""
    return json.dumps(json.loads(format_placed(GOOD)) | members)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "{",
        '"text"',
        changed(cards=[]),
        changed(cards="GPU-a.0"),
        changed(cards=[1]),
        changed(cards=["GPU-a.0"] * (MOST_CARDS + 1)),
        changed(attempt=0),
        changed(attempt=-1),
        changed(attempt="2"),
        changed(attempt=None),
        changed(bandwidth="fast"),
        changed(node=None),
        changed(refused=[[]]),
        changed(gaveUp="x" * 40_000),
        changed(gaveUp=["x"] * (MOST_OTHERS + 1)),
        changed(gaveUp=["x"], refused=["y"] * MOST_OTHERS),
        "[" * 30_000,
        '{"node": ' * 3_000,
    ],
)
def test_what_the_planner_cannot_have_written_is_nothing(text: str) -> None:
    assert read_placed({PLACED: text}) is None
    assert read_placed({}) is None


@pytest.mark.parametrize("text", [changed(more=1), changed(attempt=10**30), changed(cards=["GPU-a.0"] * MOST_CARDS)])
def test_what_a_later_planner_may_write_is_read(text: str) -> None:
    assert read_placed({PLACED: text}) is not None


def cluster() -> PlacedCluster:
    """Two nodes."""
    return PlacedCluster(named(a100_pcie_bridged(), "a"), named(h20(), "b"))


def forged(cards: list[str], **members: Any) -> dict[str, str]:
    """A pin that a user wrote."""
    return {PIN: ",".join(cards), PLACED: changed(cards=cards, **members)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "annotations",
    [
        forged(["GPU-elsewhere"], node="nowhere"),
        forged(["GPU-a.0", "GPU-b.0"]),
        forged(["GPU-a.0"] * 200),
        forged(["GPU-a.0"], attempt=10**30),
        forged(["GPU-a.0"], refused=["a", "b"]),
        {PLACED: "x" * 200_000},
        {PLACED: format_placed(GOOD)},
        {PIN: ""},
        {PIN: ",".join(f"GPU-b.{index}" for index in range(8))},
        {"gpu.topology/min-bandwidth": "x" * 100_000},
        {"gpu.topology/group-size": "9" * 5000, "gpu.topology/group": "g"},
        {"nvidia.com/use-gputype": "," * 100_000},
        {"nvidia.com/numa-bind": "perhaps"},
        {"hami.io/vgpu-node": "b"},
        {"hami.io/vgpu-node": "b" * 100_000, "hami.io/vgpu-devices-allocated": ":,;" * 50_000},
    ],
)
@pytest.mark.parametrize("gated", [True, False])
def test_whatever_stands_on_a_pod_the_planner_goes_on(annotations: dict[str, str], gated: bool) -> None:
    found = cluster()
    found.create("odd", 1, annotations=annotations, gated=gated)
    for _ in range(12):
        found.round()
        found.refuse("odd", f"at {found.now}")
        found.now += 61
    found.create("next", 8)
    found.round()
    assert len(found.pinned("next")) == 8
    assert found.round() == []


def test_a_list_of_devices_takes_no_cards_of_another_node() -> None:
    found = cluster()
    every = "".join(f"GPU-{node}.{index},NVIDIA,1,1:" for node in "ab" for index in range(8))
    found.create(
        "forger", 1, gated=False, annotations={"hami.io/vgpu-node": "a", "hami.io/vgpu-devices-allocated": every}
    )
    found.create("train", 8)
    found.create("pair", 2, options={"require-nvlink": "true"}, nodeSelector={"kubernetes.io/hostname": "a"})
    found.round()
    assert len(found.cards("train")) == 8
    assert found.why("pair")[0] == "NoFreeCards"


@pytest.mark.parametrize("is_bound", [False, True])
@pytest.mark.parametrize("devices", [{}, {"hami.io/vgpu-devices-allocated": "GPU-elsewhere,NVIDIA,1,1:;"}])
def test_a_node_is_full_by_the_pods_that_run_there_and_not_by_those_that_say_so(
    is_bound: bool, devices: dict[str, str]
) -> None:
    found = PlacedCluster(named(a100_pcie_bridged(), "a"))
    found.nodes["a"]["status"]["allocatable"] |= {"cpu": "8", "pods": "2"}
    found.tell_node("a")
    for name in ("forger", "another"):
        forger = found.create(name, gated=False, annotations={"hami.io/vgpu-node": "a", **devices})
        forger["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]
        if is_bound:
            forger["spec"]["nodeName"] = "a"
        found.tell(name)
    train = found.create("train", 2)
    train["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    found.tell("train")
    found.round()
    assert len(found.pinned("train")) == (0 if is_bound else 2)
    assert found.why("train")[0] == ("NoNode" if is_bound else "Pinned")


def test_a_pod_that_hami_had_chosen_cards_for_keeps_those_that_it_is_pinned_to_now() -> None:
    found = cluster()
    ghost = {"hami.io/vgpu-node": "a", "hami.io/vgpu-devices-allocated": "GPU-a.0,NVIDIA,1,1:;"}
    pinned = forged([f"GPU-b.{index}" for index in range(8)], node="b")
    found.create("ghost", 8, gated=False, annotations={**ghost, **pinned}, labels={"gpu.topology/placement": "pinned"})
    found.create("train", 8)
    found.round()
    assert (found.pinned("train"), found.why("train")[0]) == ((), "NoFreeCards")


def test_pods_without_labels_annotations_and_times_are_placed() -> None:
    found = cluster()
    pod = found.create("bare", 2)
    for key in ("labels", "annotations", "creationTimestamp"):
        del pod["metadata"][key]
    found.tell("bare")
    found.round()
    assert (found.cards("bare"), found.label("bare"), found.gates("bare")) == (["b:0", "b:1"], "pinned", [])


def test_thousands_of_terms_match_no_node() -> None:
    found = cluster()
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 1000}}
    found.create("odd", 1, affinity={"nodeAffinity": required})
    found.create("next", 1)
    found.round()
    assert found.why("odd")[0] == "NoNode"
    assert len(found.pinned("next")) == 1


def test_the_greatest_priority_comes_first_and_the_least_last() -> None:
    found = PlacedCluster(named(a100_pcie_bridged(), "a"))
    for name, priority in (("least", -(2**31)), ("none", None), ("most", 2**31 - 1)):
        found.create(name, 4, priority=priority)
    for name in ("most", "none", "least"):
        found.round()
        assert [each for each in found.pods if found.pinned(each)] == [name]
        found.delete(name)


def test_a_pod_of_the_same_name_begins_anew() -> None:
    found = cluster()
    found.create("train", 16, options={"on-violation": "deny"})
    found.round()
    found.now += 1000
    found.delete("train")
    found.create("train", 8, schedulingGates=[{"name": GATE}])
    (write,) = found.round()
    assert write.uid == found.pods["train"]["metadata"]["uid"]
    assert write.log["waited"] == 0.0


def named_by(place: str, name: str) -> dict[str, Any]:
    """Parts of a pod that name an object of a group."""
    if place == "Volcano":
        return {"annotations": {"scheduling.k8s.io/group-name": name}}
    return {"workloadRef": {"name": "w", "podGroup": "p", "podGroupReplicaKey": name}}


@pytest.mark.parametrize("place", ["Volcano", "a Workload"])
@pytest.mark.parametrize("length", [253, 254, 100_000])
def test_a_name_that_is_too_long_for_an_object_is_none(place: str, length: int) -> None:
    name, is_possible = "n" * length, length == 253
    found = cluster()
    found.create("train", 2, **named_by(place, name))
    found.round()
    assert [name in wish for wish in found.planner.wishes] == ([True] if is_possible else [])
    assert len(found.records["team/train"].group) < 300
    assert (name in found.records["team/train"].group) == is_possible
    assert (len(found.pinned("train")) == 2) != is_possible
    found.now += 61
    for _ in range(2):
        found.round()
    assert (len(found.pinned("train")), found.gates("train")) == (2, [])
    assert max(len(str(write.condition)) for write in found.said) < 1000


def any_links(cards: int) -> NodeTopology:
    """A machine whose agent says that any two of its cards have up to six NVLinks or none, as chance has it."""
    chance, machine = Random(cards), dgx1_v100()
    buses = [f"0000:{card:02x}:00.0" for card in range(cards)]
    links: list[list[NvLink]] = [[] for _ in buses]
    for one, other in combinations(range(cards), 2):
        if number := max(0, chance.randint(-10, 6)):
            links[one].append(NvLink(target=f"GPU{other}", count=number, active=number))
            links[other].append(NvLink(target=f"GPU{one}", count=number, active=number))
    gpus = tuple(
        replace(machine.gpus[0], index=card, uuid="", pci_bus_id=bus, minor=card, nvlinks=tuple(links[card]))
        for card, bus in enumerate(buses)
    )
    return named(replace(machine, gpus=gpus, nics=()), "a")


@pytest.mark.slow
@pytest.mark.parametrize("asked", [2, 8, pytest.param(16, marks=pytest.mark.long)])
def test_on_links_that_no_machine_has_a_choice_takes_bounded_work(asked: int) -> None:
    taken = []
    for cards in (32, 64):
        found = PlacedCluster(any_links(cards))
        found.create("pod", asked)
        taken.append(instructions(found.round))
        assert len(found.pinned("pod")) == asked
    assert taken[1] < 8 * taken[0]
    assert taken[1] < 25_000_000  # less than 0.1 s without the counting


# Pods that are deleted and stay, because a finalizer keeps them.


def end(cluster: PlacedCluster, name: str, phase: str = "") -> None:
    """A user deletes a pod that has a finalizer."""
    pod = cluster.pods[name]
    pod["metadata"] |= {"deletionTimestamp": "2026-11-22T12:00:10Z", "finalizers": ["example.com/for-ever"]}
    pod["status"]["phase"] = phase or pod["status"]["phase"]
    cluster.tell(name)


def test_a_pod_that_is_deleted_before_it_got_its_cards_holds_none() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("kept", 8)
    cluster.create("next", 8, namespace="other", options={"on-violation": "deny"})
    cluster.round()
    cluster.now += 10
    cluster.round()
    assert (len(cluster.pinned("kept")), cluster.pinned("next")) == (8, ())
    end(cluster, "kept")
    cluster.round()
    assert len(cluster.pinned("next")) == 8


def test_a_group_that_is_deleted_behind_its_gates_holds_no_cards() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    for number in range(2):
        cluster.create(f"kept-{number}", 4, options={"group-size": "2"}, labels={"gpu.topology/group": "g"})
    cluster.round()
    assert [len(cluster.pinned(f"kept-{number}")) for number in range(2)] == [4, 4]
    for number in range(2):
        end(cluster, f"kept-{number}")
    cluster.create("next", 8, namespace="other")
    cluster.round()
    assert len(cluster.pinned("next")) == 8


def test_cards_that_hami_gave_are_held_until_the_pod_has_ended() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.create("kept", 8, namespace="one")
    cluster.round()
    cluster.schedule()
    cluster.create("next", 8, namespace="other", options={"on-violation": "deny"})
    end(cluster, "kept")
    cluster.round()
    assert cluster.pinned("next") == ()  # its processes may still run
    end(cluster, "kept", "Failed")
    cluster.round()
    assert len(cluster.pinned("next")) == 8


def test_pods_of_another_namespace_that_name_a_group_do_not_belong_to_it() -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(h20(), "b"))
    group = {"gpu.topology/group": "g"}
    for number in range(2):
        cluster.create(f"own-{number}", 4, options={"group-size": "2"}, labels=group, namespace="victim")
        options = {"group-size": "3", "on-violation": "deny"}
        cluster.create(f"odd-{number}", 1, options=options, labels=group, namespace="evil", priority=1000)
    cluster.round()
    assert [len(cluster.pinned(f"own-{number}")) for number in range(2)] == [4, 4]
    assert {cluster.why(f"odd-{number}")[0] for number in range(2)} == {"GroupIncomplete"}
