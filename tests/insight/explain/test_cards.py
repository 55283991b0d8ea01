"""Whole cards, HAMi's library, and variables that hide GPUs."""

from typing import Any

import pytest

from tests.insight.explain.situations import H20, HAMI_2_8, UNKNOWN_HAMI, existing, finding, injected, on, said, told
from tests.judge import HAMI_2_9, HAMI_2_10_0, policy
from tests.pods import Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.insight.explain.evidence import Reading
from webhook.insight.explain.findings import Finding
from webhook.words.version import Version

OFF = [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]


def asking(**resources: Any) -> Manifest:
    """A container with these GPU resources: ``gpu``, ``gpumem``, ``gpucores``."""
    return container(resources={"limits": {f"nvidia.com/{name}": value for name, value in resources.items()}})


def test_whole_cards_hold_for_a_count_alone() -> None:
    report = told(pod(container("a", gpus=2), container("b", gpus=1)))
    assert said(report, "whole-cards") == (
        "holds",
        "container a asks for 2 whole GPUs and container b asks for 1 whole GPU",
    )


@pytest.mark.parametrize(
    ("one", "part"),
    [
        (asking(gpu=2, gpumem=3000), "nvidia.com/gpumem"),
        (asking(gpu=2, gpucores=30), "nvidia.com/gpucores 30"),
        (
            container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50}}),
            "nvidia.com/gpumem-percentage 50",
        ),
    ],
)
def test_a_part_of_each_card_is_a_slice(one: Manifest, part: str) -> None:
    found = finding(told(pod(one)), "whole-cards")
    assert (found.verdict, found.evidence) == ("fails", f"container train asks for a part of each card: {part}")
    assert found.remedy == 'Ask for nvidia.com/gpu alone, or set gpu.topology/inject: "true" on the pod'


def test_mig_devices_stop_nvlink() -> None:
    report = told(pod(container(resources={"limits": {"nvidia.com/mig-1g.5gb": 2}})))
    found = finding(report, "whole-cards")
    assert (found.verdict, found.stops) == ("fails", True)
    assert report.reach == "none"
    assert report.conclusion == "The webhook did not prepare this pod. NCCL uses no NVLink in this pod: whole-cards."


def test_control_is_off_where_each_container_says_so() -> None:
    report = told(pod(container(env=OFF)))
    assert said(report, "control") == (
        "holds",
        "HAMi 2.9.0 finds CUDA_DISABLE_CONTROL set for container train and preloads nothing",
    )


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([], "and it does not set CUDA_DISABLE_CONTROL"),
        ([{"name": "CUDA_DISABLE_CONTROL", "value": "false"}], "where CUDA_DISABLE_CONTROL is false"),
        (
            [{"name": "CUDA_DISABLE_CONTROL", "value": "yes"}],
            'where CUDA_DISABLE_CONTROL is "yes", which Go\'s ParseBool does not take for true',
        ),
        (
            [{"name": "CUDA_DISABLE_CONTROL", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
            "where CUDA_DISABLE_CONTROL is no literal but comes from elsewhere, which does not count",
        ),
    ],
)
def test_control_stays_on_without_a_literal_true(entries: list[Manifest], why: str) -> None:
    found = finding(told(existing(pod(container(env=entries)))), "control")
    assert found.verdict == "fails"
    assert found.evidence == f"HAMi's library is preloaded into container train: HAMi 2.9.0 looks there, {why}"
    assert 'CUDA_DISABLE_CONTROL: "true" as a literal into every container' in found.remedy


def test_variables_of_a_config_map_do_not_count() -> None:
    report = told(pod(container(envFrom=[{"configMapRef": {"name": "c"}}])))
    assert finding(report, "control").evidence.endswith(
        "and it does not set CUDA_DISABLE_CONTROL, and envFrom does not count"
    )


# Which container HAMi looks at, for a pod whose second container alone has GPUs and the variable.
LOGGER_FIRST = pod(container("logger", gpus=None), container("train", env=OFF))
# The same with the variable on the first container alone.
LOGGER_SAYS_IT = pod(container("logger", gpus=None, env=OFF), container("train"))
# An init container without a GPU, and the variable on the other one.
AFTER_SETUP = pod(container("train", env=OFF), initContainers=[container("setup", gpus=None)])


