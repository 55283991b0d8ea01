"""What ``analyze`` says of the programs of this project, and of workloads whose pods cannot be created."""

from typing import Any

import pytest

from tests.insight.analyze.clusters import AT, Cluster, Object, endpoints, failed_create, planner_lease, program
from tests.insight.analyze.faults import NO_ANSWER, NO_RUNTIME_CLASS, QUOTA, REFUSED
from webhook.cluster.redaction.objects import kept
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.analyze.diagnosis import Diagnosis
from webhook.objects.failed_creation import Cause, FailedCreation, failed_creation


def only(cluster: Cluster) -> Diagnosis:
    (found,) = cluster.analyzed()
    return found


def test_the_cause_is_read_from_the_words_of_the_api_server() -> None:
    assert failed_creation(f"Error creating: {REFUSED}") == FailedCreation(
        Cause.REFUSED,
        "pods.gpu.topology",
        "GT124: profile node-peers needs the label gpu.topology/allow-node-peers on the namespace",
    )
    no_answer = failed_creation(f"Error creating: {NO_ANSWER}")
    assert no_answer is not None
    assert (no_answer.cause, no_answer.webhook) == (Cause.NO_ANSWER, "pods.gpu.topology")
    assert no_answer.said.startswith("failed to call webhook: Post")
    assert failed_creation(f"Error creating: {NO_RUNTIME_CLASS}") == FailedCreation(Cause.RUNTIME_CLASS, "", "nvidia")
    quota = failed_creation(QUOTA)
    assert quota is not None
    assert quota.cause is Cause.QUOTA
    assert quota.said.startswith("gpus, requested: limits.nvidia.com/gpu=4")


@pytest.mark.parametrize(
    "message",
    [
        "",
        'Error creating: admission webhook "validate.kyverno.svc" denied the request: no',
        'Error creating: pods "serve-0" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
        'failed calling webhook "istio.io": timeout',
        'pods "web" is forbidden: exceeded quota: cpu, requested: cpu=4, used: cpu=6, limited: cpu=8',
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostIPC',
        'admission webhook "pods.gpu.topology" denied',
    ],
)
def test_what_is_no_business_of_ours_is_not_kept(message: str) -> None:
    assert failed_creation(message) is None
    assert kept(failed_create("Job", "train", message)) is None


@pytest.mark.parametrize(("minutes", "number"), [(19, 1), (21, 0)])
def test_a_failure_is_over_once_the_controller_would_have_tried_again(minutes: int, number: int) -> None:
    cluster = Cluster()
    cluster.add(failed_create("Job", "train", NO_ANSWER, minutes_ago=minutes))
    assert len(cluster.analyzed()) == number


def test_a_failure_is_counted_by_its_last_occurrence() -> None:
    cluster = Cluster()
    event = failed_create("Job", "train", NO_ANSWER, minutes_ago=50)
    cluster.add(event | {"series": {"count": 3, "lastObservedTime": "2026-11-22T11:59:00.000000Z"}})
    assert [each.code for each in cluster.analyzed()] == ["GT855"]


def test_of_many_attempts_the_newest_is_told_once() -> None:
    cluster = Cluster()
    for minute in range(1, 9):
        event = failed_create("Job", "train", f"attempt {minute}: {NO_ANSWER}", minutes_ago=minute)
        event["metadata"]["name"] = f"train.{minute}"
        cluster.add(event)
    assert len(cluster.analyzed()) == 1


def test_workloads_of_other_namespaces_are_left_out_and_the_installation_is_not() -> None:
    cluster = Cluster()
    cluster.add(failed_create("Job", "train", NO_ANSWER))
    cluster.add(program("webhook", 2, 0))

    def codes(namespace: str) -> set[str]:
        return {each.code for each in analyze(cluster.snapshot(), namespace=namespace).findings}

    assert codes("team-a") == {"GT852", "GT855"}
    assert codes("other") == {"GT852"}


def test_a_workload_with_our_labels_in_another_namespace_says_nothing_about_the_programs() -> None:
    def workload_of_tenant(component: str) -> Object:
        found = program(component, 2, 0)
        found["metadata"]["namespace"] = "team-a"
        return found

    cluster = Cluster()
    for component in ("webhook", "planner", "agent"):
        cluster.add(workload_of_tenant(component))
    assert cluster.analyzed() == []
    cluster.add(endpoints(False, False))
    assert [each.code for each in cluster.analyzed()] == ["GT853"]


def test_a_webhook_that_was_scaled_to_nothing_is_told_by_its_endpoints() -> None:
    cluster = Cluster()
    cluster.add(program("webhook", 0, 0))
    cluster.add(endpoints())
    assert [each.code for each in cluster.analyzed()] == ["GT853"]
    cluster.add(endpoints(True, False))
    assert cluster.analyzed() == []


def test_a_planner_is_silent_only_if_its_lease_is_old() -> None:
    cluster = Cluster()
    cluster.add(program("planner", 1, 1))
    assert cluster.analyzed() == []
    cluster.add(planner_lease(AT.replace(hour=11)))
    found = only(cluster)
    assert found.code == "GT858"
    assert found.text == (
        "the planner is ready and does not work: Lease gpu-topology/gpu-topology-place was renewed 60 minutes ago"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "odd"},
        {"status": {"readyReplicas": "2"}, "spec": {"replicas": True}},
        {"spec": None, "status": None},
        {"metadata": {"name": "x", "labels": {"app.kubernetes.io/name": "gpu-topology-webhook"}}},
    ],
)
def test_workloads_of_any_shape_are_read(changed: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.add(program("webhook", 1, 1) | changed)
    assert {each.code for each in cluster.analyzed()} <= {"GT852"}


def test_events_of_any_shape_are_read() -> None:
    event = failed_create("Job", "train", NO_ANSWER)
    shapes: list[dict[str, Any]] = [{"series": []}, {"involvedObject": "odd"}, {"lastTimestamp": 3}]
    for changed in (*shapes, {"involvedObject": {"kind": 1}}):
        cluster = Cluster()
        cluster.add(event | changed)
        assert {each.code for each in cluster.analyzed()} <= {"GT855"}
