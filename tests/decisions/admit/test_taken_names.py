"""What of ours the user has taken already: ours moves, or the pod is refused; nothing is clobbered."""

import pytest

from tests.judge import HAMI_2_10_0, judge
from tests.pods import (
    ALL_ALLOWED,
    SHARED_MEMORY,
    Manifest,
    annotation_reference,
    container,
    effective_env,
    find_container,
    pod,
    team_a,
)
from webhook.words.outcome import Kind, Reason


def only(after: Manifest, section: str, name: str) -> Manifest:
    (found,) = (entry for entry in after["spec"][section] if entry["name"] == name)
    return dict(found)


def test_a_container_named_like_ours_makes_ours_move() -> None:
    own = {"name": "gpu-topology-remap", "image": "registry.local/own:1"}
    _, after = judge(pod(container(), own))
    assert after["spec"]["initContainers"][0]["name"] == "gpu-topology-remap-2"
    assert only(after, "containers", "gpu-topology-remap")["image"] == "registry.local/own:1"


def test_two_init_containers_named_like_ours_make_ours_move_twice() -> None:
    own = [{"name": "gpu-topology-remap", "image": "a"}, {"name": "gpu-topology-remap-2", "image": "b"}]
    _, after = judge(pod(initContainers=own))
    names = [container["name"] for container in after["spec"]["initContainers"]]
    assert names == ["gpu-topology-remap-3", "gpu-topology-remap", "gpu-topology-remap-2"]
    assert [container["image"] for container in after["spec"]["initContainers"]][1:] == ["a", "b"]


def test_volumes_named_like_ours_stay_and_ours_get_other_names() -> None:
    own = [
        {"name": "gpu-topology", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "gpu-topology-2", "emptyDir": {}},
        {"name": "gpu-topology-shm", "hostPath": {"path": "/x"}},
    ]
    _, after = judge(pod(volumes=own))
    assert after["spec"]["volumes"] == [
        *own,
        {"name": "gpu-topology-shm-2", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "gpu-topology-3", "emptyDir": {"sizeLimit": "8Mi"}},
    ]
    assert find_container(after, "train")["volumeMounts"] == [
        {"name": "gpu-topology-shm-2", "mountPath": SHARED_MEMORY},
        {"name": "gpu-topology-3", "mountPath": "/run/gpu-topology", "readOnly": True},
    ]


def test_our_volume_with_another_size_in_bytes_but_the_same_amount_is_used() -> None:
    own = [{"name": "gpu-topology", "emptyDir": {"sizeLimit": "8192Ki"}}]
    _, after = judge(pod(volumes=own))
    assert [volume["name"] for volume in after["spec"]["volumes"]] == ["gpu-topology", "gpu-topology-shm"]


@pytest.mark.parametrize("path", ["/run/gpu-topology", "/run/gpu-topology/"])
def test_a_mount_of_the_user_at_our_path_refuses_the_pod(path: str) -> None:
    main = container(volumeMounts=[{"name": "data", "mountPath": path}])
    outcome, _ = judge(pod(main, volumes=[{"name": "data", "emptyDir": {}}]))
    assert outcome.reason == Reason.MOUNT_PATH_TAKEN
    assert "container train mounts volume data at /run/gpu-topology" in outcome.message
    assert 'set gpu.topology/remap: "binding"' in outcome.message


def test_the_remedy_that_the_refusal_names_works() -> None:
    main = container(volumeMounts=[{"name": "data", "mountPath": "/run/gpu-topology"}])
    outcome, after = judge(pod(main, annotations={"gpu.topology/remap": "binding"}))
    assert outcome.kind is Kind.PATCH
    assert "initContainers" not in after["spec"]
    assert find_container(after, "train")["volumeMounts"][0] == {"name": "data", "mountPath": "/run/gpu-topology"}


def test_a_mount_below_our_path_is_not_in_the_way() -> None:
    own = {"name": "data", "mountPath": "/run/gpu-topology-data"}
    _, after = judge(pod(container(volumeMounts=[own])))
    assert find_container(after, "train")["volumeMounts"][0] == own