@pytest.mark.parametrize(
    ("manifest", "cluster", "verdict", "where"),
    [
        (LOGGER_FIRST, HAMI_2_8, "fails", "HAMi 2.8.0 looks at container logger"),
        (LOGGER_FIRST, HAMI_2_9, "holds", ""),
        (LOGGER_FIRST, HAMI_2_10_0, "fails", "HAMi 2.10.0 looks at container logger"),
        (LOGGER_SAYS_IT, HAMI_2_8, "holds", ""),
        (LOGGER_SAYS_IT, HAMI_2_9, "fails", "HAMi 2.9.0 looks there"),
        (LOGGER_SAYS_IT, HAMI_2_10_0, "holds", ""),
        (AFTER_SETUP, HAMI_2_8, "holds", ""),
        (AFTER_SETUP, HAMI_2_9, "holds", ""),
        (AFTER_SETUP, HAMI_2_10_0, "fails", "HAMi 2.10.0 looks at container setup"),
        (AFTER_SETUP, ClusterFacts(hami=Version(2, 10, 1)), "holds", ""),
    ],
)
def test_the_version_of_hami_decides_which_container_must_say_it(
    manifest: Manifest, cluster: ClusterFacts, verdict: str, where: str
) -> None:
    found = finding(told(manifest, cluster=cluster), "control")
    assert found.verdict == verdict
    assert where in found.evidence


def test_where_versions_differ_an_unknown_one_leaves_it_open() -> None:
    found = finding(told(LOGGER_FIRST, cluster=UNKNOWN_HAMI), "control")
    assert found.verdict == "unknown"
    assert found.evidence == (
        "it depends on HAMi's version, which is not known here: HAMi up to 2.8: HAMi's library is preloaded into "
        "container train: HAMi up to 2.8 looks at container logger, and it does not set CUDA_DISABLE_CONTROL; "
        "HAMi since 2.9: no fault; HAMi 2.10.0: HAMi's library is preloaded into container train: HAMi 2.10.0 looks "
        "at container logger, and it does not set CUDA_DISABLE_CONTROL"
    )


def test_where_versions_agree_an_unknown_one_does_not_matter() -> None:
    assert finding(told(pod(), cluster=UNKNOWN_HAMI), "control").verdict == "fails"
    assert said(told(pod(container(env=OFF)), cluster=UNKNOWN_HAMI), "control") == (
        "holds",
        ("whichever version of HAMi it is, it finds CUDA_DISABLE_CONTROL set for container train and preloads nothing"),
    )
    assert said(told(pod(), cluster=UNKNOWN_HAMI), "control")[1] == (
        "HAMi's library is preloaded into container train: HAMi, whichever version it is, looks there, and it does "
        "not set CUDA_DISABLE_CONTROL"
    )


def test_a_slice_is_not_told_to_lift_its_limits() -> None:
    found = finding(told(pod(asking(gpu=2, gpumem=3000))), "control")
    assert found.verdict == "fails"
    assert found.remedy == "Ask for whole GPUs first: without HAMi's library a slice has no limits"


def volcano(name: str, env: list[Manifest] | None = None) -> Manifest:
    return container(name, resources={"limits": {"volcano.sh/vgpu-number": 2}}, env=env or [])


def test_volcano_takes_the_name_for_it_whatever_it_says() -> None:
    said_false = [{"name": "CUDA_DISABLE_CONTROL", "value": "false"}]
    assert finding(told(existing(pod(volcano("train", said_false)))), "control").verdict == "holds"
    shifted = pod(container("logger", gpus=None), volcano("train", said_false))
    assert said(told(existing(shifted)), "control") == (
        "unknown",
        (
            "unless Volcano's device plugin itself has CUDA_DISABLE_CONTROL_DP, HAMi's library is preloaded into "
            "container train: Volcano's device plugin looks at container logger, and it does not set "
            "CUDA_DISABLE_CONTROL"
        ),
    )


def test_with_one_gpu_hamis_library_harms_no_link() -> None:
    report = told(pod(container(gpus=1)))
    verdict, evidence = said(report, "control")
    assert verdict == "not-needed"
    assert evidence.endswith("that harms no link, because no container has two GPUs")
    assert report.conclusion == "NVLink has nothing to join: nothing shows two GPUs here that work together."


