"""Faults of some versions of HAMi."""

import pytest

from tests.insight.explain.situations import H20, HAMI_2_8, UNKNOWN_HAMI, finding, injected, on, said, told
from tests.judge import HAMI_2_9, HAMI_2_10_0, policy
from tests.pods import Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.insight.explain.evidence import Reading
from webhook.insight.explain.findings import Report
from webhook.words.version import Version

SETUP = pod(initContainers=[container("setup", gpus=None)])
SIDECAR = pod(initContainers=[container("setup", gpus=None), container("proxy", gpus=None, restartPolicy="Always")])


PRIVILEGED = pod(container(securityContext={"privileged": True}))
INIT_GPUS = pod(initContainers=[container("warm", gpus=1)])


@pytest.mark.parametrize("cluster", [HAMI_2_8, HAMI_2_9, HAMI_2_10_0, UNKNOWN_HAMI])
@pytest.mark.parametrize(
    ("condition", "manifest", "verdicts"),
    [
        ("init-container-fault", SETUP, ("holds", "holds", "fails", "unknown")),
        ("privileged", PRIVILEGED, ("holds", "holds", "fails", "unknown")),
        ("init-container-gpus", INIT_GPUS, ("fails", "holds", "holds", "unknown")),
    ],
)
def test_a_fault_is_one_of_some_versions(
    condition: str, manifest: Manifest, verdicts: tuple[str, ...], cluster: ClusterFacts
) -> None:
    expected = dict(zip((HAMI_2_8, HAMI_2_9, HAMI_2_10_0, UNKNOWN_HAMI), verdicts, strict=True))
    assert finding(told(manifest, cluster=cluster), condition).verdict == expected[cluster]


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


def test_other_schedulers_do_not_have_them() -> None:
    manifest = pod(container(resources={"limits": {"volcano.sh/vgpu-number": 2}}))
    assert said(told(manifest, cluster=HAMI_2_10_0), "init-container-fault") == (
        "not-needed",
        "the GPUs are not scheduled by HAMi",
    )


# Pods that run: their allocation decides, which an earlier version may have written.

HAMI_2_11 = ClusterFacts(hami=Version(2, 11), kubernetes=Version(1, 33))
TWO = list(H20[:2])


def conditions(report: Report) -> dict[str, tuple[str, str]]:
    """The verdicts and codes of the conditions that may be told of init containers, by their names."""
    wanted = ("init-container-fault", "sidecar-first")
    return {each.condition: (str(each.verdict), each.code) for each in report.findings if each.condition in wanted}


def behind(manifest: Manifest) -> Manifest:
    """The pod after another webhook put an init container ahead of ours."""
    inits = [container("istio-init", gpus=None), *manifest["spec"]["initContainers"]]
    return manifest | {"spec": manifest["spec"] | {"initContainers": inits}}


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [(HAMI_2_8, "holds"), (HAMI_2_9, "holds"), (HAMI_2_10_0, "fails"), (HAMI_2_11, "fails"), (UNKNOWN_HAMI, "unknown")],
)
def test_a_pod_that_hami_2_8_bound_loses_its_cards_to_2_10_and_later(cluster: ClusterFacts, verdict: str) -> None:
    report = told(on(injected(pod()), "h20-node-1", TWO), cluster=cluster)
    assert finding(report, "init-container-fault").verdict == verdict


def test_the_loss_is_told_with_its_number_and_remedy() -> None:
    bound = on(injected(pod(container(), container("decode", gpus=1))), "h20-node-1", TWO, [H20[2]])
    found = finding(told(bound, cluster=HAMI_2_11), "init-container-fault")
    assert found.code == "GT247"
    assert found.evidence == (
        "HAMi 2.11.0 counts 1 of the 3 GPUs of this running pod: it takes the rest for GPUs of init container "
        "gpu-topology-remap, which has ended, and offers them to other pods"
    )
    assert found.remedy.startswith("Create the pod again. ")


@pytest.mark.parametrize(("running", "code"), [(HAMI_2_8, "GT246"), (UNKNOWN_HAMI, "GT246"), (HAMI_2_11, "GT247")])
def test_a_version_that_does_not_run_yet_is_a_warning_before_the_upgrade(running: ClusterFacts, code: str) -> None:
    rules = policy(cluster={"hamiVersion": "2.11.0"})
    bound = on(injected(pod()), "h20-node-1", TWO)
    report = told(bound, cluster=running, rules=rules, reading=Reading(names_hami=True))
    found = finding(report, "init-container-fault")
    assert (str(found.verdict), found.code) == ("fails", code)
    if code == "GT246":
        assert "HAMi 2.11.0 would count none of the 2 GPUs" in found.evidence
        assert found.remedy == "Delete the pod before the upgrade to HAMi 2.11.0, and create it again after it"


def test_a_pod_that_hami_2_9_bound_keeps_its_cards() -> None:
    bound = on(injected(pod()), "h20-node-1", [], TWO)
    for cluster in (HAMI_2_9, HAMI_2_10_0, HAMI_2_11):
        assert conditions(told(bound, cluster=cluster)) == {"init-container-fault": ("holds", "")}


def test_our_sidecar_keeps_the_cards_and_behind_another_init_container_only_until_an_upgrade() -> None:
    first = on(injected(SETUP, cluster=HAMI_2_10_0), "h20-node-1", TWO)
    second = on(behind(injected(pod(), cluster=HAMI_2_10_0)), "h20-node-1", TWO)
    kept, hinted = ("holds", ""), ("hint", "GT248")
    assert conditions(told(first, cluster=HAMI_2_10_0)) == {"init-container-fault": kept}
    assert conditions(told(first, cluster=HAMI_2_11)) == {"init-container-fault": kept}
    assert conditions(told(second, cluster=HAMI_2_10_0)) == {"init-container-fault": kept, "sidecar-first": hinted}
    assert conditions(told(second, cluster=HAMI_2_11)) == {"init-container-fault": ("fails", "GT247")}


def test_before_a_pod_has_cards_it_depends_on_what_hami_would_write() -> None:
    waiting = behind(injected(pod(), cluster=HAMI_2_10_0))
    assert "sidecar-first" in conditions(told(waiting, cluster=HAMI_2_10_0))
    assert "sidecar-first" in conditions(told(waiting, cluster=UNKNOWN_HAMI))
    assert "sidecar-first" not in conditions(told(waiting, cluster=HAMI_2_11))
    written_whole = on(waiting, "h20-node-1", [], [], TWO)
    assert "sidecar-first" not in conditions(told(written_whole, cluster=HAMI_2_10_0))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_has_no_cards_to_lose(phase: str) -> None:
    ended = on(injected(pod()), "h20-node-1", TWO) | {"status": {"phase": phase}}
    assert finding(told(ended, cluster=HAMI_2_11), "init-container-fault").verdict == "holds"


@pytest.mark.parametrize("text", ["", "x", "GPU-a,NVIDIA,1:;", "GPU-a,NVIDIA,1,100:;"])
def test_without_an_allocation_that_fits_the_pod_is_judged_as_a_new_one(text: str) -> None:
    bound = on(injected(pod()), "h20-node-1", TWO)
    bound["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = text
    assert finding(told(bound, cluster=HAMI_2_10_0), "init-container-fault").code == "GT233"
    assert finding(told(bound, cluster=HAMI_2_11), "init-container-fault").verdict == "holds"
