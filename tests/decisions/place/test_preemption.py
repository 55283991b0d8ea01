"""Pods for which a node has cards, and room only without pods of lower priority: the scheduler evicts these."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.node_record import read_node
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World

DENY = {"on-violation": "deny", "require-nvlink": "true"}
CPUS = 192
"""Of each node."""


def cluster_of(*names: str, settings: dict[str, Any] | None = None) -> PlacedCluster:
    """Bridged nodes of these names."""
    return PlacedCluster(*(named(a100_pcie_bridged(), name) for name in names), settings=settings)


def runs(cluster: PlacedCluster, name: str, node: str, cpus: int = 180, *, priority: int = 0) -> None:
    """A pod without cards has this much of a node."""
    cluster.create(name, gated=False, priority=priority, nodeName=node, containers=[using(cpus)])


def using(cpus: int) -> dict[str, Any]:
    """A container without cards."""
    return {"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}


def wants(
    cluster: PlacedCluster, name: str = "train", *, cards: int = 2, cpus: int = 100, priority: int = 1000, **spec: Any
) -> None:
    """A pod that needs cards and CPU."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpucores": "100"}
    container = {"name": "c", "resources": {"limits": limits, "requests": {"cpu": str(cpus)}}}
    cluster.create(name, priority=priority, **{"containers": [container], **spec})