@pytest.mark.parametrize("path", [SHARED_MEMORY, SHARED_MEMORY + "/"])
def test_an_own_mount_at_dev_shm_stays(path: str) -> None:
    own = {"name": "dshm", "mountPath": path}
    _, after = judge(pod(container(volumeMounts=[own])))
    mounts = find_container(after, "train")["volumeMounts"]
    assert mounts == [own, {"name": "gpu-topology", "mountPath": "/run/gpu-topology", "readOnly": True}]
    assert [volume["name"] for volume in after["spec"]["volumes"]] == ["gpu-topology"]


def test_an_own_dev_shm_between_node_peers_refuses_the_pod() -> None:
    main = container(volumeMounts=[{"name": "dshm", "mountPath": SHARED_MEMORY}])
    outcome, _ = judge(pod(main, annotations={"gpu.topology/profile": "node-peers"}), ALL_ALLOWED)
    assert outcome.reason == Reason.CONTRADICTS_PROFILE
    assert "mounts volume dshm at /dev/shm" in outcome.message


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"])
@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_an_own_list_of_devices_contradicts_the_peer_profiles(profile: str, variable: str) -> None:
    main = container(env=[{"name": variable, "value": "0,1"}])
    outcome, _ = judge(pod(main, annotations={"gpu.topology/profile": profile}), ALL_ALLOWED)
    assert outcome.reason == Reason.CONTRADICTS_PROFILE
    assert f"container train sets {variable} itself" in outcome.message
    assert "Remove the variable" in outcome.message
    assert "0,1" not in outcome.message


def test_an_own_cuda_visible_devices_in_exclusive_stays() -> None:
    main = container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "1,0"}])
    outcome, after = judge(pod(main))
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "train")["CUDA_VISIBLE_DEVICES"] == "1,0"


@pytest.mark.parametrize(
    ("variable", "value"), [("NCCL_P2P_LEVEL", "SYS"), ("NCCL_NVLS_ENABLE", "0"), ("NCCL_TOPO_FILE", "/own.xml")]
)
def test_own_tuning_stays_with_a_warning(variable: str, value: str) -> None:
    own = {"name": variable, "value": value}
    outcome, after = judge(pod(container(env=[own])))
    assert find_container(after, "train")["env"][0] == own
    assert [entry["name"] for entry in find_container(after, "train")["env"]].count(variable) == 1
    assert f"GT401: container train sets {variable} itself; it stays as it is" in outcome.warnings


def test_own_tuning_from_a_config_map_stays_with_a_warning() -> None:
    own = {"name": "NCCL_P2P_LEVEL", "valueFrom": {"configMapKeyRef": {"name": "nccl", "key": "level"}}}
    outcome, after = judge(pod(container(env=[own])))
    assert find_container(after, "train")["env"][0] == own
    assert "GT401: container train sets NCCL_P2P_LEVEL itself; it stays as it is" in outcome.warnings


def test_own_tuning_equal_to_ours_needs_no_warning() -> None:
    own = {"name": "NCCL_P2P_LEVEL", "value": "NVL"}
    outcome, _ = judge(pod(container(env=[own]), annotations={"gpu.topology/nccl-p2p-level": "NVL"}))
    assert outcome.warnings == []


@pytest.mark.parametrize(
    "own",
    [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-8ba3c15f"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": annotation_reference("example.com/gpus")},
    ],
)
@pytest.mark.parametrize("holder", ["train", "helper", "setup"])
def test_an_own_list_of_gpus_in_any_container_needs_the_permission(holder: str, own: Manifest) -> None:
    env = {name: [own] if name == holder else [] for name in ("train", "helper", "setup")}
    manifest = pod(
        container(env=env["train"]),
        container("helper", None, env=env["helper"]),
        initContainers=[container("setup", None, env=env["setup"])],
    )
    outcome, _ = judge(manifest)
    assert outcome.reason == Reason.MISSING_PERMISSION
    assert f"container {holder} sets NVIDIA_VISIBLE_DEVICES itself" in outcome.message
    assert 'gpu.topology/allow-node-gpus: "true"' in outcome.message


