"""What containers ask for, and of whom."""

from typing import Any

import msgspec
import pytest

from tests.judge import judge
from tests.pods import ALL_ALLOWED, Manifest, container, effective_env, pod
from webhook.decisions.configuration import HAMI_RESOURCES, VOLCANO_RESOURCES
from webhook.decisions.request.resources import family_of, read_requests
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod
from webhook.words.outcome import Kind, Reason, Refused

FAMILIES = (HAMI_RESOURCES, VOLCANO_RESOURCES)


def asking(name: str = "train", **limits: Any) -> Manifest:
    """A container with these limits; the names without their domain."""
    named = {
        f"{'volcano.sh' if key.startswith('vgpu') else 'nvidia.com'}/{key}": value for key, value in limits.items()
    }
    return {"name": name, "resources": {"limits": {key.replace("_", "-"): value for key, value in named.items()}}}


def family(*containers: Manifest) -> str:
    found = msgspec.json.decode(to_json(pod(*containers)), type=Pod)
    return family_of(read_requests(found, FAMILIES, default_count=1).containers)


@pytest.mark.parametrize(
    "nothing",
    [
        {"gpumem": 0},
        {"gpumem": "0"},
        {"gpumem_percentage": 0},
        {"gpucores": 0},
        {"gpumem": 0, "gpucores": "0", "gpumem_percentage": 0},
        {"gpu": 0, "gpumem": 3000},
        {"vgpu_cores": 0},
    ],
)
def test_nothing_of_a_gpu_is_no_request(nothing: dict[str, Any]) -> None:
    outcome, _ = judge(pod(asking(**nothing)))
    assert outcome.reason == Reason.NO_GPU_REQUEST


def test_a_helper_that_asks_for_no_memory_is_no_gpu_container() -> None:
    _, after = judge(pod(container(), asking("helper", gpumem=0)))
    assert "NCCL_P2P_LEVEL" not in effective_env(after, "helper")
    assert effective_env(after, "gpu-topology-remap")["GPU_TOPOLOGY_CONTAINERS"] == "train:2:"


def test_no_memory_of_one_family_leaves_the_gpus_of_another() -> None:
    assert family(asking(gpumem=0, vgpu_number=2)) == "volcano"


def test_a_part_without_a_count_asks_for_the_default_count() -> None:
    assert family(asking(gpucores=30, gpumem=0)) == "hami"


@pytest.mark.parametrize("resource", ["gpumem", "gpumem_percentage", "gpucores"])
def test_a_part_that_is_no_whole_number_refuses_the_pod(resource: str) -> None:
    outcome, _ = judge(pod(asking(**{resource: "half"})))
    assert outcome.reason == Reason.BAD_RESOURCE
    assert f"resource nvidia.com/{resource.replace('_', '-')} of container train" in outcome.message


def test_the_family_is_that_of_all_containers() -> None:
    assert family(container("helper", None)) == ""
    assert family(container("helper", None), container()) == "hami"
    assert family(asking(vgpu_number=1), asking("other", vgpu_cores=50)) == "volcano"


MIXED = (
    "GT204: container train asks for GPUs of hami, container eval for GPUs of volcano: no scheduler gives a pod both. "
    "Use the resource names of one of them"
)


def test_two_families_in_one_pod_are_named() -> None:
    with pytest.raises(Refused, match=f"^{MIXED}$"):
        family(container(), asking("eval", vgpu_number=1))


def test_two_families_refuse_a_pod_that_is_ours_even_where_one_is_left_out() -> None:
    both = (container(), asking("eval", vgpu_number=1))
    for annotations in ({}, {"gpu.topology/containers": "train"}):
        outcome, _ = judge(pod(*both, annotations=annotations))
        assert (outcome.kind, outcome.reason, outcome.message) == (Kind.REFUSE, Reason.BAD_RESOURCE, MIXED)
    observed, _ = judge(pod(*both, annotations={"gpu.topology/profile": "observe"}))
    assert observed.kind is Kind.PATCH
    assert any(
        "would refuse it: GT204: container train asks for GPUs of hami" in warning for warning in observed.warnings
    )


@pytest.mark.parametrize("annotations", [{"gpu.topology/inject": "false"}, {}])
def test_two_families_in_a_pod_that_passes_are_none_of_our_business(annotations: dict[str, str]) -> None:
    manifest = pod(container(gpus=1), asking("eval", vgpu_number=1), annotations=annotations)
    outcome, after = judge(manifest)
    assert outcome.kind is Kind.SKIP
    assert after == manifest


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_gpus_of_an_init_container_that_ends_are_not_shown_to_peers(profile: str) -> None:
    warm_up = container("warm-up", 1)
    manifest = pod(annotations={"gpu.topology/profile": profile}, initContainers=[warm_up])
    outcome, _ = judge(manifest, ALL_ALLOWED)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, Reason.CONTRADICTS_PROFILE)
    assert outcome.message == (
        "GT509: init container warm-up asks for GPUs, which others get once it finishes, but profile "
        f"{profile} would go on showing them to its peers. Leave it out with gpu.topology/containers, "
        "or choose profile exclusive"
    )
    manifest["metadata"]["annotations"]["gpu.topology/containers"] = "train"
    assert judge(manifest, ALL_ALLOWED)[0].kind is Kind.PATCH


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_a_restartable_init_container_is_a_peer_like_others(profile: str) -> None:
    helper = container("cache", 1, restartPolicy="Always")
    outcome, after = judge(pod(annotations={"gpu.topology/profile": profile}, initContainers=[helper]), ALL_ALLOWED)
    assert outcome.kind is Kind.PATCH
    assert "CUDA_VISIBLE_DEVICES" in effective_env(after, "cache")


def test_in_exclusive_an_init_container_may_have_gpus() -> None:
    assert judge(pod(initContainers=[container("warm-up", 1)]))[0].kind is Kind.PATCH


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("100", "100"),
        ("+100.0", "100"),
        (".5", "0.5"),
        ("187.5", "187.5"),
        ("370.8000001", "370.8000001"),
        ("1234567", "1234567"),
        ("1e22", "1e+22"),
        ("0.1000000000000000055511151231257827", "0.1"),
    ],
)
def test_the_remap_program_is_told_the_very_bandwidth(written: str, told: str) -> None:
    _, after = judge(pod(annotations={"gpu.topology/min-bandwidth": written}))
    assert effective_env(after, "gpu-topology-remap")["GPU_TOPOLOGY_MIN_BANDWIDTH"] == told