@pytest.mark.parametrize(
    ("entry", "verdict", "evidence"),
    [
        (
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
            "fails",
            'container train sets CUDA_VISIBLE_DEVICES to "0": CUDA uses 1 of its 2 GPUs',
        ),
        (
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"},
            "holds",
            'container train sets CUDA_VISIBLE_DEVICES to "0,1": CUDA uses 2 of its 2 GPUs',
        ),
        (
            {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            "unknown",
            "container train sets CUDA_VISIBLE_DEVICES from elsewhere: what it says is not known",
        ),
        (
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"},
            "fails",
            (
                "container train sets NVIDIA_VISIBLE_DEVICES itself, which overrules the device plugin: "
                '"none" shows no GPU'
            ),
        ),
        (
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            "unknown",
            (
                "container train sets NVIDIA_VISIBLE_DEVICES itself, which overrules the device plugin: "
                "whether it shows the allocated GPUs is not known"
            ),
        ),
    ],
)
def test_own_lists_of_gpus_may_hide_some(entry: Manifest, verdict: str, evidence: str) -> None:
    assert said(told(pod(container(env=[entry]))), "own-gpus") == (verdict, evidence)


ON_NODE = ("h20-node-1", list(H20[:2]))


@pytest.mark.parametrize(
    ("value", "verdict", "used", "why"),
    [
        ("1,0", "holds", 2, ""),
        (" 0 , 1 ", "holds", 2, ""),
        ("0,1,7", "holds", 2, 'the list ends at "7", which is no number of its GPUs (0 to 1)'),
        ("", "fails", 0, ""),
        ("4,5", "fails", 0, 'the list ends at "4", which is no number of its GPUs (0 to 1)'),
        ("0,2", "fails", 1, 'the list ends at "2", which is no number of its GPUs (0 to 1)'),
        ("0,-1,1", "fails", 1, 'the list ends at "-1", which is no number of its GPUs (0 to 1)'),
        ("all", "fails", 0, 'the list ends at "all", which is no number of its GPUs (0 to 1)'),
        ("0,0", "fails", 1, '"0" names a GPU for the second time, which CUDA may refuse'),
        ("0,1,1", "fails", 2, '"1" names a GPU for the second time, which CUDA may refuse'),
        (f"{H20[1]},{H20[0]}", "holds", 2, ""),
        ("GPU-b0c5,GPU-4695", "holds", 2, ""),
        (
            "GPU-b0c5,GPU-4650",
            "fails",
            1,
            'the list ends at "GPU-4650", which is none of its GPUs, or stands for several',
        ),
        ("GPU-,0", "fails", 0, 'the list ends at "GPU-", which is none of its GPUs, or stands for several'),
    ],
)
def test_each_entry_of_an_own_list_is_looked_at(value: str, verdict: str, used: int, why: str) -> None:
    manifest = pod(container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": value}, *OFF]))
    found = finding(told(on(manifest, *ON_NODE)), "own-gpus")
    assert found.verdict == verdict
    assert found.evidence.endswith(f": {why}{'; ' if why else ''}CUDA uses {used} of its 2 GPUs")
    assert found.stops == (used < 2)


UUIDS = {"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-1,GPU-2"}


def test_uuids_are_all_one_to_hamis_library() -> None:
    assert said(told(pod(container(env=[UUIDS]))), "own-gpus") == (
        "fails",
        'container train sets CUDA_VISIBLE_DEVICES to "GPU-1,GPU-2": HAMi\'s library takes every UUID for GPU 0',
    )


def test_uuids_are_not_known_to_be_those_of_the_pod_before_it_has_some() -> None:
    assert said(told(pod(container(env=[UUIDS, *OFF]))), "own-gpus") == (
        "unknown",
        (
            'container train sets CUDA_VISIBLE_DEVICES to "GPU-1,GPU-2": '
            "whether those are its GPUs shows when they are allocated"
        ),
    )


SETS: dict[str, Any] = {"command": ["bash", "-c", "CUDA_VISIBLE_DEVICES=2,3 train"]}
PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}


def test_a_command_that_sets_a_list_leaves_it_open_which_of_its_own_gpus_a_container_uses() -> None:
    found = finding(told(injected(pod(container(**SETS)))), "own-gpus")
    assert (found.verdict, found.code) == ("unknown", "GT424")
    reads = container(command=["bash", "-c", "echo $CUDA_VISIBLE_DEVICES; train"])
    assert finding(told(injected(pod(reads))), "own-gpus").verdict == "holds"


@pytest.mark.parametrize("cluster", [HAMI_2_8, HAMI_2_9, HAMI_2_10_0, UNKNOWN_HAMI])
def test_a_privileged_container_has_more_than_its_own_gpus(cluster: ClusterFacts) -> None:
    report = told(injected(pod(container(**PRIVILEGED)), cluster=cluster), cluster=cluster)
    found = finding(report, "own-gpus")
    assert (found.verdict, found.code, found.stops) == ("fails", "GT227", False)
    assert "gpu.topology/profile: node-peers and a gpu.topology/group in place of privileges" in found.remedy
    helper = container("helper", None, **PRIVILEGED)
    report = told(injected(pod(container(), helper), cluster=cluster), cluster=cluster)
    assert finding(report, "own-gpus").verdict == "holds"


def listing(value: str, count: int = 2, **more: Any) -> Finding:
    """The finding about an own list of a container that HAMi gave GPU4 and so on of a node of eight."""
    entries = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    manifest = on(pod(container(gpus=count, env=entries)), "h20-node-1", list(H20[4 : 4 + count]))
    return finding(told(manifest, **more), "own-gpus")


@pytest.mark.parametrize(
    ("value", "verdict", "evidence"),
    [
        ("0,1", "fails", "it sees GPU0 and GPU1, and was given GPU4 and GPU5"),
        ("all", "fails", "and was given GPU4 and GPU5"),
        ("4", "fails", "it sees GPU4, and was given GPU4 and GPU5"),
        (H20[0], "fails", "it sees GPU0, and was given GPU4 and GPU5"),
        ("5,4", "holds", "container train shows itself the GPUs that it was given, GPU4 and GPU5"),
        (f"{H20[4]},{H20[5]}", "holds", "GPU4 and GPU5"),
        ("9", "unknown", "not known"),
        ("0:1", "unknown", "not known"),
    ],
)
def test_an_own_list_is_resolved_against_the_node(value: str, verdict: str, evidence: str) -> None:
    found = listing(value)
    assert found.verdict == verdict
    assert evidence in found.evidence
    if verdict != "holds":
        assert found.remedy.startswith("Remove the variable")


def test_all_gpus_of_a_node_are_its_own_if_it_was_given_all() -> None:
    manifest = pod(container(gpus=8, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]))
    assert finding(told(on(manifest, "h20-node-1", list(H20))), "own-gpus").verdict == "holds"


