"""Cards and nodes that come and go: pods on their way and pods without cards see it in the round of the change."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged
from webhook.decisions.place.writes import Write

DENY = {"on-violation": "deny", "require-nvlink": "true"}
REGISTER = "hami.io/node-nvidia-register"


def cluster_of(*names: str, **settings: Any) -> PlacedCluster:
    """Bridged nodes of these names."""
    return PlacedCluster(*(named(a100_pcie_bridged(), name) for name in names), settings=settings)


def offers(cluster: PlacedCluster, node: str, *indices: int) -> None:
    """HAMi's plugin registers these cards of a node."""
    manifest = cluster.nodes[node]
    every = json.loads(manifest["metadata"].setdefault("every", manifest["metadata"]["annotations"][REGISTER]))
    left = [card for card in every if card.get("index", 0) in indices]
    manifest["metadata"]["annotations"][REGISTER] = json.dumps(left)
    cluster.tell_node(node)


def cordon(cluster: PlacedCluster, node: str, *, on: bool = True) -> None:
    """As ``kubectl cordon`` and ``uncordon``."""
    cluster.nodes[node]["spec"] = {"unschedulable": on}
    cluster.tell_node(node)


def taint(cluster: PlacedCluster, node: str, effect: str) -> None:
    """As the node lifecycle controller."""
    cluster.nodes[node]["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": effect}]}
    cluster.tell_node(node)


def pinned(cluster: PlacedCluster, name: str = "train", **options: Any) -> str:
    """The node of a pod that is pinned and past its gate."""
    cluster.create(name, 2, **options)
    cluster.round()
    assert not cluster.gates(name)
    return str(choice(cluster, name)["node"])


def choice(cluster: PlacedCluster, name: str = "train") -> dict[str, Any]:
    """What the pod says of the choice."""
    found: dict[str, Any] = json.loads(cluster.pods[name]["metadata"]["annotations"]["gpu.topology/placed"])
    return found


def patches(writes: list[Write]) -> list[str]:
    """The names of the pods that are changed."""
    return [write.name for write in writes if write.patch]


@pytest.mark.parametrize("event", ["cordoned", "tainted", "deleted", "without-cards"])
def test_a_pinned_pod_goes_to_another_node_in_the_round_in_which_its_own_is_lost(event: str) -> None:
    cluster = cluster_of("a", "b")
    before = pinned(cluster)
    match event:
        case "cordoned":
            cordon(cluster, before)
        case "tainted":
            taint(cluster, before, "NoSchedule")
        case "deleted":
            cluster.remove_node(before)
        case _:
            offers(cluster, before)
    (write,) = cluster.round()
    assert write.event is not None
    assert write.event.note.startswith("GT653")
    assert choice(cluster)["node"] != before
    assert choice(cluster)["attempt"] == 2
    assert "refused" not in choice(cluster)
    assert cluster.round() == []


@pytest.mark.parametrize("event", ["other-card", "soft-taint", "other-node"])
def test_a_pinned_pod_stays_where_the_change_is_none_of_its_own(event: str) -> None:
    cluster = cluster_of("a", "b")
    before = pinned(cluster)
    match event:
        case "other-card":
            offers(cluster, before, 0, 1, 2)
        case "soft-taint":
            taint(cluster, before, "PreferNoSchedule")
        case _:
            cordon(cluster, "b" if before == "a" else "a")
    assert cluster.cards("train") == [f"{before}:0", f"{before}:1"]
    assert cluster.round() == []


def test_of_a_node_that_lost_one_card_the_others_are_given() -> None:
    cluster = cluster_of("a")
    pinned(cluster)
    offers(cluster, "a", 0, 2, 3)
    cluster.round()
    assert cluster.cards("train") == ["a:2", "a:3"]


def test_a_pod_to_which_hami_has_given_its_cards_is_left_to_be_bound() -> None:
    cluster = cluster_of("a", "b")
    before = pinned(cluster)
    given = "".join(f"{card},NVIDIA,40960,100:" for card in cluster.pinned("train"))
    annotations = {"hami.io/vgpu-node": before, "hami.io/vgpu-devices-allocated": f"{given};"}
    cluster.pods["train"]["metadata"]["annotations"] |= annotations
    cluster.tell("train")
    cordon(cluster, before)
    assert cluster.round() == []
    cluster.refuse("train")
    cluster.now += 60
    cluster.round()
    assert choice(cluster)["node"] != before


