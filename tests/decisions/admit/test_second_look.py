"""Pods that we, or an older version of us, have admitted before, and that others have changed since."""

import base64
import copy
import json
from typing import Any

import pytest

from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, judge, policy
from tests.pods import (
    ALL_ALLOWED,
    Manifest,
    annotation_reference,
    container,
    effective_env,
    pod,
)
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.pod import Namespace
from webhook.objects.review import encode_reply
from webhook.words.outcome import Kind, Outcome, Reason
from webhook.words.version import Version

PROFILES = ["exclusive", "pod-peers", "node-peers"]
KUBERNETES_1_35 = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 35))
ENV_FILE: dict[str, Any] = {"remap": {"environment": "file"}}


def injected(
    profile: str = "exclusive",
    cluster: ClusterFacts = HAMI_2_9,
    *,
    namespace: Namespace = ALL_ALLOWED,
    **settings: Any,
) -> Manifest:
    """A pod of two GPU containers and a helper, as it leaves us."""
    manifest = pod(
        container(), container("decode"), container("helper", None), annotations={"gpu.topology/profile": profile}
    )
    outcome, after = judge(manifest, namespace, cluster, policy(**settings))
    assert outcome.kind is Kind.PATCH
    return after


def look(
    manifest: Manifest, namespace: Namespace = ALL_ALLOWED, cluster: ClusterFacts = HAMI_2_9, **settings: Any
) -> tuple[Outcome, list[Manifest], Manifest]:
    """Admit again; returns the outcome, the operations and the pod afterwards."""
    outcome, after = judge(manifest, namespace, cluster, policy(**settings))
    response = json.loads(encode_reply("uid", outcome))["response"]
    return outcome, json.loads(base64.b64decode(response.get("patch", "W10="))), after


def all_containers(manifest: Manifest) -> list[Manifest]:
    return [*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]]


def remap(manifest: Manifest, name: str = "gpu-topology-remap") -> Manifest:
    found: Manifest = next(holder for holder in manifest["spec"]["initContainers"] if holder["name"] == name)
    return found


def default(manifest: Manifest) -> None:
    """What the API server adds to a pod between two webhooks."""
    manifest["spec"] |= {"dnsPolicy": manifest["spec"].get("dnsPolicy", "ClusterFirst"), "restartPolicy": "Always"}
    for holder in all_containers(manifest):
        holder |= {
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for entry in holder.get("env", []):
            for source in entry.get("valueFrom", {}):
                entry["valueFrom"][source] |= {"apiVersion": "v1"} if source == "fieldRef" else {"optional": False}
        if "startupProbe" in holder:
            holder["startupProbe"]["successThreshold"] = 1
        path = "/var/run/secrets/kubernetes.io/serviceaccount"
        holder.setdefault("volumeMounts", []).append({"name": "kube-api-access-x", "readOnly": True, "mountPath": path})
    manifest["spec"]["volumes"].append({"name": "kube-api-access-x", "projected": {"sources": []}})


def overwrite_env(manifest: Manifest) -> None:
    """What HAMi's webhook does, with its setting overwriteEnv, to containers without a GPU request."""
    for holder in all_containers(manifest):
        if "nvidia.com/gpu" not in holder.get("resources", {}).get("limits", {}):
            holder.setdefault("env", []).append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})


OWN_CARDS = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": annotation_reference("gpu.topology/visible-uuids")}


CARRIERS = {"init": HAMI_2_9, "sidecar": HAMI_2_10_0}