@pytest.mark.parametrize("strategy", ["volume-mounts", "cdi-annotations", "cdi-cri"])
def test_with_mounts_and_cdi_the_device_plugin_wins(strategy: str) -> None:
    found = listing("all", rules=policy(cluster={"deviceListStrategy": strategy}))
    assert (found.verdict, found.evidence) == (
        "holds",
        "container train: the device plugin's list says which GPUs are visible",
    )


def test_with_an_unknown_strategy_it_is_not_known() -> None:
    assert listing("0,1", reading=Reading(is_configured=False)).code == "GT221"
    assert listing("none", reading=Reading(is_configured=False)).verdict == "unknown"


def vgpu(resource: str = "nvidia.com/vgpu", amount: int = 2) -> Manifest:
    return pod(container(gpus=None, resources={"limits": {resource: amount}}))


@pytest.mark.parametrize(
    "resource", ["nvidia.com/vgpu", "nvidia.com/a100", "koordinator.sh/gpu", "tencent.com/vcuda-core"]
)
def test_a_resource_that_the_configuration_does_not_name_is_unknown(resource: str) -> None:
    found = told(vgpu(resource)).judgement
    assert (found.nvlink, found.code) == ("unknown", "GT209")
    assert found.reason.startswith(f"container train requests {resource}, which `resources` of the configuration does")
    assert not found.reason.endswith("shows GPUs")


def test_an_allocation_proves_that_such_a_resource_is_for_gpus() -> None:
    assert told(on(vgpu(), "h20-node-1", list(H20[:2]))).judgement.reason.endswith(
        "the allocation on the pod shows GPUs"
    )


@pytest.mark.parametrize(
    "resource", ["amd.com/gpu", "rdma/hca", "example.com/fpga", "deviceclass.resource.kubernetes.io/x"]
)
def test_resources_that_are_no_gpus_of_nvidia_are_none(resource: str) -> None:
    assert told(vgpu(resource)).judgement.code != "GT209"
    assert told(vgpu(amount=0)).judgement.nvlink == "-"


def test_an_unknown_resource_beside_gpus_decides_nothing() -> None:
    both = pod(container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/hostdev": 1}}))
    assert told(both).judgement.code != "GT209"


@pytest.mark.parametrize("value", ["all", "0,1"])
def test_a_container_that_takes_gpus_without_a_request_is_unknown(value: str) -> None:
    taker = pod(container(gpus=None, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]))
    found = told(taker).judgement
    assert (found.nvlink, found.code) == ("unknown", "GT216")
    hidden = pod(container(gpus=None, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]))
    assert (told(hidden).judgement.nvlink, told(pod(container(gpus=None))).judgement.nvlink) == ("-", "-")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "dcgm", "uid": "u", "controller": True}
    watcher = taker | {"metadata": taker["metadata"] | {"ownerReferences": [owner]}}
    assert told(watcher).judgement.nvlink == "-"
