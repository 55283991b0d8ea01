"""HAMi's policy is asked for where it gives GPUs, and nowhere else."""

from typing import Any

import pytest

from tests.judge import judge
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.version import Version

POLICY = "hami.io/gpu-scheduler-policy"
FAULT = "GT240: topology-aware: HAMi before 2.10 gives the pod no GPUs on nodes without pair scores"
KUBERNETES = Version(1, 33, 2)


def pod(**annotations: str) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "4"}}
    containers = [{"name": "train", "image": "x", "resources": resources}]
    return {
        "metadata": {"name": "train", "namespace": "team-a", "annotations": annotations},
        "spec": {"containers": containers},
    }


@pytest.mark.parametrize(
    ("hami", "policy"),
    [
        (Version(2, 6, 1), None),
        (Version(2, 7), None),
        (Version(2, 8, 3), None),
        (Version(2, 9), None),
        (None, None),
        (Version(2, 10), "topology-aware"),
        (Version(2, 11), "topology-aware"),
    ],
)
def test_the_policy_is_left_to_the_cluster_where_it_could_give_no_gpu(hami: Version | None, policy: str | None) -> None:
    outcome, after = judge(pod(), cluster=ClusterFacts(hami=hami, kubernetes=KUBERNETES))
    assert after["metadata"]["annotations"].get(POLICY) == policy
    assert FAULT not in outcome.warnings


@pytest.mark.parametrize(
    ("hami", "warned"),
    [(Version(2, 6, 1), False), (Version(2, 7), True), (Version(2, 9), True), (Version(2, 10), False)],
)
def test_a_pod_that_brings_the_policy_is_warned_where_it_could_get_no_gpu(hami: Version, *, warned: bool) -> None:
    outcome, after = judge(pod(**{POLICY: "topology-aware"}), cluster=ClusterFacts(hami=hami, kubernetes=KUBERNETES))
    assert after["metadata"]["annotations"][POLICY] == "topology-aware"
    assert (FAULT in outcome.warnings) is warned
