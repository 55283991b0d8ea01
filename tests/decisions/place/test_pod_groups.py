"""Pods that name a PodGroup, of Kubernetes itself, of scheduler-plugins or of Volcano: its number of pods counts."""

from typing import Any

import pytest

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import h20
from webhook.decisions.place.group import MOST_PODS
from webhook.objects.workload import WorkloadKind, WorkloadRef

FULL, READ = 60, 10
KINDS = tuple(WorkloadKind)[2:]
Object = dict[str, Any]


def ref(kind: WorkloadKind, namespace: str = "team", name: str = "gang") -> WorkloadRef:
    parts = {"part": "workers", "replica": "r0"} if kind is WorkloadKind.WORKLOAD else {}
    return WorkloadRef(kind, namespace, name, **parts)


def group(kind: WorkloadKind, least: int | None) -> Object:
    """The object that says how many pods belong together; None: it has no gang."""
    gang = {"gang": {"minCount": least}} if least is not None else {"basic": {}}
    match kind:
        case WorkloadKind.WORKLOAD:
            groups = [{"name": "drivers", "policy": {"basic": {}}}, {"name": "workers", "policy": gang}]
            return {"metadata": {"uid": "u"}, "spec": {"podGroups": groups}}
        case WorkloadKind.POD_GROUP:
            return {"metadata": {"uid": "u"}, "spec": {"schedulingPolicy": gang}}
        case _:
            return {"metadata": {"uid": "u"}, "spec": {"minMember": least} if least is not None else {}}


def member(
    cluster: PlacedCluster,
    name: str,
    kind: WorkloadKind,
    *,
    namespace: str = "team",
    **options: str,
) -> None:
    """A pod of two cards, with the name of its group as its controller writes it."""
    labels, annotations = {}, {}
    spec: dict[str, Any] = {}
    match kind:
        case WorkloadKind.COSCHEDULING:
            labels = {"scheduling.x-k8s.io/pod-group": "gang"}
        case WorkloadKind.VOLCANO:
            annotations = {"scheduling.k8s.io/group-name": "gang"}
        case WorkloadKind.WORKLOAD:
            spec = {"workloadRef": {"name": "gang", "podGroup": "workers", "podGroupReplicaKey": "r0"}}
        case _:
            spec = {"schedulingGroup": {"podGroupName": "gang"}}
    written = {key.replace("_", "-"): value for key, value in options.items()}
    cluster.create(name, 2, options=written, labels=labels, annotations=annotations, namespace=namespace, **spec)


def fleet(kind: WorkloadKind, least: int | None) -> PlacedCluster:
    cluster = PlacedCluster(named(h20(), "a"))
    cluster.workloads = {ref(kind): group(kind, least)}
    return cluster


def rounds(cluster: PlacedCluster, count: int = 3) -> None:
    for _ in range(count):
        cluster.round()


def with_cards(cluster: PlacedCluster) -> list[str]:
    return sorted(name for name in cluster.pods if cluster.pinned(name))


