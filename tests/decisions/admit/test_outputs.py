"""Output annotations that a pod brings along: whatever is decided about it, it keeps none that we did not write."""

from typing import Any

import pytest

from tests.judge import TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, Manifest, annotation_reference, container, pod, team_a
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Reason

FORGED = {
    "gpu.topology/injected": "0.1.0 node-peers",
    "gpu.topology/visible-uuids": "GPU-of-another",
    "gpu.topology/cuda-visible-devices.0": "6,7",
    "gpu.topology/nccl-nvls": "7",
    "gpu.topology/nccl-env.NCCL_ALGO": "forged",
    "gpu.topology/link": "NVSwitch",
    "gpu.topology/satisfied": "true",
    "gpu.topology/node-topology": '{"node":"forged"}',
}
SLICE = container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})
MIG = container(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}})
LEFT_ALONE = [
    pytest.param(pod(container("main", None)), Reason.NO_GPU_REQUEST, id="no GPU"),
    pytest.param(pod(annotations={"gpu.topology/inject": "false"}), Reason.OPTED_OUT, id="opted out by annotation"),
    pytest.param(pod(labels={"gpu.topology/injection": "disabled"}), Reason.OPTED_OUT, id="opted out by label"),
    pytest.param(pod(SLICE), Reason.VGPU_SLICE, id="slice"),
    pytest.param(pod(MIG), Reason.MIG_REQUEST, id="MIG"),
    pytest.param(pod(container(gpus=1)), Reason.NOT_REQUESTED, id="not requested"),
    pytest.param(pod(annotations={"kubernetes.io/config.mirror": "abc"}), Reason.MIRROR_POD, id="mirror pod"),
]


def with_annotations(manifest: Manifest, **more: str) -> Manifest:
    metadata = manifest["metadata"]
    return manifest | {"metadata": metadata | {"annotations": metadata.get("annotations", {}) | FORGED | more}}


