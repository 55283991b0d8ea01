"""Leaders of a LeaderWorkerSet that come before their workers, which ask for other cards than the leader."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from webhook.decisions.place.round import WISHES_OF_ONE
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.workload import WorkloadKind, WorkloadRef

FULL, RESERVE = 60, 600
LWS = "leaderworkerset.sigs.k8s.io"
EXCLUSIVE = f"{LWS}/exclusive-topology"
DENY = {"on-violation": "deny"}
LEADERS = WorkloadRef(WorkloadKind.STATEFUL_SET, "team", "serve", "uid-of-leaders")
SET = WorkloadRef(WorkloadKind.LEADER_WORKER_SET, "team", "serve", "uid-of-set")
Object = dict[str, Any]


def owner(ref: WorkloadRef) -> Object:
    api = "apps/v1" if ref.kind is WorkloadKind.STATEFUL_SET else "leaderworkerset.x-k8s.io/v1"
    return {"apiVersion": api, "kind": str(ref.kind), "name": ref.name, "uid": ref.uid, "controller": True}


def template(cards: int, **options: str) -> Object:
    limits = {"nvidia.com/gpu": str(cards)} if cards else {"cpu": "1"}
    annotations = {f"gpu.topology/{key.replace('_', '-')}": value for key, value in options.items()}
    spec = {"containers": [{"name": "worker", "resources": {"limits": limits}}]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def objects(
    *,
    size: int = 3,
    worker: Object | None = None,
    startup: str = "LeaderReady",
    revision: str = "r1",
    exclusive: str = "",
) -> dict[WorkloadRef, Object | None]:
    """What the API server has of a LeaderWorkerSet and of the StatefulSet of its leaders."""
    leaders = {
        "metadata": {
            "uid": LEADERS.uid,
            "labels": {f"{LWS}/template-revision-hash": revision},
            "ownerReferences": [owner(SET)],
        },
        "spec": {"replicas": 1, "podManagementPolicy": "Parallel"},
    }
    spec = {"startupPolicy": startup, "leaderWorkerTemplate": {"size": size, "workerTemplate": worker or template(4)}}
    return {
        LEADERS: leaders,
        SET: {
            "metadata": {"uid": SET.uid, "annotations": {EXCLUSIVE: exclusive}},
            "spec": spec,
        },
    }


def labels(index: int, group: str = "0") -> dict[str, str]:
    return {
        f"{LWS}/name": "serve",
        f"{LWS}/group-key": f"key-{group}",
        f"{LWS}/worker-index": str(index),
        f"{LWS}/template-revision-hash": "r1",
    }


def leader(
    cluster: PlacedCluster,
    name: str = "serve-0",
    *,
    cards: int = 1,
    size: int = 3,
    options: Mapping[str, str] | None = None,
    group: str = "0",
    exclusive: str = "",
    **spec: Any,
) -> None:
    written = {f"{LWS}/size": str(size)} | ({EXCLUSIVE: exclusive} if exclusive else {})
    made_by = owner(LEADERS)
    cluster.create(name, cards, options=options, labels=labels(0, group), annotations=written, owner=made_by, **spec)


def worker(cluster: PlacedCluster, index: int, *, cards: int = 4, size: int = 3) -> str:
    name = f"serve-0-{index}"
    made_by = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "serve-0",
        "uid": "uid-of-workers",
        "controller": True,
    }
    cluster.workloads.setdefault(WorkloadRef(WorkloadKind.STATEFUL_SET, "team", "serve-0", "uid-of-workers"), None)
    cluster.create(name, cards, labels=labels(index), annotations={f"{LWS}/size": str(size)}, owner=made_by)
    return name


def fleet(*nodes: NodeTopology) -> PlacedCluster:
    """Of two nodes with eight cards and one with four, unless others are named."""
    return PlacedCluster(*(nodes or (named(h20(), "a"), named(h20(), "b"), named(a100_pcie_bridged(), "small"))))


def later(cluster: PlacedCluster, name: str = "serve-0") -> list[Object]:
    placed = json.loads(cluster.pods[name]["metadata"]["annotations"].get("gpu.topology/placed", "{}"))
    found: list[Object] = placed.get("later", {}).get("sets", [])
    return found


def takes(cluster: PlacedCluster, node: str, cards: int) -> None:
    """A pod of others runs with so many cards of a node."""
    name = f"other-{node}"
    cluster.create(name, cards, gated=False)
    cluster.give(name, node, tuple(f"GPU-{node}.{card}" for card in range(cards)))


def stranger(cluster: PlacedCluster, count: int) -> bool:
    """Whether a pod of others gets so many cards now."""
    cluster.create("stranger", count, options=DENY)
    cluster.round()
    found = len(cluster.pinned("stranger")) == count
    cluster.delete("stranger")
    return found


def rounds(cluster: PlacedCluster, count: int = 4) -> None:
    for _ in range(count):
        cluster.round()


def begun(**members: Any) -> PlacedCluster:
    """A leader of one card that was placed at once, and whose workers of four are to come."""
    cluster = fleet()
    cluster.workloads = objects(**members)
    leader(cluster)
    rounds(cluster)
    return cluster


def test_a_leader_gets_its_card_at_once_and_what_its_workers_will_ask_for_is_held() -> None:
    cluster = begun()
    assert len(cluster.pinned("serve-0")) == 1
    assert cluster.gates("serve-0") == []
    assert [len(held["cards"]) for held in later(cluster)] == [4, 4]
    assert "8 for 2 pods" in cluster.why("serve-0")[1]
    assert cluster.why("serve-0")[1].startswith("GT638")


def test_cards_are_held_on_nodes_that_serve_a_worker_and_nobody_else_gets_them() -> None:
    cluster = fleet()
    takes(cluster, "a", 4)
    takes(cluster, "b", 5)
    takes(cluster, "small", 0 + 1)
    cluster.workloads = objects(size=2)
    leader(cluster, size=2)
    rounds(cluster)
    assert [held["node"] for held in later(cluster)] == ["a"]
    assert not stranger(cluster, 4)
    assert stranger(cluster, 3)


def test_workers_get_what_was_held_for_them() -> None:
    cluster = begun()
    cluster.schedule()
    for index in (1, 2):
        assert not stranger(cluster, 8)
        name = worker(cluster, index)
        cluster.round()
        assert len(cluster.pinned(name)) == 4
        cluster.schedule()
    cluster.round()
    cluster.world.refresh()
    free = sum(len(stock.free) * len(names) for stock, names in cluster.world.stocks.items())
    assert free == 8 + 8 + 4 - 9


def test_a_leader_whose_workers_are_created_beside_it_waits_for_them_and_holds_nothing() -> None:
    cluster = fleet()
    cluster.workloads = objects(startup="LeaderCreated")
    leader(cluster)
    rounds(cluster)
    assert cluster.why("serve-0")[0] == "GroupIncomplete"
    names = [worker(cluster, index) for index in (1, 2)]
    rounds(cluster, 2)
    assert later(cluster) == []
    assert [len(cluster.pinned(name)) for name in ("serve-0", *names)] == [1, 4, 4]


def test_when_those_workers_do_not_come_their_template_says_what_is_held() -> None:
    cluster = fleet()
    cluster.workloads = objects(startup="LeaderCreated")
    leader(cluster)
    rounds(cluster)
    cluster.now += FULL
    rounds(cluster)
    assert [len(held["cards"]) for held in later(cluster)] == [4, 4]


def racks() -> PlacedCluster:
    """Of two racks with two nodes each, with 4 and 4 free cards in the first, and 4 and 8 in the second."""
    cluster = PlacedCluster()
    for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2")):
        cluster.add_node(named(h20(), name))
        cluster.nodes[name]["metadata"]["labels"]["rack"] = rack
        cluster.tell_node(name)
    for name in ("a", "b", "c"):
        takes(cluster, name, 4)
    return cluster


@pytest.mark.parametrize("is_exclusive", [True, False])
@pytest.mark.parametrize("size", [3, 4])
def test_all_pods_of_a_group_with_exclusive_placement_get_nodes_of_one_rack(size: int, *, is_exclusive: bool) -> None:
    cluster = racks()
    exclusive = "rack" if is_exclusive else ""
    cluster.workloads = objects(size=size, exclusive=exclusive, startup="LeaderCreated" if exclusive else "LeaderReady")
    leader(cluster, size=size, exclusive=exclusive)
    rounds(cluster)
    nodes = [cluster.cards("serve-0")[0][0], *(held["node"] for held in later(cluster))]
    if size == 3:
        assert len(nodes) == 3
        assert not is_exclusive or set(nodes) <= {"c", "d"}
    else:
        assert len(nodes) == (1 if is_exclusive else 4)


@pytest.mark.parametrize("denies", [True, False])
def test_where_no_room_is_for_the_workers_a_pod_that_denies_waits_and_one_that_warns_goes_on(*, denies: bool) -> None:
    cluster = fleet(named(h20(), "a"), named(a100_pcie_bridged(), "small"))
    takes(cluster, "a", 6)
    takes(cluster, "small", 1)
    cluster.workloads = objects(size=2)
    leader(cluster, size=2, options=DENY if denies else {})
    rounds(cluster)
    reason, message = cluster.why("serve-0")
    assert later(cluster) == []
    if not denies:
        assert len(cluster.pinned("serve-0")) == 1
        assert message.startswith("GT635")
        assert message.endswith("(1): there are too few free cards for them")
        return
    assert (reason, message[:5]) == ("NoFreeCards", "GT676")
    assert "need 5 free cards" in message
    assert "4 on one node for each pod that comes later (1)" in message
    assert cluster.pinned("serve-0") == ()
    cluster.add_node(named(h20(), "b"))
    rounds(cluster)
    assert [held["node"] for held in later(cluster)] == ["b"]


def test_a_worker_that_denies_counts_too() -> None:
    cluster = fleet(named(a100_pcie_bridged(), "small"))
    cluster.workloads = objects(size=2, worker=template(4, on_violation="deny"))
    leader(cluster, size=2)
    rounds(cluster)
    assert cluster.why("serve-0")[1].startswith("GT676")


@pytest.mark.parametrize(
    "known",
    [
        {},
        {LEADERS: None},
        {SET: None},
        {LEADERS: {"metadata": {"uid": "another"}, "spec": {}}},
        {SET: {"metadata": {"uid": "another"}, "spec": {"leaderWorkerTemplate": {"workerTemplate": template(4)}}}},
        objects(revision="r2"),
        objects(worker={"metadata": {}, "spec": {"containers": [{"name": "x" * 40_000}]}}),
        objects(worker={"metadata": {"labels": {"a": 1}}, "spec": {}}),
    ],
)
def test_without_a_template_the_leader_holds_nothing_and_says_so_after_a_while(
    known: Mapping[WorkloadRef, Any],
) -> None:
    cluster = fleet()
    cluster.workloads = {**objects(), **known} if known else {}
    leader(cluster)
    rounds(cluster)
    if cluster.gates("serve-0"):
        assert cluster.why("serve-0")[0] == "GroupIncomplete"
        cluster.now += FULL
        rounds(cluster)
        assert cluster.why("serve-0")[1].endswith("(2): nothing says what they ask for")
    assert len(cluster.pinned("serve-0")) == 1
    assert later(cluster) == []


@pytest.mark.parametrize("made", [template(0), template(4, place="off")])
def test_nothing_is_held_for_workers_that_the_planner_does_not_place(made: Object) -> None:
    cluster = fleet()
    cluster.workloads = objects(worker=made)
    leader(cluster)
    rounds(cluster)
    assert len(cluster.pinned("serve-0")) == 1
    assert later(cluster) == []
    assert cluster.why("serve-0")[1].startswith("GT620")


def test_a_leader_without_cards_holds_no_worker_back_and_holds_nothing() -> None:
    """It has no gate, because it has no cards."""
    cluster = fleet()
    cluster.create("serve-0", gated=False, labels=labels(0), annotations={f"{LWS}/size": "3"})
    del cluster.pods["serve-0"]["metadata"]["annotations"]["gpu.topology/injected"]
    cluster.tell("serve-0")
    cluster.pods["serve-0"]["spec"]["nodeName"] = "small"
    cluster.tell("serve-0")
    names = [worker(cluster, 1)]
    rounds(cluster)
    assert cluster.why(names[0])[0] == "GroupIncomplete"
    names.append(worker(cluster, 2))
    rounds(cluster, 2)
    assert [len(cluster.pinned(name)) for name in names] == [4, 4]


def test_the_next_leader_of_the_planner_holds_the_same_and_as_much_of_the_nodes() -> None:
    cluster = fleet(named(h20(), "a"))
    spec = {"containers": [{"name": "w", "resources": {"limits": {"nvidia.com/gpu": "4", "cpu": "6"}}}]}
    cluster.workloads = objects(size=2, worker={"metadata": {}, "spec": spec})
    cluster.nodes["a"].setdefault("status", {})["allocatable"] = {"cpu": "8", "pods": "20"}
    cluster.tell_node("a")
    leader(cluster, size=2)
    rounds(cluster)
    cluster.schedule()
    assert later(cluster)[0]["amounts"]["cpu"] == 6000
    cluster.restart()
    cluster.workloads = {}
    cluster.round()
    assert cluster.world.nodes["a"].all.used["cpu"] == 6000
    assert not stranger(cluster, 4)
    cluster.now += RESERVE
    rounds(cluster, 2)
    assert stranger(cluster, 4)


def test_two_groups_of_one_set_hold_for_their_own_workers() -> None:
    cluster = fleet(*(named(h20(), name) for name in "abcde"))
    cluster.workloads = objects()
    leader(cluster)
    leader(cluster, "serve-1", group="1")
    rounds(cluster)
    cards = [card for name in ("serve-0", "serve-1") for held in later(cluster, name) for card in held["cards"]]
    assert len(cards) == len({*cards, *cluster.pinned("serve-0"), *cluster.pinned("serve-1")}) - 2 == 16


def test_thousands_of_workers_hold_no_more_than_an_annotation_names() -> None:
    cluster = fleet(*(named(h20(), f"n{number:02}") for number in range(40)))
    cluster.workloads = objects(size=9999)
    leader(cluster, size=9999)
    rounds(cluster)
    assert [len(held["cards"]) for held in later(cluster)] == [4] * 64


def ordered(cluster: PlacedCluster, replicas: int, policy: str) -> None:
    """A StatefulSet of two cards each, of which the first pod is there, and which the planner may read."""
    ref = WorkloadRef(WorkloadKind.STATEFUL_SET, "team", "ring", "uid-of-ring")
    cluster.workloads = {
        ref: {"metadata": {"uid": ref.uid}, "spec": {"replicas": replicas, "podManagementPolicy": policy}}
    }
    options = {"group-size": "3"}
    cluster.create("ring-0", 2, options=options, labels={"gpu.topology/group": "ring"}, owner=owner(ref))


@pytest.mark.parametrize(
    ("replicas", "policy", "sets"), [(3, "OrderedReady", 2), (3, "Parallel", None), (2, "OrderedReady", None)]
)
def test_the_first_pod_of_an_ordered_set_goes_on_at_once_if_all_others_come_after_it(
    replicas: int, policy: str, sets: int | None
) -> None:
    cluster = fleet()
    ordered(cluster, replicas, policy)
    rounds(cluster)
    if sets is None:
        assert cluster.why("ring-0")[0] == "GroupIncomplete"
        cluster.now += FULL
        rounds(cluster)
    assert [len(held["cards"]) for held in later(cluster, "ring-0")] == [2] * (replicas - 1)


def test_pods_that_nothing_made_hold_nothing_for_others_and_say_so() -> None:
    cluster = fleet()
    cluster.create("one", 2, options={"group-size": "3"}, labels={"gpu.topology/group": "ring"})
    rounds(cluster)
    assert cluster.why("one")[0] == "GroupIncomplete"
    cluster.now += FULL
    rounds(cluster)
    assert later(cluster, "one") == []
    assert cluster.why("one")[1].startswith("GT635")
    assert cluster.why("one")[1].endswith("(2): nothing says what they ask for")


def test_a_round_asks_for_no_more_than_its_limits() -> None:
    cluster = fleet()
    for number in range(200):
        made_by = owner(LEADERS) | {"uid": f"uid-{number}"}
        label = {"gpu.topology/group": f"g{number}"}
        cluster.create(f"p{number}", 1, options={"group-size": "2"}, labels=label, owner=made_by)
    cluster.create(
        "late", 1, options={"group-size": "2"}, labels={"gpu.topology/group": "g"}, owner=owner(LEADERS), namespace="b"
    )
    cluster.round()
    asked = Counter(ref.namespace for ref in cluster.planner.wishes)
    assert asked == {"team": WISHES_OF_ONE, "b": 1}


WORDS = (
    *("name", "resources", "limits", "requests", "nvidia.com/gpu", "cpu", "key", "operator", "values", "effect"),
    *("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "matchExpressions"),
    *("preferredDuringSchedulingIgnoredDuringExecution", "matchFields", "value", "weight", "preference", "claims"),
)
SCALARS = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner),
    max_leaves=12,
)
OF_METADATA = ("labels", "annotations", "name", "ownerReferences")
FIELDS = (
    *("containers", "initContainers", "affinity", "tolerations", "nodeSelector", "overhead", "resources", "volumes"),
    *("schedulingGates", "resourceClaims", "priority", "nodeName", "schedulerName", "schedulingGroup", "workloadRef"),
)


@given(
    spec=st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=4),
    metadata=st.dictionaries(st.sampled_from(OF_METADATA), ANYTHING, max_size=2),
)
def test_no_template_disturbs_the_planner(spec: Object, metadata: Object) -> None:
    """The API server checks templates of such objects only by the schema of their kind."""
    cluster = fleet(named(a100_pcie_bridged(), "small"))
    cluster.workloads = objects(worker={"metadata": metadata, "spec": template(4)["spec"] | spec})
    leader(cluster)
    cluster.create("other", 1)
    rounds(cluster)
    assert len(cluster.pinned("other")) == 1