@pytest.mark.parametrize("kind", KINDS)
def test_the_pods_of_a_group_get_cards_when_as_many_are_there_as_it_names(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 3)
    for name in ("one", "two"):
        member(cluster, name, kind)
    rounds(cluster)
    assert with_cards(cluster) == []
    reason, message = cluster.why("one")
    assert reason == "GroupIncomplete"
    assert message.startswith("GT633: 2 of 3 pods of group gang")
    member(cluster, "three", kind)
    rounds(cluster, 1)
    assert with_cards(cluster) == ["one", "three", "two"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_room_for_all_none_gets_cards(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 5)
    for number in range(5):
        member(cluster, f"p{number}", kind, on_violation="deny")
    rounds(cluster)
    assert with_cards(cluster) == []
    reason, message = cluster.why("p0")
    assert reason == "NoFreeCards"
    assert message.startswith("GT634: the 5 pods of group gang")
    assert "need 10 free cards" in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_whose_group_asks_for_no_gang_goes_on_alone(kind: WorkloadKind) -> None:
    cluster = fleet(kind, None)
    member(cluster, "one", kind)
    rounds(cluster)
    assert with_cards(cluster) == ["one"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_whose_group_is_not_there_yet_waits_for_it_and_not_for_ever(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 2)
    found, cluster.workloads = cluster.workloads, {}
    member(cluster, "one", kind, on_violation="deny")
    rounds(cluster)
    assert cluster.why("one")[1].startswith("GT677: PodGroup gang")
    cluster.workloads = found
    cluster.now += 30
    rounds(cluster)
    assert cluster.why("one")[1].startswith("GT633")
    cluster.delete("one")
    cluster.workloads = {}
    member(cluster, "two", kind, on_violation="deny")
    rounds(cluster)
    assert with_cards(cluster) == []
    cluster.now += FULL
    rounds(cluster)
    assert with_cards(cluster) == ["two"]


@pytest.mark.parametrize("kind", KINDS)
def test_where_groups_cannot_be_read_a_pod_goes_on_at_once(kind: WorkloadKind) -> None:
    """The cluster has no such objects, or the planner may not read them."""
    cluster = fleet(kind, 2)
    cluster.workloads = {ref(kind): None}
    member(cluster, "one", kind)
    rounds(cluster)
    assert with_cards(cluster) == ["one"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_does_not_come_is_not_waited_for_long(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 2)
    cluster.workloads, cluster.has_pod_groups = {}, False
    member(cluster, "one", kind)
    rounds(cluster)
    assert with_cards(cluster) == []
    assert cluster.why("one") == ("", "")
    assert cluster.planner.report.waiting["Soon"] == 1
    cluster.now += READ
    rounds(cluster)
    assert with_cards(cluster) == ["one"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_that_a_user_names_counts(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 4)
    for name in ("one", "two"):
        member(cluster, name, kind, group_size="2")
    rounds(cluster)
    assert with_cards(cluster) == ["one", "two"]
    assert not cluster.planner.wishes


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_another_namespace_says_nothing(kind: WorkloadKind) -> None:
    cluster = fleet(kind, 2)
    member(cluster, "one", kind)
    member(cluster, "forged", kind, namespace="other")
    rounds(cluster)
    assert {found.namespace for found in cluster.planner.wishes} == {"team", "other"}
    assert cluster.why("one")[1].startswith("GT633: 1 of 2")
    assert cluster.why("forged")[1].startswith("GT677")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [10_000, 2**31 - 1, 2**63, -1, 0])
def test_a_number_without_sense_is_bounded(kind: WorkloadKind, least: int) -> None:
    cluster = fleet(kind, least)
    member(cluster, "one", kind)
    rounds(cluster)
    if least > 0:
        assert f"1 of {MOST_PODS} pods" in cluster.why("one")[1]
        cluster.now += FULL
        rounds(cluster)
    assert with_cards(cluster) == ["one"]


def test_replicas_of_a_pod_group_of_a_workload_are_groups_of_their_own() -> None:
    cluster = fleet(WorkloadKind.WORKLOAD, 2)
    member(cluster, "one", WorkloadKind.WORKLOAD)
    other = {"name": "gang", "podGroup": "workers", "podGroupReplicaKey": "r1"}
    cluster.workloads[ref(WorkloadKind.WORKLOAD)._replace(replica="r1")] = group(WorkloadKind.WORKLOAD, 2)
    cluster.create("two", 2, workloadRef=other)
    rounds(cluster)
    assert with_cards(cluster) == []
    assert [cluster.why(name)[1][:13] for name in ("one", "two")] == ["GT633: 1 of 2"] * 2


def test_a_pod_group_that_a_workload_does_not_have_is_not_there() -> None:
    cluster = PlacedCluster(named(h20(), "a"))
    named_so = {"name": "gang", "podGroup": "others"}
    cluster.workloads = {
        WorkloadRef(WorkloadKind.WORKLOAD, "team", "gang", part="others"): group(WorkloadKind.WORKLOAD, 2)
    }
    cluster.create("one", 2, workloadRef=named_so)
    rounds(cluster)
    assert cluster.why("one")[1].startswith("GT677")


def test_the_group_that_a_user_names_keeps_its_pods_and_gets_the_number_of_the_pod_group() -> None:
    cluster = fleet(WorkloadKind.COSCHEDULING, 2)
    labels = {"gpu.topology/group": "ring", "scheduling.x-k8s.io/pod-group": "gang"}
    cluster.create("one", 2, labels=labels)
    rounds(cluster)
    assert cluster.why("one")[1].startswith("GT633: 1 of 2 pods of group ring")


def test_pods_of_one_pod_group_are_one_group_whatever_job_made_them() -> None:
    cluster = fleet(WorkloadKind.COSCHEDULING, 2)
    for name in ("one", "two"):
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "scheduling.x-k8s.io/pod-group": "gang"}
        cluster.create(name, 2, labels=labels)
    rounds(cluster)
    assert with_cards(cluster) == ["one", "two"]
