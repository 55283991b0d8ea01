"""A list of GPUs of one's own, in every spelling: without ``allow-node-gpus`` it refuses the pod, or shows nothing."""

from itertools import product
from typing import Any

import pytest

from tests.judge import judge
from tests.pods import ALL_ALLOWED, SHARED_MEMORY, Manifest, annotation_reference, container, effective_env, pod
from webhook.words.outcome import Kind, Reason

LIST = "NVIDIA_VISIBLE_DEVICES"


def own(**entry: Any) -> Manifest:
    return {"name": LIST, **entry}


def in_file(line: str = LIST, volume: str = "gpu-topology", path: str = "env") -> Manifest:
    return {"fileKeyRef": {"volumeName": volume, "path": path, "key": line}}


SOURCES: list[Manifest] = [
    {"configMapKeyRef": {"name": "c", "key": "k"}},
    {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
    {"secretKeyRef": {"name": "s", "key": "k"}},
    {"resourceFieldRef": {"resource": "limits.cpu"}},
    {"fieldRef": {"fieldPath": "metadata.name"}},
    {"fieldRef": {"fieldPath": "metadata.labels['cards']"}},
    {"fieldRef": {"fieldPath": "metadata.annotations['example.com/cards']"}},
    {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/cuda-visible-devices.0']"}},
    {"fieldRef": {"fieldPath": 'metadata.annotations["gpu.topology/visible-uuids"]'}},
    {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/visible-uuids'] "}},
    {"fieldRef": {"fieldPath": "metadata.annotations['GPU.topology/visible-uuids']"}},
    {"fieldRef": {"fieldPath": ""}},
    {"fieldRef": {}},
    {"fieldRef": None},
    {"fileKeyRef": {}},
    in_file("CUDA_VISIBLE_DEVICES_0"),
    in_file(volume="mine"),
    in_file(path="../env"),
    in_file(path="env/"),
    {"futureKeyRef": {"name": "x"}},
    {},
]
SHOWING = [
    *(
        own(value=value)
        for value in (
            "all",
            "ALL",
            "All",
            "0",
            "7",
            "0,1,2,3,4,5,6,7",
            "-1",
            "GPU-b0c5b618-67d0-f464-9905-e1fd41226305",
            "GPU-b0c5b618-67d0-f464-9905-e1fd41226305,none",
            "none,all",
            "void,0",
            "0:0",
            "MIG-41b36db2-5a4c-5d4c-9e0c-1f0a5f0a5f0a",
            "MIG-GPU-b0c5b618/1/0",
            "nvidia.com/gpu=all",
            " all",
            "all\n",
            " none",
            "none ",
            "None",
            "VOID",
            "$(CARDS)",
            "$$(CARDS)",
            "$(none)",
            "none$(CARDS)",
            "\u0430ll",
            "a\u200bll",
            "no-gpus",
        )
    ),
    *(own(valueFrom=source) for source in SOURCES),
    own(value="none", valueFrom={"secretKeyRef": {"name": "s", "key": "k"}}),
]
HARMLESS = [
    own(),
    own(value=""),
    own(value=None, valueFrom=None),
    own(value="none"),
    own(value="void"),
]
HOLDERS = ["main", "helper", "setup", "proxy", "left-out"]


def with_entries(holder: str, *entries: Manifest, profile: str = "exclusive") -> Manifest:
    """A pod of every kind of container, one of which has these entries."""
    env: dict[str, list[Manifest]] = {name: [] for name in HOLDERS} | {holder: list(entries)}
    return pod(
        container("main", env=env["main"]),
        container("helper", None, env=env["helper"]),
        container("left-out", 1, env=env["left-out"]),
        initContainers=[
            container("setup", None, env=env["setup"]),
            container("proxy", None, env=env["proxy"], restartPolicy="Always"),
        ],
        annotations={"gpu.topology/containers": "main", "gpu.topology/profile": profile},
    )


@pytest.mark.slow
def test_a_list_that_may_show_a_gpu_refuses_the_pod_in_any_container(subtests: pytest.Subtests) -> None:
    for holder, profile, entry in product(HOLDERS, ("exclusive", "pod-peers"), SHOWING):
        with subtests.test(holder=holder, profile=profile, entry=entry):
            outcome, _ = judge(with_entries(holder, entry, profile=profile))
            assert outcome.reason == Reason.MISSING_PERMISSION
            assert f"container {holder} sets {LIST} itself" in outcome.message


def test_a_list_that_shows_no_gpu_stays(subtests: pytest.Subtests) -> None:
    for holder, entry in product(HOLDERS, HARMLESS):
        with subtests.test(holder=holder, entry=entry):
            outcome, after = judge(with_entries(holder, entry))
            assert outcome.kind is Kind.PATCH
            assert effective_env(after, holder)[LIST] == entry.get("value")


def test_the_permission_allows_all_of_them(subtests: pytest.Subtests) -> None:
    for entry in SHOWING:
        with subtests.test(entry=entry):
            outcome, _ = judge(with_entries("helper", entry), ALL_ALLOWED)
            assert outcome.kind is Kind.PATCH


@pytest.mark.parametrize("first", [own(value="none"), own(), own(valueFrom=annotation_reference("gpu.topology/link"))])
def test_an_entry_that_shows_none_before_it_hides_no_list(first: Manifest) -> None:
    outcome, _ = judge(with_entries("main", first, first, own(value="all")))
    assert outcome.reason == Reason.MISSING_PERMISSION


def test_a_list_that_the_kubelet_would_skip_does_not_count_as_the_last_one() -> None:
    """A reference that is optional and leads nowhere leaves the entry before it in force."""
    optional = own(valueFrom={"configMapKeyRef": {"name": "gone", "key": "k", "optional": True}})
    outcome, _ = judge(with_entries("main", own(value="all"), optional))
    assert outcome.reason == Reason.MISSING_PERMISSION


@pytest.mark.parametrize(
    "name", ["nvidia_visible_devices", "Nvidia_Visible_Devices", f" {LIST}", f"{LIST} ", f"{LIST}S"]
)
def test_another_name_is_another_variable(name: str) -> None:
    """The names of variables are told apart byte by byte, by the kubelet and by the container toolkit."""
    outcome, after = judge(with_entries("main", {"name": name, "value": "all"}))
    assert outcome.kind is Kind.PATCH
    assert LIST not in effective_env(after, "main")


@pytest.mark.parametrize("value", ["all", "none", "$(X)"])
def test_no_annotation_sets_the_list(value: str) -> None:
    outcome, _ = judge(pod(annotations={f"gpu.topology/env.{LIST}": value}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert "a variable that no profile sets" in outcome.message


def test_an_annotation_that_resembles_it_sets_what_it_says() -> None:
    _, after = judge(pod(annotations={f"gpu.topology/env.{LIST.lower()}": "all"}))
    assert effective_env(after, "train")[LIST.lower()] == "all"
    assert LIST not in effective_env(after, "train")


def test_a_value_that_refers_to_a_variable_of_an_annotation_is_a_list_like_any_other() -> None:
    manifest = pod(container(env=[own(value="$(CARDS)")]), annotations={"gpu.topology/env.CARDS": "all"})
    assert judge(manifest)[0].reason == Reason.MISSING_PERMISSION


def test_a_config_map_whose_names_nobody_sees_here_loses_against_the_list_of_the_profile() -> None:
    """The kubelet takes ``env`` over ``envFrom`` (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables)."""
    main = container(envFrom=[{"configMapRef": {"name": "cards"}}, {"prefix": "NVIDIA_", "secretRef": {"name": "s"}}])
    _, after = judge(pod(main, annotations={"gpu.topology/profile": "pod-peers"}))
    assert effective_env(after, "train")[LIST] == annotation_reference("gpu.topology/visible-uuids")


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_IMEX_CHANNELS"])
def test_other_variables_of_the_toolkit_choose_no_card(name: str) -> None:
    outcome, _ = judge(with_entries("helper", {"name": name, "value": "all"}))
    assert outcome.kind is Kind.PATCH


def test_cards_as_mounts_need_a_setting_of_the_node_and_stay_as_they_are() -> None:
    """``accept-nvidia-visible-devices-as-volume-mounts`` of the container toolkit, which is off by default."""
    mount = {"name": "cards", "mountPath": "/var/run/nvidia-container-devices/all"}
    main = container(volumeMounts=[mount, {"name": "shm", "mountPath": SHARED_MEMORY}])
    _, after = judge(
        pod(main, volumes=[{"name": "cards", "hostPath": {"path": "/dev/null"}}, {"name": "shm", "emptyDir": {}}])
    )
    assert after["spec"]["containers"][0]["volumeMounts"][0] == mount
