"""The first pods of groups whose others may be created only when the first runs: they go on, and hold nothing."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.waiting_group import FIRST_SECONDS
from webhook.hardware.topology.model import NodeTopology

FULL = 60
LWS = "leaderworkerset.sigs.k8s.io"
EXCLUSIVE = f"{LWS}/exclusive-topology"
DENY = {"on-violation": "deny"}
LABEL = {"gpu.topology/group": "ring"}


def owner(name: str) -> dict[str, Any]:
    """The StatefulSet of that name, as the maker of a pod."""
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": f"uid-of-{name}", "controller": True}


def labels(index: int, group: str = "0") -> dict[str, str]:
    return {f"{LWS}/name": "serve", f"{LWS}/group-key": f"key-{group}", f"{LWS}/worker-index": str(index)}


def leader(
    cluster: PlacedCluster,
    name: str = "serve-0",
    *,
    cards: int = 1,
    size: int = 3,
    options: Mapping[str, str] | None = None,
    group: str = "0",
    exclusive: str = "",
) -> None:
    written = {f"{LWS}/size": str(size)} | ({EXCLUSIVE: exclusive} if exclusive else {})
    made_by = owner("serve")
    cluster.create(name, cards, options=options, labels=labels(0, group), annotations=written, owner=made_by)


def worker(cluster: PlacedCluster, index: int, *, cards: int = 4, size: int = 3, exclusive: str = "") -> str:
    name = f"serve-0-{index}"
    written = {f"{LWS}/size": str(size)} | ({EXCLUSIVE: exclusive} if exclusive else {})
    cluster.create(name, cards, labels=labels(index), annotations=written, owner=owner("serve-0"))
    return name


def fleet(*nodes: NodeTopology) -> PlacedCluster:
    """Of two nodes with eight cards and one with four, unless others are named."""
    return PlacedCluster(*(nodes or (named(h20(), "a"), named(h20(), "b"), named(a100_pcie_bridged(), "small"))))


def rounds(cluster: PlacedCluster, count: int = 4) -> None:
    for _ in range(count):
        cluster.round()


@pytest.mark.parametrize("options", [{}, DENY])
@pytest.mark.parametrize("name", ["serve-0", "serve-7"])
def test_a_leader_whose_workers_do_not_come_goes_on_alone_and_says_so(name: str, options: Mapping[str, str]) -> None:
    cluster = fleet()
    leader(cluster, name, options=options)
    rounds(cluster)
    assert cluster.gates(name)
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    assert len(cluster.pinned(name)) == 1
    assert cluster.gates(name) == []
    assert cluster.why(name)[1].startswith("GT635")
    assert cluster.why(name)[1].endswith("pods of the group that are not there yet: 2; no cards are held for them")


def test_nothing_is_kept_from_others_for_pods_that_are_not_there() -> None:
    cluster = fleet(named(h20(), "a"))
    leader(cluster)
    cluster.round()
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    cluster.schedule()
    cluster.create("stranger", 7, options=DENY)
    cluster.round()
    assert len(cluster.pinned("stranger")) == 7


def test_workers_that_come_when_their_leader_runs_get_cards_together() -> None:
    cluster = fleet()
    leader(cluster)
    cluster.round()
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    cluster.schedule()
    names = [worker(cluster, index) for index in (1, 2)]
    cluster.round()
    assert [len(cluster.pinned(name)) for name in names] == [4, 4]


def test_a_leader_whose_workers_are_created_beside_it_gets_cards_together_with_them() -> None:
    cluster = fleet()
    leader(cluster)
    cluster.round()
    names = ["serve-0", worker(cluster, 1)]
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    assert cluster.why("serve-0")[0] == "GroupIncomplete"
    names.append(worker(cluster, 2))
    rounds(cluster, 2)
    assert [len(cluster.pinned(name)) for name in names] == [1, 4, 4]


def test_workers_of_an_exclusive_set_get_nodes_with_the_value_of_their_leader() -> None:
    cluster = PlacedCluster()
    for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2")):
        cluster.add_node(named(h20(), name))
        cluster.nodes[name]["metadata"]["labels"]["rack"] = rack
        cluster.tell_node(name)
    leader(cluster, cards=8, exclusive="rack")
    cluster.round()
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    cluster.schedule()
    name = worker(cluster, 1, cards=8, exclusive="rack")
    cluster.round()
    racks = {
        cluster.nodes[cluster.cards(each)[0].partition(":")[0]]["metadata"]["labels"]["rack"]
        for each in ("serve-0", name)
    }
    assert len(racks) == 1


def test_a_leader_without_cards_holds_no_worker_back() -> None:
    """It has no gate, because it has no cards."""
    cluster = fleet()
    cluster.create("serve-0", gated=False, labels=labels(0), annotations={f"{LWS}/size": "3"})
    del cluster.pods["serve-0"]["metadata"]["annotations"]["gpu.topology/injected"]
    cluster.tell("serve-0")
    cluster.pods["serve-0"]["spec"]["nodeName"] = "small"
    cluster.tell("serve-0")
    names = [worker(cluster, 1)]
    rounds(cluster)
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    assert cluster.why(names[0])[0] == "GroupIncomplete"
    names.append(worker(cluster, 2))
    rounds(cluster, 2)
    assert [len(cluster.pinned(name)) for name in names] == [4, 4]


@pytest.mark.parametrize(
    ("names", "made_by", "goes"),
    [
        (["ring-0"], owner("ring"), True),
        (["ring-1"], owner("ring"), False),
        (["ring-0", "ring-1"], owner("ring"), False),
        (["ring-0"], owner("ring") | {"kind": "Job"}, False),
        (["ring-0"], None, False),
    ],
)
def test_the_first_pod_of_a_stateful_set_goes_on_if_it_is_alone(
    names: list[str], made_by: Mapping[str, Any] | None, *, goes: bool
) -> None:
    cluster = fleet()
    for name in names:
        cluster.create(name, 2, options={"group-size": "3"}, labels=LABEL, owner=made_by)
    rounds(cluster)
    cluster.now += FIRST_SECONDS
    rounds(cluster)
    assert [bool(cluster.pinned(name)) for name in names] == [goes] * len(names)
    if not goes:
        assert cluster.why(names[0])[0] == "GroupIncomplete"
        cluster.now += FULL
        rounds(cluster)
    assert cluster.why(names[0])[1].startswith("GT635")