def evicts(cluster: PlacedCluster, name: str, *victims: str, node: str) -> None:
    """The scheduler refuses the pod, and makes room for it on a node."""
    for victim in victims:
        cluster.pods[victim]["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
        cluster.tell(victim)
    cluster.pods[name]["status"]["nominatedNodeName"] = node
    cluster.refuse(name, "0/1 nodes are available: 1 Insufficient cpu.")


def choice(cluster: PlacedCluster, name: str = "train") -> dict[str, Any]:
    """What the pod says of the choice."""
    found: dict[str, Any] = json.loads(cluster.pods[name]["metadata"]["annotations"]["gpu.topology/placed"])
    return found


@pytest.mark.parametrize("options", [{}, DENY], ids=["warn", "deny"])
def test_a_pod_goes_on_with_its_cards_where_pods_of_lower_priority_take_the_cpu(options: dict[str, str]) -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a")
    wants(cluster, options=options)
    cluster.round()
    assert not cluster.gates("train")
    assert cluster.cards("train") == ["a:0", "a:1"]
    assert cluster.why("train")[1].startswith("GT652: node a: GPU0, GPU1")
    assert choice(cluster)["preempts"] is True


@pytest.mark.parametrize("options", [{}, DENY], ids=["warn", "deny"])
def test_a_node_that_has_room_comes_first(options: dict[str, str]) -> None:
    cluster = PlacedCluster(named(h20(), "a"), named(a100_pcie_bridged(), "b"))
    runs(cluster, "low", "a")
    wants(cluster, options=options)
    cluster.round()
    assert cluster.cards("train") == ["b:0", "b:1"]
    assert "preempts" not in choice(cluster)


def test_a_pod_that_denies_goes_where_its_pair_is_rather_than_where_there_is_room() -> None:
    cluster = cluster_of("a", "b")
    runs(cluster, "low", "a")
    for card in (1, 3):
        cluster.create(f"one-{card}", 1, gated=False)
        cluster.give(f"one-{card}", "b", (f"GPU-b.{card}",))
    wants(cluster, "warns", cpus=1, priority=0)
    wants(cluster, "denies", options=DENY)
    cluster.round()
    assert cluster.cards("denies") == ["a:0", "a:1"]
    assert choice(cluster, "denies")["preempts"] is True
    assert cluster.why("warns")[0] == "Pinned"
    assert "preempts" not in choice(cluster, "warns")


@pytest.mark.parametrize(
    ("low", "spec"),
    [
        (1000, {}),
        (2000, {}),
        (0, {"preemptionPolicy": "Never"}),
        (0, {"nodeSelector": {"zone": "b"}}),
    ],
    ids=["equal", "lower", "never", "another-node"],
)
def test_a_pod_waits_that_may_evict_nobody(low: int, spec: dict[str, Any]) -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a", priority=low)
    wants(cluster, options=DENY, **spec)
    assert not [write for write in cluster.round() if write.patch]
    assert cluster.why("train")[0] == "NoNode"
    assert ("preemptionPolicy is Never" in cluster.why("train")[1]) == ("preemptionPolicy" in spec)


def test_a_pod_that_may_evict_nobody_says_nothing_for_others() -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a")
    runs(cluster, "high", "a", 12, priority=5000)
    for name, policy in (("never", "Never"), ("may", "PreemptLowerPriority")):
        wants(cluster, name, options=DENY, preemptionPolicy=policy)
    wants(cluster, "too-large", cpus=190, options=DENY)
    wants(cluster, "too-large-never", cpus=190, options=DENY, preemptionPolicy="Never")
    cluster.round()
    assert cluster.cards("may") == ["a:0", "a:1"]
    assert {name: "Never" in cluster.why(name)[1] for name in ("never", "too-large", "too-large-never")} == {
        "never": True,
        "too-large": False,
        "too-large-never": True,
    }


def test_a_pod_waits_for_which_even_all_victims_are_too_few() -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a", 80)
    runs(cluster, "high", "a", 100, priority=5000)
    wants(cluster, options=DENY)
    cluster.round()
    assert cluster.why("train")[0] == "NoNode"
    wants(cluster, "smaller", options=DENY, cpus=90)
    cluster.round()
    assert cluster.cards("smaller") == ["a:0", "a:1"]


def test_nobody_is_evicted_for_cards() -> None:
    cluster = cluster_of("a")
    cluster.create("low", 4, gated=False)
    cluster.give("low", "a", tuple(f"GPU-a.{index}" for index in range(4)))
    wants(cluster, options=DENY, cpus=1)
    cluster.round()
    reason, message = cluster.why("train")
    assert reason == "NoFreeCards"
    assert "a is full" in message


def test_of_equal_nodes_the_one_with_the_least_important_victims_comes_first() -> None:
    cluster = cluster_of("a", "b", "c")
    for priority, node in ((50, "a"), (10, "b"), (50, "c")):
        runs(cluster, f"low-{node}", node, priority=priority)
    runs(cluster, "spared", "b", 10, priority=90)
    wants(cluster)
    cluster.round()
    assert choice(cluster)["node"] == "b"


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("free", [("01", "01"), ("01", "23"), ("23", "01")], ids=["same", "first", "second"])
def test_of_equal_victims_on_equal_nodes_those_of_the_first_name_are_evicted(names: str, free: tuple[str, str]) -> None:
    cluster = cluster_of(*names)
    for name in names:
        runs(cluster, f"low-{name}", name)
        for card in set("0123").difference(free["ab".index(name)]):
            cluster.create(f"one-{name}-{card}", 1, gated=False)
            cluster.give(f"one-{name}-{card}", name, (f"GPU-{name}.{card}",))
        cluster.world.refresh()  # the planner has looked, and knows the nodes in this order
    wants(cluster)
    cluster.round()
    assert cluster.cards("train") == [f"a:{card}" for card in free[0]]
    assert choice(cluster)["preempts"] is True


def test_a_pod_keeps_its_cards_while_its_victims_end_and_the_node_is_open_to_others() -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a")
    wants(cluster)
    cluster.round()
    evicts(cluster, "train", "low", node="a")
    for _ in range(3):
        cluster.now += 100
        assert not [write for write in cluster.round() if write.name == "train"]
    wants(cluster, "small", cpus=1)
    cluster.round()
    assert cluster.cards("small") == ["a:2", "a:3"]
    wants(cluster, "third", cpus=1, options=DENY)
    cluster.round()
    assert cluster.gates("third")
    cluster.delete("low")
    cluster.now += 59
    assert not [write for write in cluster.round() if write.name == "train"]
    cluster.schedule()
    assert choice(cluster)["attempt"] == 1


def test_a_pod_is_given_other_cards_when_the_scheduler_makes_no_room() -> None:
    cluster = cluster_of("a", "b")
    for node in ("a", "b"):
        runs(cluster, f"low-{node}", node)
    wants(cluster)
    cluster.round()
    first = choice(cluster)["node"]
    cluster.refuse("train", "0/2 nodes are available: preemption: no victims.")
    cluster.round()
    assert choice(cluster)["refused"] == [first]
    assert choice(cluster)["preempts"] is True
    assert choice(cluster)["attempt"] == 2


def test_cards_are_not_held_for_ever_for_a_victim_that_does_not_end() -> None:
    cluster = cluster_of("a", settings={"reserveSeconds": 600})
    runs(cluster, "low", "a")
    wants(cluster)
    cluster.round()
    evicts(cluster, "train", "low", node="a")
    cluster.now += 599
    cluster.round()
    assert cluster.label("train") == "pinned"
    cluster.now += 61
    cluster.round()
    assert cluster.why("train")[0] == "GivenUp"


def test_a_pod_follows_the_scheduler_to_the_node_on_which_it_makes_room() -> None:
    cluster = cluster_of("a", "b")
    for node in ("a", "b"):
        runs(cluster, f"low-{node}", node)
    wants(cluster)
    cluster.round()
    other = "b" if choice(cluster)["node"] == "a" else "a"
    evicts(cluster, "train", f"low-{other}", node=other)
    (write,) = [write for write in cluster.round() if write.name == "train"]
    assert write.event is not None
    assert write.event.note.startswith("GT655")
    assert choice(cluster)["node"] == other
    cluster.now += 100
    assert not [write for write in cluster.round() if write.name == "train"]


def test_a_pod_keeps_its_cards_where_that_node_has_none() -> None:
    cluster = cluster_of("a")
    cluster.add_node(named(a100_pcie_bridged(), "b"))
    cluster.create("all", 4, gated=False, priority=5000)
    cluster.give("all", "b", tuple(f"GPU-b.{index}" for index in range(4)))
    for node in ("a", "b"):
        runs(cluster, f"low-{node}", node)
    wants(cluster)
    cluster.round()
    evicts(cluster, "train", "low-b", node="b")
    cluster.now += 100
    assert not [write for write in cluster.round() if write.name == "train"]
    assert cluster.cards("train") == ["a:0", "a:1"]
    cluster.delete("low-b")
    evicts(cluster, "train", "low-a", node="a")
    assert not [write for write in cluster.round() if write.name == "train"]


def test_a_pod_that_holds_no_cards_and_denies_goes_on_by_preemption_too() -> None:
    cluster = cluster_of("a")
    wants(cluster, options=DENY)
    cluster.round()
    runs(cluster, "high", "a", priority=5000)
    cluster.refuse("train")
    cluster.round()
    assert cluster.why("train")[0] == "CardsLost"
    cluster.delete("high")
    runs(cluster, "low", "a")
    cluster.now += 60
    cluster.round()
    assert choice(cluster)["preempts"] is True
    assert cluster.label("train") == "pinned"


def test_a_pod_that_was_let_go_is_not_pinned_away_from_the_node_on_which_the_scheduler_makes_room() -> None:
    cluster = cluster_of("a")
    runs(cluster, "low", "a")
    wants(cluster, cpus=150, gated=False, labels={"gpu.topology/placement": "released"})
    evicts(cluster, "train", "low", node="a")
    cluster.round()
    cluster.add_node(named(a100_pcie_bridged(), "b"))
    cluster.now += 100
    assert not [write for write in cluster.round() if write.name == "train"]
    cluster.delete("low")
    cluster.now += 100
    cluster.round()
    assert cluster.label("train") == "pinned"


@pytest.mark.parametrize("is_full", [True, False])
def test_a_pod_that_relies_on_preemption_is_not_limited_to_host_names(is_full: bool) -> None:
    names = [f"n{number:03}" for number in range(102)]
    cluster = cluster_of(*names)
    for name in names if is_full else ():
        runs(cluster, f"low-{name}", name)
    wants(cluster)
    cluster.round()
    assert not cluster.gates("train")
    assert ("affinity" in cluster.pods["train"]["spec"]) == (not is_full)
    assert choice(cluster).get("preempts", False) == is_full


def test_room_of_a_nominated_pod_is_taken() -> None:
    cluster = cluster_of("a")
    cluster.create("other", gated=False, priority=5000, containers=[using(180)])
    wants(cluster)
    cluster.pods["other"]["status"]["nominatedNodeName"] = "a"
    cluster.tell("other")
    cluster.round()
    assert cluster.why("train")[0] == "NoNode"
    cluster.pods["other"]["status"]["nominatedNodeName"] = ""
    cluster.tell("other")
    cluster.round()
    assert cluster.cards("train") == ["a:0", "a:1"]


PODS = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 90), st.booleans()), max_size=12)