def left(manifest: Manifest) -> dict[str, str]:
    """Our output annotations."""
    found = manifest["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key in FORGED or key == "gpu.topology/nccl-p2p-level"}


def reading(*keys: str, **fields: Any) -> Manifest:
    """A container whose variables take their values from annotations."""
    env = [{"name": f"V{number}", "valueFrom": annotation_reference(key)} for number, key in enumerate(keys)]
    return container("main", None, env=env, **fields)


@pytest.mark.parametrize(("manifest", "reason"), LEFT_ALONE)
def test_a_pod_that_is_left_alone_loses_the_outputs_that_it_brought(manifest: Manifest, reason: Reason) -> None:
    outcome, after = judge(with_annotations(manifest, team="ml"))
    assert (outcome.kind, outcome.reason, left(after)) == (Kind.PATCH, reason, {})
    assert after["metadata"]["annotations"]["team"] == "ml"
    assert "8 annotations that only the webhook writes were removed" in outcome.warnings[-1]
    assert after["spec"] == manifest["spec"]


@pytest.mark.parametrize(("manifest", "reason"), LEFT_ALONE)
def test_a_pod_that_is_left_alone_and_brought_none_stays_as_it_is(manifest: Manifest, reason: Reason) -> None:
    outcome, after = judge(manifest)
    assert (outcome.kind, outcome.reason) == (Kind.SKIP, reason)
    assert after == manifest


def test_a_pod_of_which_no_container_is_selected_loses_them_too() -> None:
    namespace = team_a({"gpu.topology/containers": "other"})
    outcome, after = judge(with_annotations(pod()), namespace)
    assert (outcome.kind, outcome.reason, left(after)) == (Kind.PATCH, Reason.NO_CONTAINER_SELECTED, {})


def test_an_observed_pod_keeps_our_mark_alone() -> None:
    outcome, after = judge(with_annotations(pod(annotations={"gpu.topology/profile": "observe"})))
    assert (outcome.reason, left(after)) == (Reason.OBSERVED, {"gpu.topology/injected": "0.1.0 observe"})


def test_an_injected_pod_has_what_we_write_and_nothing_else() -> None:
    _, after = judge(with_annotations(pod()))
    assert left(after) == left(judge(pod())[1])


@pytest.mark.parametrize("namespace", [Namespace("team-a"), Namespace("team-a", known=False)], ids=["out", "unknown"])
def test_a_namespace_that_has_not_opted_in_is_none_of_our_business(namespace: Namespace) -> None:
    outcome, after = judge(with_annotations(pod()), namespace)
    assert outcome.kind is Kind.SKIP
    assert left(after) == FORGED


READ = {
    "gpu.topology/visible-uuids": "none",
    "gpu.topology/cuda-visible-devices.0": "-1",
    "gpu.topology/nccl-nvls": "2",
    "gpu.topology/nccl-p2p-level": "auto",
    "gpu.topology/link": "unknown",
    "gpu.topology/satisfied": "unknown",
    "gpu.topology/node-topology": "{}",
}
"""What a variable reads until bind."""


@pytest.mark.parametrize("gpus", [None, 2], ids=["left alone", "injected"])
def test_a_variable_that_reads_one_gets_what_admission_says_of_unknown_gpus(gpus: int | None) -> None:
    manifest = pod(reading(*READ), container("train", gpus))
    forged = with_annotations(manifest, **{"gpu.topology/nccl-p2p-level": "NVL"})
    _, after = judge(forged, ALL_ALLOWED)
    assert left(after).items() >= READ.items()


def test_a_variable_of_an_init_container_counts_as_well() -> None:
    manifest = pod(container("main", None), initContainers=[reading("gpu.topology/visible-uuids")])
    assert left(judge(with_annotations(manifest))[1]) == {"gpu.topology/visible-uuids": "none"}


def test_nobody_reads_a_mark_of_a_pod_that_was_not_injected() -> None:
    assert left(judge(with_annotations(pod(reading("gpu.topology/injected"))))[1]) == {}


NCCL = {name: {"NCCL_ALGO": name, "NCCL_PROTO": "Simple"} for name in ("nvswitch", "nvlink", "pcie")}


@pytest.mark.parametrize(("name", "value"), [("NCCL_ALGO", "pcie"), ("NCCL_PROTO", "Simple")])
def test_a_variable_of_the_tables_gets_the_value_for_pcie(name: str, value: str) -> None:
    key = f"gpu.topology/nccl-env.{name}"
    _, after = judge(pod(reading(key), annotations={key: "forged"}), rules=policy(nccl=NCCL))
    assert after["metadata"]["annotations"] == {key: value}


@pytest.mark.parametrize("gpus", [None, 2], ids=["left alone", "injected"])
def test_a_variable_that_reads_what_nobody_will_ever_write_refuses_the_pod(gpus: int | None) -> None:
    key = "gpu.topology/nccl-env.NCCL_ALGO"
    outcome, _ = judge(pod(reading(key), container("train", gpus), annotations={key: "forged"}))
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, Reason.UNKNOWN_OUTPUT)


def test_the_level_of_nccl_is_the_users_option_where_no_variable_reads_it() -> None:
    wish = {"gpu.topology/nccl-p2p-level": "NVL"}
    for manifest in (pod(annotations=wish), pod(container("main", None), annotations=wish)):
        assert left(judge(manifest)[1])["gpu.topology/nccl-p2p-level"] == "NVL"


def test_the_level_of_nccl_is_ours_where_a_variable_reads_it() -> None:
    wish = {"gpu.topology/nccl-p2p-level": "NVL"}
    outcome, after = judge(pod(container(), reading("gpu.topology/nccl-p2p-level"), annotations=wish), TEAM_A)
    assert left(after)["gpu.topology/nccl-p2p-level"] == "auto"
    env = {variable["name"]: variable for variable in after["spec"]["containers"][0]["env"]}
    assert env["NCCL_P2P_LEVEL"]["valueFrom"] == annotation_reference("gpu.topology/nccl-p2p-level")
    assert outcome.reason is Reason.INJECTED