@pytest.mark.parametrize("value", ["none", "void", "", None])
@pytest.mark.parametrize("holder", ["train", "helper"])
def test_a_list_that_shows_no_gpu_is_harmless(holder: str, value: str | None) -> None:
    own = {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}
    manifest = pod(
        container(env=[own] if holder == "train" else []),
        container("helper", None, env=[own] if holder == "helper" else []),
    )
    outcome, after = judge(manifest)
    assert outcome.kind is Kind.PATCH
    assert find_container(after, holder)["env"][0] == own


def test_an_own_list_of_gpus_is_kept_where_the_namespace_allows_it() -> None:
    own = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    outcome, after = judge(pod(container(env=[own])), ALL_ALLOWED)
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "train")["NVIDIA_VISIBLE_DEVICES"] == "all"


def test_of_two_entries_of_one_name_the_last_one_counts() -> None:
    first, last = (
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    )
    outcome, _ = judge(pod(container(env=[first, last])))
    assert outcome.reason == Reason.MISSING_PERMISSION
    outcome, after = judge(pod(container(env=[last, first])))
    assert outcome.kind is Kind.PATCH
    assert find_container(after, "train")["env"][:2] == [last, first]


def test_duplicate_variables_stay_and_get_no_third() -> None:
    own = [
        {"name": "NCCL_P2P_LEVEL", "value": "SYS"},
        {"name": "A", "value": "1"},
        {"name": "NCCL_P2P_LEVEL", "value": "PHB"},
        {"name": "A", "value": "2"},
    ]
    _, after = judge(pod(container(env=own)))
    env = find_container(after, "train")["env"]
    assert env[:4] == own
    assert [entry["name"] for entry in env[4:]] == ["CUDA_DISABLE_CONTROL", "NCCL_NVLS_ENABLE", "NCCL_TOPO_FILE"]


def test_an_env_annotation_replaces_the_entry_that_counts() -> None:
    own = [
        {"name": "NCCL_DEBUG", "value": "WARN"},
        {"name": "A", "value": "1"},
        {"name": "NCCL_DEBUG", "value": "TRACE"},
    ]
    _, after = judge(pod(container(env=own), annotations={"gpu.topology/env.NCCL_DEBUG": "INFO"}))
    assert find_container(after, "train")["env"][:3] == [*own[:2], {"name": "NCCL_DEBUG", "value": "INFO"}]


def test_a_label_of_another_group_refuses_the_pod() -> None:
    outcome, _ = judge(pod(annotations={"gpu.topology/group": "a"}, labels={"gpu.topology/group": "b"}))
    assert outcome.reason == Reason.CONTRADICTS_PROFILE
    assert 'pod team-a/train has the label gpu.topology/group: "b"' in outcome.message


def test_our_outputs_written_by_the_user_are_overwritten_or_removed() -> None:
    forged = {
        "gpu.topology/profile": "pod-peers",
        "gpu.topology/injected": "9.9.9 node-peers",
        "gpu.topology/cuda-visible-devices.0": "0,1,2,3,4,5,6,7",
        "gpu.topology/visible-uuids": "all",
        "gpu.topology/node-topology": '{"gpus": 99}',
        "gpu.topology/cuda-visible-devices.7": "0",
        "gpu.topology/link": "NVSwitch",
        "gpu.topology/satisfied": "true",
    }
    _, after = judge(pod(annotations=forged))
    assert after["metadata"]["annotations"] == {
        "gpu.topology/profile": "pod-peers",
        "gpu.topology/injected": "0.1.0 pod-peers",
        "gpu.topology/cuda-visible-devices.0": "-1",
        "gpu.topology/visible-uuids": "none",
        "gpu.topology/node-topology": "{}",
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/nccl-nvls": "2",
    }