@given(pods=PODS, gone=st.sets(st.integers(0, 11)), priority=st.integers(-3, 4), cpus=st.integers(0, CPUS))
def test_victims_are_found_as_if_each_pod_were_looked_at(
    pods: list[tuple[int, int, bool]], gone: set[int], priority: int, cpus: int
) -> None:
    world = World()
    cluster = cluster_of("a")
    world.node_changed("a", read_node(msgspec.json.encode(cluster.nodes["a"]), "a", None), cluster.topologies["a"])
    records = [bound(number, *each) for number, each in enumerate(pods)]
    for record in records:
        world.pod_changed(record.key, None, record)
    for number in gone.intersection(range(len(records))):
        world.pod_changed(records[number].key, records[number], None)
    left = [record for number, record in enumerate(records) if number not in gone]
    pod = bound(99, priority, cpus, False)

    def fits(spared: list[PodRecord]) -> bool:
        return cpus == 0 or cpus * 1000 + sum(record.amounts["cpu"] for record in spared) <= CPUS * 1000

    levels = sorted({record.priority for record in left if record.priority < priority})
    expected = next((k for k in levels if fits([record for record in left if record.priority > k])), None)
    assert world.nodes["a"].victims(pod, frozenset()) == expected
    assert world.has_pods_below(priority) == bool(levels)
    assert world.is_making_room("a", priority) == any(r.is_leaving and r.priority < priority for r in left)
    for number in set(range(len(records))) - gone:
        world.pod_changed(records[number].key, records[number], None)
    assert not world.nodes["a"].levels
    assert not world.has_pods_below(10)


def bound(number: int, priority: int, cpus: int, leaves: bool) -> PodRecord:
    """A pod of the node."""
    amounts = {"cpu": cpus * 1000}
    return PodRecord(
        "team", f"p{number}", f"{number}", "a", True, amounts, (), "", "", None, None,
        priority=priority, is_leaving=leaves,
    )  # fmt: skip