@pytest.mark.parametrize(("options", "reason"), [({}, "GivenUp"), (DENY, "CardsLost")], ids=["warn", "deny"])
def test_a_pod_without_another_node_is_told_at_once_and_pinned_when_the_node_returns(
    options: dict[str, str], reason: str
) -> None:
    cluster = cluster_of("a")
    pinned(cluster, options=options)
    cordon(cluster, "a")
    cluster.round()
    assert cluster.why("train")[0] == reason
    cluster.refuse("train", "0/1 nodes are available: 1 node(s) were unschedulable.")
    cluster.now += 30
    assert patches(cluster.round()) == []
    cordon(cluster, "a", on=False)
    cluster.round()
    assert cluster.cards("train") == ["a:0", "a:1"]
    assert cluster.label("train") == "pinned"


def test_a_pod_that_was_let_go_is_pinned_when_a_node_comes() -> None:
    cluster = cluster_of("a", fullSeconds=5)
    cluster.create("train", 8)
    cluster.round()
    cluster.now += 5
    cluster.round()
    assert cluster.why("train")[0] in ("NeverFits", "Released")
    cluster.create("more", 4, options={"on-violation": "deny"})
    cluster.round()
    assert cluster.cards("more") == ["a:0", "a:1", "a:2", "a:3"]
    cluster.remove_node("a")
    cluster.round()
    assert cluster.why("more")[0] == "CardsLost"
    cluster.refuse("more")
    cluster.now += 5
    cluster.add_node(named(a100_pcie_bridged(), "b"))
    cluster.round()
    assert cluster.cards("more") == ["b:0", "b:1", "b:2", "b:3"]


@pytest.mark.slow
def test_a_pin_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    cluster = cluster_of("a")
    pinned(cluster, options=DENY)
    times = []
    for _ in range(600):
        cluster.refuse("train", f"0/1 nodes are available: {cluster.now}")
        cluster.now += 1
        cluster.create("other", gated=False, nodeName="a", containers=[{"name": "c"}])
        cluster.delete("other")
        times += [cluster.now for write in cluster.round() if write.result in ("pinned", "repinned")]
    assert len(times) < 20
    assert max(later - earlier for earlier, later in pairwise(times)) >= 60


def test_a_new_card_that_hami_does_not_know_yet_is_asked_for_again() -> None:
    cluster = cluster_of("a")
    offers(cluster, "a", 0)
    cluster.create("train", 2, options=DENY)
    cluster.round()
    assert cluster.gates("train")
    offers(cluster, "a", 0, 1)
    cluster.round()
    assert cluster.cards("train") == ["a:0", "a:1"]
    asked = []
    for second in range(1, 15):
        cluster.now += 1
        cluster.refuse("train", f"0/1 nodes are available: 1 CardUuidMismatch, {second}.")
        asked += [second] * len(patches(cluster.round()))
    assert asked == [5, 10]
    assert choice(cluster)["attempt"] == 1
    assert cluster.cards("train") == ["a:0", "a:1"]
    cluster.schedule()
    assert cluster.round()[0].result == "taken"


def test_a_card_that_was_there_before_is_refused_at_once() -> None:
    cluster = cluster_of("a")
    cluster.round()
    cluster.now += 20
    pinned(cluster)
    cluster.refuse("train")
    cluster.round()
    assert cluster.why("train")[0] == "GivenUp"


def test_a_new_card_that_hami_never_gives_is_refused_in_the_end() -> None:
    cluster = cluster_of("a")
    offers(cluster, "a", 0)
    cluster.round()
    offers(cluster, "a", 0, 1)
    pinned(cluster)
    for second in range(30):
        cluster.now += 1
        cluster.refuse("train", f"0/1 nodes are available: 1 CardUuidMismatch, {second}.")
        cluster.round()
    assert cluster.why("train")[0] == "GivenUp"