def narrow(profile: str, carrier: str, **settings: Any) -> Manifest:
    """A pod in a namespace that may not see every GPU of a node."""
    manifest = pod(container(), container("helper", None), annotations={"gpu.topology/profile": profile})
    outcome, after = judge(manifest, TEAM_A, CARRIERS[carrier], policy(**settings))
    assert outcome.kind is Kind.PATCH
    assert remap(after)["args"] == ["--mode", carrier]
    return after


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_without_the_permission_it_sees_the_cards_of_the_pod_and_needs_nothing_more(profile: str, carrier: str) -> None:
    manifest = narrow(profile, carrier)
    assert OWN_CARDS in remap(manifest)["env"]
    assert manifest["metadata"]["annotations"]["gpu.topology/visible-uuids"] == "none"
    default(manifest)
    outcome, operations, _ = look(manifest, TEAM_A, CARRIERS[carrier])
    assert (outcome.kind, outcome.reason, operations) == (Kind.SKIP, Reason.ALREADY_INJECTED, [])


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_one_that_was_given_every_gpu_afterwards_is_put_right(profile: str, carrier: str) -> None:
    manifest = narrow(profile, carrier)
    remap(manifest)["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    _, _, after = look(manifest, TEAM_A, CARRIERS[carrier])
    assert after == narrow(profile, carrier)


@pytest.mark.parametrize("cluster", [HAMI_2_9, HAMI_2_10_0])
@pytest.mark.parametrize("profile", PROFILES)
def test_our_list_of_gpus_comes_after_hamis_and_that_is_all(profile: str, cluster: ClusterFacts) -> None:
    manifest = injected(profile, cluster)
    default(manifest)
    overwrite_env(manifest)
    _, operations, after = look(manifest, cluster=cluster)
    assert operations == [
        {
            "op": "add",
            "path": "/spec/initContainers/0/env/-",
            "value": {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        }
    ]
    assert effective_env(after, "gpu-topology-remap")["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert effective_env(after, "helper")["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert look(after, cluster=cluster)[1] == []


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_the_cards_of_the_pod_come_after_hamis_list_and_that_is_all(profile: str, carrier: str) -> None:
    manifest = narrow(profile, carrier)
    default(manifest)
    overwrite_env(manifest)
    _, operations, after = look(manifest, TEAM_A, CARRIERS[carrier])
    assert operations == [{"op": "add", "path": "/spec/initContainers/0/env/-", "value": OWN_CARDS}]
    assert look(after, TEAM_A, CARRIERS[carrier])[1] == []


@pytest.mark.parametrize("carrier", CARRIERS)
def test_it_follows_the_permission_of_its_namespace(carrier: str) -> None:
    allowed = Namespace("team-a", TEAM_A.labels | {"gpu.topology/allow-node-gpus": "true"})
    _, _, wide = look(narrow("exclusive", carrier), allowed, CARRIERS[carrier])
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in remap(wide)["env"]
    assert "gpu.topology/visible-uuids" not in wide["metadata"]["annotations"]
    _, _, after = look(wide, TEAM_A, CARRIERS[carrier])
    assert after == narrow("exclusive", carrier)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("value", ["true ", "True", "1", ""])
def test_a_label_with_another_value_is_no_permission(carrier: str, value: str) -> None:
    almost = Namespace("team-a", TEAM_A.labels | {"gpu.topology/allow-node-gpus": value})
    _, after = judge(pod(container()), almost, CARRIERS[carrier])
    assert effective_env(after, "gpu-topology-remap")["NVIDIA_VISIBLE_DEVICES"] == OWN_CARDS["valueFrom"]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_one_that_shall_see_no_gpus_is_given_none(carrier: str) -> None:
    manifest = narrow("exclusive", carrier, remap={"seesGpus": False})
    assert "NVIDIA_VISIBLE_DEVICES" not in effective_env(manifest, "gpu-topology-remap")
    assert "gpu.topology/visible-uuids" not in manifest["metadata"]["annotations"]
    remap(manifest)["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    _, _, after = look(manifest, TEAM_A, CARRIERS[carrier], remap={"seesGpus": False})
    assert "NVIDIA_VISIBLE_DEVICES" not in effective_env(after, "gpu-topology-remap")


def with_a_spy_before_ours(manifest: Manifest) -> Manifest:
    """A restartable init container, of the same user id, that runs beside ours."""
    spy = container("spy", None, restartPolicy="Always", securityContext={"runAsUser": 65532})
    manifest["spec"]["initContainers"].insert(0, spy)
    return manifest


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers"])
def test_a_container_that_was_put_before_it_changes_nothing_of_that(profile: str) -> None:
    _, _, after = look(with_a_spy_before_ours(narrow(profile, "init")), TEAM_A)
    assert effective_env(after, "gpu-topology-remap")["NVIDIA_VISIBLE_DEVICES"] == OWN_CARDS["valueFrom"]


def test_hamis_list_stays_last_where_the_remap_container_may_not_see_the_gpus() -> None:
    manifest = injected(remap={"seesGpus": False})
    overwrite_env(manifest)
    assert look(manifest, remap={"seesGpus": False})[1] == []


def older() -> Manifest:
    """A pod that version 0.0.9 injected: another image, and without two of today's variables."""
    manifest = injected("pod-peers")
    manifest["metadata"]["annotations"]["gpu.topology/injected"] = "0.0.9 pod-peers"
    own = remap(manifest)
    own["image"] = "ghcr.io/gpu-topology-webhook/gpu-topology-webhook:0.0.9"
    own["env"] = [
        variable
        for variable in own["env"]
        if variable["name"] not in ("GPU_TOPOLOGY_CONTAINERS", "GPU_TOPOLOGY_NODE_NAME")
    ]
    return manifest


def test_a_pod_of_an_older_version_of_us_is_brought_up_to_date_in_place() -> None:
    outcome, after = judge(older(), ALL_ALLOWED)
    assert outcome.kind is Kind.PATCH
    assert after == injected("pod-peers")


def test_an_older_mark_alone_is_renewed() -> None:
    manifest = injected()
    manifest["metadata"]["annotations"]["gpu.topology/injected"] = "0.0.9 exclusive"
    _, operations, _ = look(manifest)
    path = "/metadata/annotations/gpu.topology~1injected"
    assert operations == [{"op": "replace", "path": path, "value": "0.1.0 exclusive"}]


def test_the_profile_of_an_injected_pod_can_change() -> None:
    manifest = injected("exclusive")
    manifest["metadata"]["annotations"]["gpu.topology/profile"] = "pod-peers"
    _, after = judge(manifest, ALL_ALLOWED)
    assert after["metadata"]["annotations"]["gpu.topology/injected"] == "0.1.0 pod-peers"
    assert len(after["spec"]["initContainers"]) == 1
    assert effective_env(after, "gpu-topology-remap")["GPU_TOPOLOGY_PROFILE"] == "pod-peers"


def test_a_gpu_container_that_another_webhook_adds_gets_a_number_of_its_own() -> None:
    manifest = injected("pod-peers")
    manifest["spec"]["containers"].insert(0, container("late", 1))
    _, after = judge(manifest, ALL_ALLOWED)
    numbers = {name: effective_env(after, name)["CUDA_VISIBLE_DEVICES"] for name in ("late", "train", "decode")}
    assert numbers == {
        "train": annotation_reference("gpu.topology/cuda-visible-devices.0"),
        "decode": annotation_reference("gpu.topology/cuda-visible-devices.1"),
        "late": annotation_reference("gpu.topology/cuda-visible-devices.2"),
    }
    assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.2"] == "-1"
    env = effective_env(after, "gpu-topology-remap")
    assert env["GPU_TOPOLOGY_CONTAINERS"] == "late:1:2,train:2:0,decode:2:1"
    assert env["GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_2"] == annotation_reference("gpu.topology/cuda-visible-devices.2")


def test_a_container_without_gpus_that_another_webhook_adds_gets_its_interception_switched_off() -> None:
    manifest = injected()
    manifest["spec"]["containers"].append(container("istio-proxy", None))
    _, operations, _ = look(manifest)
    assert operations == [
        {"op": "add", "path": "/spec/containers/3/env", "value": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]}
    ]


def test_an_init_container_that_another_webhook_puts_before_ours_does_not_make_a_second_one() -> None:
    manifest = injected()
    manifest["spec"]["initContainers"].insert(0, container("istio-init", None))
    _, after = judge(manifest)
    assert [container["name"] for container in after["spec"]["initContainers"]] == ["istio-init", "gpu-topology-remap"]


def inits(manifest: Manifest) -> list[str]:
    return [each["name"] for each in manifest["spec"]["initContainers"]]


@pytest.mark.parametrize("profile", PROFILES)
def test_our_sidecar_is_moved_ahead_of_an_init_container_that_another_webhook_puts_before_it(profile: str) -> None:
    alone = injected(profile, HAMI_2_10_0)
    manifest = copy.deepcopy(alone)
    manifest["spec"]["initContainers"].insert(0, container("istio-init", None))
    default(manifest)
    _, operations, after = look(manifest, cluster=HAMI_2_10_0)
    assert [(each["op"], each["path"]) for each in operations[-2:]] == [
        ("remove", "/spec/initContainers/1"),
        ("add", "/spec/initContainers/0"),
    ]
    assert inits(after) == ["gpu-topology-remap", "istio-init"]
    assert remap(after) == remap(alone)
    assert effective_env(after, "istio-init")["CUDA_DISABLE_CONTROL"] == "true"


def test_a_sidecar_of_others_may_stand_ahead_of_ours() -> None:
    manifest = injected(cluster=HAMI_2_10_0)
    manifest["spec"]["initContainers"].insert(0, container("istio-proxy", None, restartPolicy="Always"))
    _, _, after = look(manifest, cluster=HAMI_2_10_0)
    assert inits(after) == ["istio-proxy", "gpu-topology-remap"]


def test_an_init_container_of_ours_becomes_a_sidecar_and_stands_first_at_once() -> None:
    manifest = injected()
    manifest["spec"]["initContainers"].insert(0, container("istio-init", None))
    _, _, after = look(manifest, cluster=HAMI_2_10_0)
    assert inits(after) == ["gpu-topology-remap", "istio-init"]
    assert remap(after)["restartPolicy"] == "Always"


def test_the_sidecar_that_moves_sees_its_cards_though_hami_had_hidden_them() -> None:
    manifest = injected(cluster=HAMI_2_10_0)
    manifest["spec"]["initContainers"].insert(0, container("istio-init", None))
    remap(manifest)["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})
    _, _, after = look(manifest, cluster=HAMI_2_10_0)
    assert remap(after) == remap(injected(cluster=HAMI_2_10_0))


# Values from the env file.


def in_file(line: str, volume: str = "gpu-topology") -> Manifest:
    return {"fileKeyRef": {"volumeName": volume, "path": "env", "key": line}}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_pod_that_reads_annotations_goes_on_doing_so_when_the_configuration_asks_for_the_file(profile: str) -> None:
    outcome, operations, _ = look(injected(profile, KUBERNETES_1_35), cluster=KUBERNETES_1_35, **ENV_FILE)
    assert (outcome.kind, operations) == (Kind.SKIP, [])
    assert any("changes nothing in pods that read the annotations already" in warning for warning in outcome.warnings)


def test_a_container_that_is_added_to_a_pod_that_reads_annotations_reads_them_too() -> None:
    manifest = injected("pod-peers", KUBERNETES_1_35)
    manifest["spec"]["containers"].append(container("late", 1))
    _, _, after = look(manifest, cluster=KUBERNETES_1_35, **ENV_FILE)
    env = effective_env(after, "late")
    assert env["CUDA_VISIBLE_DEVICES"] == annotation_reference("gpu.topology/cuda-visible-devices.2")
    assert env["NVIDIA_VISIBLE_DEVICES"] == annotation_reference("gpu.topology/visible-uuids")
    assert "GPU_TOPOLOGY_ENVIRONMENT" not in effective_env(after, "gpu-topology-remap")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("cluster", [KUBERNETES_1_35, HAMI_2_9])
def test_a_pod_that_reads_the_file_goes_on_doing_so_and_has_its_annotations_verified(
    profile: str, cluster: ClusterFacts
) -> None:
    outcome, _, after = look(injected(profile, KUBERNETES_1_35, **ENV_FILE), cluster=cluster)
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "train")["NCCL_P2P_LEVEL"] == in_file("NCCL_P2P_LEVEL")
    assert "GPU_TOPOLOGY_ENVIRONMENT" not in effective_env(after, "gpu-topology-remap")
    if profile != "exclusive":
        assert effective_env(after, "decode")["CUDA_VISIBLE_DEVICES"] == in_file("CUDA_VISIBLE_DEVICES_1")
        assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.1"] == "-1"
    assert look(after, cluster=cluster)[1] == []


@pytest.mark.parametrize("settings", [ENV_FILE, {}])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_list_of_gpus_from_a_file_needs_the_permission(settings: dict[str, Any], carrier: str) -> None:
    manifest = with_env({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": in_file("NVIDIA_VISIBLE_DEVICES")})
    manifest["metadata"]["annotations"]["gpu.topology/remap"] = carrier
    assert look(manifest, TEAM_A, KUBERNETES_1_35, **settings)[0].reason == Reason.MISSING_PERMISSION
    assert look(manifest, ALL_ALLOWED, KUBERNETES_1_35, **settings)[0].kind is Kind.PATCH


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
@pytest.mark.parametrize("namespace", [TEAM_A, ALL_ALLOWED])
def test_a_line_of_the_file_that_may_be_missing_is_not_ours(name: str, namespace: Namespace) -> None:
    """Without the line the variable would be the image's, which may ask for every GPU."""
    line = "NVIDIA_VISIBLE_DEVICES" if name.startswith("NVIDIA") else "CUDA_VISIBLE_DEVICES_0"
    source = in_file(line)
    source["fileKeyRef"]["optional"] = True
    outcome, _, _ = look(with_env({"name": name, "valueFrom": source}), namespace, KUBERNETES_1_35, **ENV_FILE)
    assert outcome.reason in (Reason.CONTRADICTS_PROFILE, Reason.MISSING_PERMISSION)
    source["fileKeyRef"]["optional"] = False
    outcome, _, _ = look(with_env({"name": name, "valueFrom": source}), ALL_ALLOWED, KUBERNETES_1_35, **ENV_FILE)
    assert outcome.kind is Kind.PATCH


def test_a_pod_that_reads_the_file_is_refused_where_the_permission_has_been_taken_away() -> None:
    outcome, _, _ = look(injected("pod-peers", KUBERNETES_1_35, **ENV_FILE), TEAM_A, KUBERNETES_1_35, **ENV_FILE)
    assert outcome.reason == Reason.MISSING_PERMISSION


# Annotations that containers refer to.

TABLES = {name: {"NCCL_ALGO": name} for name in ("nvswitch", "nvlink", "pcie")}


def test_a_variable_whose_nccl_annotation_left_the_tables_can_have_no_value_and_refuses_the_pod() -> None:
    manifest = injected(nccl=TABLES)
    outcome, operations, _ = look(manifest)
    assert (outcome.kind, outcome.reason, operations) == (Kind.REFUSE, Reason.UNKNOWN_OUTPUT, [])
    assert 'annotation "gpu.topology/nccl-env.NCCL_ALGO", which only the webhook writes' in outcome.message


def test_the_annotations_of_a_profile_that_changed_stay_for_those_who_refer_to_them() -> None:
    manifest = injected("pod-peers")
    manifest["metadata"]["annotations"]["gpu.topology/profile"] = "exclusive"
    _, after = judge(manifest, ALL_ALLOWED)
    annotations = after["metadata"]["annotations"]
    assert annotations["gpu.topology/injected"] == "0.1.0 exclusive"
    assert annotations["gpu.topology/visible-uuids"] == "none"
    assert annotations["gpu.topology/cuda-visible-devices.1"] == "-1"


def test_the_annotations_of_a_container_that_is_left_out_since_stay() -> None:
    manifest = injected("pod-peers")
    manifest["metadata"]["annotations"]["gpu.topology/containers"] = "train"
    _, after = judge(manifest, ALL_ALLOWED)
    assert after["metadata"]["annotations"]["gpu.topology/cuda-visible-devices.1"] == "-1"


def test_an_annotation_that_only_the_remap_container_referred_to_goes() -> None:
    manifest = injected("pod-peers", KUBERNETES_1_35, **ENV_FILE)
    for main in manifest["spec"]["containers"]:
        main["env"] = [entry for entry in main["env"] if "VISIBLE" not in entry["name"]]
    manifest["metadata"]["annotations"]["gpu.topology/profile"] = "exclusive"
    _, _, after = look(manifest, cluster=KUBERNETES_1_35, **ENV_FILE)
    assert not [key for key in after["metadata"]["annotations"] if "visible" in key]


def with_env(entry: Manifest) -> Manifest:
    main = container(env=[entry])
    return pod(main, annotations={"gpu.topology/profile": "pod-peers"})


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": in_file("NVIDIA_VISIBLE_DEVICES")},
        {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": in_file("CUDA_VISIBLE_DEVICES_0", "mine")},
        {
            "name": "CUDA_VISIBLE_DEVICES",
            "valueFrom": {
                "fileKeyRef": {"volumeName": "gpu-topology", "path": "mine", "key": "CUDA_VISIBLE_DEVICES_0"}
            },
        },
    ],
)
def test_another_line_volume_or_file_than_ours_is_a_contradiction(entry: Manifest) -> None:
    outcome, _, _ = look(with_env(entry), cluster=KUBERNETES_1_35, **ENV_FILE)
    assert outcome.reason == Reason.CONTRADICTS_PROFILE


OURS_BY_NAME = [{"name": "gpu-topology", "emptyDir": {"sizeLimit": "8Mi"}}]


@pytest.mark.parametrize("volumes", [OURS_BY_NAME, []])
@pytest.mark.parametrize("settings", [ENV_FILE, {}])
def test_a_list_of_gpus_from_a_file_that_others_can_write_needs_the_permission(
    volumes: list[Manifest], settings: dict[str, Any]
) -> None:
    manifest = with_env({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": in_file("NVIDIA_VISIBLE_DEVICES")})
    writer = container("writer", None, volumeMounts=[{"name": "gpu-topology", "mountPath": "/out"}])
    manifest["spec"] |= {"volumes": volumes, "initContainers": [writer]}
    outcome, _, _ = look(manifest, TEAM_A, KUBERNETES_1_35, **settings)
    assert outcome.reason == Reason.MISSING_PERMISSION


@pytest.mark.parametrize("where", ["initContainers", "containers"])
def test_a_volume_that_another_container_writes_to_is_not_taken_for_ours(where: str) -> None:
    manifest = pod(annotations={"gpu.topology/profile": "pod-peers"}, volumes=OURS_BY_NAME, initContainers=[])
    writer = container("writer", None, volumeMounts=[{"name": "gpu-topology", "mountPath": "/out"}])
    manifest["spec"][where].append(writer)
    outcome, _, after = look(manifest, cluster=KUBERNETES_1_35, **ENV_FILE)
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "train")["NVIDIA_VISIBLE_DEVICES"] == in_file(
        "NVIDIA_VISIBLE_DEVICES", "gpu-topology-2"
    )
    assert remap(after)["volumeMounts"] == [{"name": "gpu-topology-2", "mountPath": "/run/gpu-topology"}]


def test_a_gpu_container_that_could_write_the_file_is_refused() -> None:
    manifest = injected("pod-peers", KUBERNETES_1_35, **ENV_FILE)
    mounts = manifest["spec"]["containers"][0]["volumeMounts"]
    mounts[-1].pop("readOnly")
    assert mounts[-1] == {"name": "gpu-topology", "mountPath": "/run/gpu-topology"}
    outcome, _, _ = look(manifest, TEAM_A, KUBERNETES_1_35, **ENV_FILE)
    assert not outcome.allowed


# A container that merely looks like ours must not see every GPU of the node.

SHELL = {"exec": {"command": ["sh", "-c", "nvidia-smi"]}}


def test_a_forged_remap_container_among_the_main_containers_is_not_trusted() -> None:
    manifest = injected()
    manifest["spec"]["containers"].append(manifest["spec"]["initContainers"].pop())
    outcome, _, _ = look(manifest, TEAM_A)
    assert outcome.reason == Reason.MISSING_PERMISSION


@pytest.mark.parametrize("cluster", [HAMI_2_9, HAMI_2_10_0])
def test_a_forged_image_of_the_remap_container_is_put_right(cluster: ClusterFacts) -> None:
    manifest = injected(cluster=cluster)
    remap(manifest)["image"] = "registry.local/spy:1"
    _, after = judge(manifest, ALL_ALLOWED, cluster)
    assert after == injected(cluster=cluster)


def test_a_remap_container_with_a_foreign_image_does_not_see_the_gpus_where_none_is_injected() -> None:
    manifest = injected()
    manifest["metadata"]["annotations"]["gpu.topology/remap"] = "binding"
    remap(manifest)["image"] = "registry.local/spy:1"
    outcome, _, after = look(manifest, TEAM_A)
    if outcome.allowed:
        assert remap(after)["image"] != "registry.local/spy:1"


def test_a_remap_container_of_another_name_is_not_ours() -> None:
    manifest = injected()
    remap(manifest)["name"] = "spy"
    outcome, _, _ = look(manifest, TEAM_A)
    assert outcome.reason == Reason.MISSING_PERMISSION
    assert "container spy sets NVIDIA_VISIBLE_DEVICES itself" in outcome.message


@pytest.mark.parametrize("policy", ["nvlink", "single-numa"])
def test_a_remap_container_of_a_version_that_verified_no_policy_is_renewed(policy: str) -> None:
    _, after = judge(pod(annotations={"gpu.topology/policy": policy}))
    entry = {"name": "GPU_TOPOLOGY_POLICY", "value": policy}
    assert entry in remap(after)["env"]
    older = copy.deepcopy(after)
    remap(older)["env"].remove(entry)
    outcome, operations, mended = look(older, TEAM_A)
    assert (outcome.kind, [operation["op"] for operation in operations]) == (Kind.PATCH, ["replace"])
    assert remap(mended) == remap(after)


def test_a_remap_container_is_told_no_policy_that_requires_nothing() -> None:
    _, after = judge(pod(annotations={"gpu.topology/policy": "spread"}))
    assert "GPU_TOPOLOGY_POLICY" not in effective_env(after, "gpu-topology-remap")