def test_keys_with_tilde_slash_and_dots_survive() -> None:
    annotations = {"a~b": "1", "x/~0~1": "2", "...": "3", "sub.domain/a.b-c_d": "4"}
    labels = {"t~l/x": "1"}
    main = container()
    main["resources"]["limits"]["vendor.com/a~1b"] = 1
    _, after = judge(pod(main, annotations=dict(annotations), labels=dict(labels)))
    for key, value in annotations.items():
        assert after["metadata"]["annotations"][key] == value
    assert after["metadata"]["labels"] == labels
    assert after["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": 2,
        "vendor.com/a~1b": 1,
        "nvidia.com/gpucores": "100",
        "nvidia.com/gpumem-percentage": "100",
    }


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_a_pod_of_64_containers_gets_every_one_of_them_prepared(profile: str) -> None:
    many = [container(f"c{number}", 2 if number % 2 else None) for number in range(64)]
    outcome, after = judge(pod(*many, annotations={"gpu.topology/profile": profile}))
    assert outcome.kind is Kind.PATCH
    for number in range(64):
        env = effective_env(after, f"c{number}")
        assert env["CUDA_DISABLE_CONTROL"] == "true"
        assert ("NCCL_P2P_LEVEL" in env) == bool(number % 2)
    if profile == "pod-peers":
        reference = annotation_reference("gpu.topology/cuda-visible-devices.31")
        assert effective_env(after, "c63")["CUDA_VISIBLE_DEVICES"] == reference
        assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.31"] == "-1"
        assert "gpu.topology/cuda-visible-devices.32" not in after["metadata"]["annotations"]


def test_a_pod_of_64_gpu_containers_is_named_completely_to_the_remap_program() -> None:
    many = [container(f"c{number}", 1) for number in range(64)]
    _, after = judge(pod(*many, annotations={"gpu.topology/profile": "pod-peers"}))
    listed = effective_env(after, "gpu-topology-remap")["GPU_TOPOLOGY_CONTAINERS"].split(",")
    assert len(listed) == 64
    assert (listed[0], listed[63]) == ("c0:1:0", "c63:1:63")


@pytest.mark.parametrize("field", ["env", "volumeMounts", "command", "args", "ports", "envFrom", "resources"])
def test_a_null_field_of_a_container_is_taken_as_absent(field: str) -> None:
    helper = {**container("helper", None), field: None}
    outcome, after = judge(pod(container(), helper))
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "helper") == {"CUDA_DISABLE_CONTROL": "true"}


@pytest.mark.parametrize("field", ["volumes", "initContainers", "affinity", "tolerations", "securityContext"])
def test_a_null_field_of_the_spec_is_taken_as_absent(field: str) -> None:
    outcome, after = judge(pod(annotations={"gpu.topology/group": "g"}, **{field: None}))
    assert outcome.kind is Kind.PATCH
    assert len(after["spec"]["initContainers"]) == 1
    assert len(after["spec"]["volumes"]) == 2


def test_null_requests_beside_limits_are_taken_as_absent() -> None:
    main = container()
    main["resources"]["requests"] = None
    _, after = judge(pod(main))
    assert after["spec"]["containers"][0]["resources"]["requests"] == {
        "nvidia.com/gpu": 2,
        "nvidia.com/gpucores": "100",
        "nvidia.com/gpumem-percentage": "100",
    }


def test_null_annotations_and_labels_are_taken_as_absent() -> None:
    manifest = pod(annotations={})
    manifest["metadata"] |= {"annotations": None, "labels": None}
    _, after = judge(manifest, team_a({"gpu.topology/group": "g"}))
    assert after["metadata"]["annotations"]["gpu.topology/injected"] == "0.1.0 exclusive"
    assert after["metadata"]["labels"] == {"gpu.topology/group": "g"}


def test_null_containers_are_no_gpu_request() -> None:
    outcome, _ = judge({"metadata": {"name": "x"}, "spec": {"containers": None}})
    assert outcome.reason == Reason.NO_GPU_REQUEST


@pytest.mark.parametrize("manifest", [{}, {"metadata": None, "spec": None}, {"spec": {}}])
def test_a_pod_of_nothing_is_left_alone(manifest: Manifest) -> None:
    outcome, _ = judge(manifest)
    assert outcome.reason == Reason.NO_GPU_REQUEST


def test_a_sidecar_named_like_ours_on_hami_2_10_0_makes_ours_move_too() -> None:
    own = {"name": "gpu-topology-remap", "image": "registry.local/own:1", "restartPolicy": "Always"}
    _, after = judge(pod(initContainers=[own]), cluster=HAMI_2_10_0)
    assert [container["name"] for container in after["spec"]["initContainers"]] == [
        "gpu-topology-remap-2",
        "gpu-topology-remap",
    ]
