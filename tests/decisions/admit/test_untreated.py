"""Pods that HAMi leaves alone are warned of; those that it treats are not."""

from typing import Any

import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import Manifest, container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Reason
from webhook.words.version import Version

HAMI_2_6 = ClusterFacts(hami=Version(2, 6, 1), kubernetes=Version(1, 33))
COUNT = frozenset({"nvidia.com/gpu"})
IGNORED = {"hami.io/webhook": "ignore"}
OUTSIDE = ("GT250", "GT251", "GT252", "GT253")


def codes(
    manifest: dict[str, Any],
    namespace: Namespace = TEAM_A,
    cluster: ClusterFacts = HAMI_2_9,
    rules: AdmitPolicy | None = None,
) -> list[str]:
    outcome, _ = judge(manifest, namespace, cluster, rules)
    return [code for warning in outcome.warnings if (code := warning.partition(":")[0]) in OUTSIDE]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"schedulerName": "my-scheduler"}, ["GT250"]),
        ({"schedulerName": "hami-scheduler"}, []),
        ({"schedulerName": "default-scheduler"}, []),
        ({"schedulerName": ""}, []),
        ({"nodeName": "n1"}, ["GT252"]),
        ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, []),
        ({"runtimeClassName": "kata-qemu-nvidia-gpu"}, ["GT253"]),
        ({"runtimeClassName": "nvidia"}, []),
        ({"schedulerName": "x" * 250, "nodeName": "n1", "runtimeClassName": "kata"}, ["GT250", "GT252", "GT253"]),
    ],
)
def test_what_keeps_hami_from_a_pod_is_warned_of(fields: dict[str, Any], found: list[str]) -> None:
    assert codes(pod(**fields)) == found


@pytest.mark.parametrize(("cluster", "found"), [(HAMI_2_6, []), (ClusterFacts(), ["GT250"])])
def test_before_2_7_hami_overwrites_the_name_of_the_scheduler(cluster: ClusterFacts, found: list[str]) -> None:
    assert codes(pod(schedulerName="my-scheduler"), cluster=cluster) == found


def test_the_scheduler_of_hami_may_have_another_name() -> None:
    rules = policy(cluster={"hamiSchedulerName": "my-scheduler"})
    assert codes(pod(schedulerName="my-scheduler"), rules=rules) == []
    assert codes(pod(schedulerName="hami-scheduler"), rules=rules) == ["GT250"]


@pytest.mark.parametrize(
    ("labels", "of_namespace", "scheduler", "found"),
    [
        (IGNORED, {}, None, ["GT251"]),
        ({}, IGNORED, None, ["GT251"]),
        (IGNORED, IGNORED, "hami-scheduler", []),
        ({"hami.io/webhook": "yes"}, {}, None, []),
    ],
)
def test_the_label_that_hamis_webhook_obeys_is_warned_of_on_pod_and_namespace(
    labels: dict[str, str], of_namespace: dict[str, str], scheduler: str | None, found: list[str]
) -> None:
    namespace = Namespace("team-a", team_a().labels | of_namespace)
    fields: dict[str, Any] = {"schedulerName": scheduler} if scheduler else {}
    assert codes(pod(labels=labels, **fields), namespace) == found


def test_a_pod_that_hami_has_given_gpus_already_is_not_warned_of() -> None:
    allocated = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1,100:GPU-b,NVIDIA,1,100:;"}
    assert codes(pod(annotations=allocated, nodeName="n1", schedulerName="my-scheduler")) == []


def test_gpus_of_another_family_are_no_matter_of_hami() -> None:
    asking = container(gpus=None, resources={"limits": {"volcano.sh/vgpu-number": 2}})
    assert codes(pod(asking, schedulerName="volcano")) == []
    assert judge(pod(asking, schedulerName="volcano"))[0].reason is Reason.INJECTED


@pytest.mark.parametrize("cluster", [HAMI_2_9, ClusterFacts()])
def test_a_pod_that_volcano_schedules_is_left_alone_whoever_asks(cluster: ClusterFacts) -> None:
    for annotations in ({}, {"gpu.topology/profile": "exclusive"}):
        outcome, _ = judge(pod(annotations=annotations, schedulerName="volcano"), cluster=cluster)
        assert (outcome.kind, outcome.reason) == (Kind.SKIP, Reason.OTHER_SCHEDULER)
        assert outcome.warnings[0].startswith("GT185: Volcano schedules the pod")


def test_a_requirement_of_a_pod_that_volcano_schedules_is_refused_with_deny() -> None:
    asked = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
    assert judge(pod(annotations=asked, schedulerName="volcano"))[0].reason is Reason.REQUIREMENT_NOT_KEPT


@pytest.mark.parametrize(
    ("manifest", "cluster", "settings", "reason"),
    [
        (pod(schedulerName="my-scheduler"), HAMI_2_9, {}, Reason.INJECTED),
        (pod(schedulerName="volcano"), HAMI_2_6, {}, Reason.INJECTED),
        (pod(schedulerName="volcano"), HAMI_2_9, {"hamiSchedulerName": "volcano"}, Reason.INJECTED),
        (pod(schedulerName="volcano"), ClusterFacts(claimed=COUNT), {}, Reason.SERVED_BY_CLAIMS),
        (pod(schedulerName="volcano"), ClusterFacts(lacks_hami=True), {}, Reason.PLAIN_DEVICE_PLUGIN),
        (pod(annotations={"hami.io/vgpu-node": "n1"}, schedulerName="volcano"), HAMI_2_9, {}, Reason.INJECTED),
        (pod(container(gpus=1), schedulerName="volcano"), HAMI_2_9, {}, Reason.NOT_REQUESTED),
    ],
)
def test_others_are_not_left_to_volcano(
    manifest: Manifest, cluster: ClusterFacts, settings: dict[str, str], reason: Reason
) -> None:
    assert judge(manifest, cluster=cluster, rules=policy(cluster=settings))[0].reason is reason
