"""Faults of some versions of HAMi."""

import pytest

from tests.insight.explain.situations import HAMI_2_8, UNKNOWN_HAMI, finding, injected, said, told
from tests.judge import HAMI_2_9, HAMI_2_10_0
from tests.pods import container, pod
from webhook.decisions.cluster_facts import ClusterFacts

SETUP = pod(initContainers=[container("setup", gpus=None)])
SIDECAR = pod(initContainers=[container("setup", gpus=None), container("proxy", gpus=None, restartPolicy="Always")])


@pytest.mark.parametrize(
    ("cluster", "verdict"), [(HAMI_2_9, "holds"), (HAMI_2_10_0, "fails"), (UNKNOWN_HAMI, "unknown")]
)
def test_an_init_container_without_a_gpu_is_a_fault_of_one_version(cluster: ClusterFacts, verdict: str) -> None:
    assert finding(told(SETUP, cluster=cluster), "init-container-fault").verdict == verdict


def test_the_fault_is_told_with_its_remedy() -> None:
    found = finding(told(SETUP, cluster=HAMI_2_10_0), "init-container-fault")
    assert found.evidence == (
        "init container setup asks for no GPU and ends: HAMi 2.10.0 then offers the pod's cards to others"
    )
    assert found.remedy == "Upgrade HAMi, or give the pod no such init container"


def test_our_own_init_container_becomes_a_sidecar_where_the_webhook_knows_the_version() -> None:
    prepared = injected(pod(), cluster=HAMI_2_9)
    found = finding(told(prepared, cluster=HAMI_2_10_0), "init-container-fault")
    assert found.verdict == "fails"
    assert found.remedy == (
        "Tell the webhook HAMi's version (cluster.hamiVersion in its configuration) and create the pod again: "
        "gpu-topology-remap is then a sidecar, which does not end"
    )
    both = finding(told(injected(SETUP, cluster=HAMI_2_9), cluster=HAMI_2_10_0), "init-container-fault")
    assert both.remedy.endswith("and with it there is no fault of setup either")


@pytest.mark.parametrize("manifest", [SIDECAR, pod()])
def test_a_sidecar_that_never_ends_or_none_at_all_is_no_fault(manifest: dict[str, object]) -> None:
    assert finding(told(manifest, cluster=HAMI_2_10_0), "init-container-fault").verdict == "holds"


def test_our_own_sidecar_is_no_fault_either() -> None:
    report = told(injected(SETUP, cluster=HAMI_2_10_0), cluster=HAMI_2_10_0)
    assert finding(report, "init-container-fault").verdict == "holds"
    assert finding(report, "control").verdict == "holds"


@pytest.mark.parametrize(
    ("cluster", "verdict"), [(HAMI_2_9, "holds"), (HAMI_2_10_0, "fails"), (UNKNOWN_HAMI, "unknown")]
)
def test_privileged_containers_are_refused_since_2_10(cluster: ClusterFacts, verdict: str) -> None:
    manifest = pod(container(securityContext={"privileged": True}))
    assert finding(told(manifest, cluster=cluster), "privileged").verdict == verdict


@pytest.mark.parametrize(("cluster", "verdict"), [(HAMI_2_8, "fails"), (HAMI_2_9, "holds"), (UNKNOWN_HAMI, "unknown")])
def test_gpus_of_init_containers_are_scheduled_since_2_9(cluster: ClusterFacts, verdict: str) -> None:
    manifest = pod(initContainers=[container("warm", gpus=1)])
    assert finding(told(manifest, cluster=cluster), "init-container-gpus").verdict == verdict


def test_other_schedulers_do_not_have_them() -> None:
    manifest = pod(container(resources={"limits": {"volcano.sh/vgpu-number": 2}}))
    assert said(told(manifest, cluster=HAMI_2_10_0), "init-container-fault") == (
        "not-needed",
        "the GPUs are not scheduled by HAMi",
    )
