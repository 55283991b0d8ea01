"""A memory changes the cost of an answer, never the answer."""

import copy
import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admit.generated import clusters, namespaces, nodes, pods, policies
from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, policy
from tests.pods import Manifest
from webhook.admit.admission import admit
from webhook.admit.memory import Memory
from webhook.config import AdmitPolicy
from webhook.manifest.pods import to_json
from webhook.model.cluster import ClusterFacts
from webhook.model.outcome import Outcome
from webhook.model.pod import Namespace, Pod
from webhook.model.review import encode_patch
from webhook.model.version import Version


def decode(manifest: Manifest) -> Pod:
    return msgspec.json.decode(to_json(manifest), type=Pod)


def content(outcome: Outcome) -> tuple[Any, ...]:
    patch = json.loads(encode_patch(outcome.operations))
    return outcome.kind, outcome.reason, outcome.profile, outcome.warnings, outcome.message, patch


def cross(chance: Random, one: Any, other: Any) -> Any:
    """A copy of ``one`` in which some parts are those of ``other``, and some are gone."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in {**one, **other} if key in ("name", "mountPath", "metadata") or chance.random() < 0.9]
        return {key: cross(chance, one[key], other.get(key, one[key])) if key in one else other[key] for key in keys}
    if isinstance(one, list) and isinstance(other, list):
        return [cross(chance, item, other[index] if index < len(other) else item) for index, item in enumerate(one)]
    return copy.deepcopy(other if chance.random() < 0.1 else one)


@given(pods(), pods(), namespaces(), policies, clusters, st.integers(0, 2**32))
def test_with_and_without_a_memory_the_answer_is_the_same(
    one: Manifest, other: Manifest, namespace: Namespace, rules: AdmitPolicy, cluster: ClusterFacts, seed: int
) -> None:
    memory, chance = Memory[Outcome](), Random(seed)
    for manifest in (one, *(cross(chance, one, other) for _ in range(10)), one):
        pod = decode(manifest)
        recalled = admit(pod, namespace, rules, cluster, nodes=nodes, memory=memory)
        assert content(recalled) == content(admit(pod, namespace, rules, cluster, nodes=nodes))


GENEROUS = Namespace(
    "team-a",
    {"gpu.topology/injection": "enabled"}
    | {f"gpu.topology/allow-{what}": "true" for what in ("host-ipc", "host-pid", "host-network", "node-gpus")},
)
TABLES = {
    "multinode": {"NCCL_IB_HCA": "mlx5"},
    "nvswitch": {"UCX_A": "1"},
    "nvlink": {"UCX_A": "2"},
    "pcie": {"UCX_A": "3"},
}
RULES = policy(remap={"runtimeClassName": "nvidia"}, nccl=TABLES)
RULES_WITH_FILE = policy(remap={"runtimeClassName": "nvidia", "environment": "file"}, nccl=TABLES)
KUBERNETES_1_35 = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 35))
SHM = {"name": "own", "mountPath": "/dev/shm"}  # noqa: S108 - the path in a container
TRAIN = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {
    "labelSelector": {"matchLabels": {"gpu.topology/group": "g"}},
    "topologyKey": "kubernetes.io/hostname",
}


def annotated(options: dict[str, str], **spec: Any) -> Manifest:
    return {"metadata": {"annotations": {f"gpu.topology/{name}": text for name, text in options.items()}}, "spec": spec}


def replacing(*names: str) -> Manifest:
    env = [{"name": name, "value": "0"} for name in names]
    return annotated({"env.A": "1"}) | {"container": {"env": env}}


def level_from(field_path: str) -> Manifest:
    source = {"fieldRef": {"fieldPath": field_path}}
    return {"container": {"env": [{"name": "NCCL_P2P_LEVEL", "valueFrom": source}]}}


def referring(key: str) -> Manifest:
    """A variable of a name that no step looks for."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
    return {"container": {"env": [{"name": "CARDS", "valueFrom": source}]}}


def from_file(name: str, *, volume: str = "gpu-topology", path: str = "env", key: str = "") -> Manifest:
    source = {"fileKeyRef": {"volumeName": volume, "path": path, "key": key or name}}
    return {"container": {"env": [{"name": name, "valueFrom": source}]}}


def helper_mounting(name: str, *, read_only: bool = False) -> Manifest:
    mount = {"name": name, "mountPath": "/out", "readOnly": read_only}
    return {"spec": {"containers": [TRAIN, {"name": "helper", "volumeMounts": [mount]}]}}


def declaring(change: Manifest) -> Manifest:
    volume = {"name": "gpu-topology", "emptyDir": {"sizeLimit": "8Mi"}}
    return change | {"spec": change.get("spec", {}) | {"volumes": [volume]}}


CHANGES: dict[str, Manifest] = {
    "hostIPC": {"spec": {"hostIPC": True}},
    "hostPID": {"spec": {"hostPID": True}},
    "hostNetwork": {"spec": {"hostNetwork": True}},
    "shareProcessNamespace": {"spec": {"shareProcessNamespace": True}},
    "dnsPolicy": {"spec": {"dnsPolicy": "Default"}},
    "dnsPolicy as by default": {"spec": {"dnsPolicy": "ClusterFirst"}},
    "runtimeClassName": {"spec": {"runtimeClassName": "kata"}},
    "volumes": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}},
    "a volume named like ours": {"spec": {"volumes": [{"name": "gpu-topology", "hostPath": {"path": "/x"}}]}},
    "a volume named like our other": {"spec": {"volumes": [{"name": "gpu-topology-shm", "emptyDir": {}}]}},
    "affinity": {"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}}},
    "no init containers": {"spec": {"initContainers": []}},
    "a sidecar": {"spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]}},
    "an init container": {"spec": {"initContainers": [{"name": "mesh"}]}},
    "annotations": {"metadata": {"annotations": {"a": "b"}}},
    "an own scheduler policy": {"metadata": {"annotations": {"hami.io/gpu-scheduler-policy": "spread"}}},
    "an own numa-bind": {"metadata": {"annotations": {"nvidia.com/numa-bind": "false"}}},
    "an own output": {"metadata": {"annotations": {"gpu.topology/link": "NVSwitch"}}},
    "an unknown annotation": {"metadata": {"annotations": {"gpu.topology/nvsl": "on"}}},
    "an option": {"metadata": {"annotations": {"gpu.topology/nvls": "on"}}},
    "the same default": {"metadata": {"annotations": {"gpu.topology/nccl-p2p-level": "PXB"}}},
    "a variable by annotation": {"metadata": {"annotations": {"gpu.topology/env.A": "1"}}},
    "a group": {"metadata": {"annotations": {"gpu.topology/group": "g"}}},
    "the group's label": {"metadata": {"labels": {"gpu.topology/group": "g"}}},
    "labels": {"metadata": {"labels": {}}},
    "a job over nodes": {"metadata": {"labels": {"ray.io/cluster": "a"}}},
    "variables": {"container": {"env": []}},
    "an own level": {"container": {"env": [{"name": "NCCL_P2P_LEVEL", "value": "SYS"}]}},
    "an own level from elsewhere": {
        "container": {"env": [{"name": "NCCL_P2P_LEVEL", "valueFrom": {"secretKeyRef": {}}}]}
    },
    "control that is off": {"container": {"env": [{"name": "CUDA_DISABLE_CONTROL", "value": "1"}]}},
    "a variable of the tables": {"container": {"env": [{"name": "UCX_A", "value": "4"}]}},
    "a rendezvous": {"container": {"env": [{"name": "MASTER_ADDR", "value": "a"}]}},
    "an escaped name": {"container": {"env": [{"name": "NCCL_P2P_LEVEL", "value": "\\"}]}},
    "mounts": {"container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}},
    "own shared memory": {"container": {"volumeMounts": [SHM]}},
    "limits alone": {"container": {"resources": {"limits": {"nvidia.com/gpu": "2"}}}},
    "another count": {"container": {"resources": {"limits": {"nvidia.com/gpu": 4}}}},
    "a request that differs": {
        "container": {"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}}}
    },
    "Volcano": {"container": {"resources": {"limits": {"volcano.sh/vgpu-number": 2}}}},
    "privileged": {"container": {"securityContext": {"privileged": True}}},
    "another name": {"container": {"name": "decode"}},
    "the host's network": annotated({"host-network": "true"}),
    "the host's network, with DNS": annotated({"host-network": "true"}, dnsPolicy="ClusterFirst"),
    "the host's network, with other DNS": annotated({"host-network": "true"}, dnsPolicy="Default"),
    "a group with affinity": annotated({"group": "g"}, affinity={"podAffinity": {}}),
    "a group with its affinity": annotated({"group": "g"}, affinity={"podAffinity": {REQUIRED: [TERM]}}),
    "a group with its label": {
        "metadata": {
            "annotations": {"gpu.topology/group": "g"},
            "labels": {"gpu.topology/group": "g"},
        }
    },
    "a group with another label": {
        "metadata": {"annotations": {"gpu.topology/group": "g"}, "labels": {"a": "b"}},
    },
    "a variable to replace": replacing("A", "B"),
    "a variable to replace, elsewhere": replacing("B", "A"),
    "a level from our annotation": level_from("metadata.annotations['gpu.topology/nccl-p2p-level']"),
    "a level from another field": level_from("spec.nodeName"),
    "a level from the file": from_file("NCCL_P2P_LEVEL"),
    "a level from a field that is named like the file": level_from("gpu-topology:env:NCCL_P2P_LEVEL"),
    "a level from another line": from_file("NCCL_P2P_LEVEL", key="NCCL_NVLS_ENABLE"),
    "a level from another file": from_file("NCCL_P2P_LEVEL", path="mine"),
    "a level from a file in another volume": from_file("NCCL_P2P_LEVEL", volume="gpu-topology-2"),
    "a variable of the tables from the file": from_file("UCX_A"),
    "indices from the file": from_file("CUDA_VISIBLE_DEVICES", key="CUDA_VISIBLE_DEVICES_0"),
    "other indices from the file": from_file("CUDA_VISIBLE_DEVICES", key="CUDA_VISIBLE_DEVICES_1"),
    "GPUs from the file": from_file("NVIDIA_VISIBLE_DEVICES"),
    "an output": annotated({"visible-uuids": "x"}),
    "an output that a variable refers to": annotated({"visible-uuids": "x"}) | referring("gpu.topology/visible-uuids"),
    "an output beside a variable": annotated({"visible-uuids": "x"}) | referring("gpu.topology/link"),
    "a volume like ours": declaring({}),
    "a volume like ours, mounted": declaring(helper_mounting("gpu-topology")),
    "a volume like ours, mounted to be read": declaring(helper_mounting("gpu-topology", read_only=True)),
    "our volume, mounted and not declared": helper_mounting("gpu-topology"),
    "our second volume, mounted and not declared": helper_mounting("gpu-topology-2"),
    "a volume like ours, and the level from the file": declaring(from_file("NCCL_P2P_LEVEL")),
    "no metadata": {"metadata": None},
    "no annotations": {"metadata": {}},
    "empty annotations": {"metadata": {"annotations": {}}},
    "another name of the helper": {"spec": {"containers": [TRAIN, {"name": "mesh"}]}},
    "another size of a request": {"container": {"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 1}}}},
    "no remap container": annotated({"remap": "binding"}),
    "no remap container, an init container": annotated({"remap": "binding"}, initContainers=[{"name": "a"}]),
    "no remap container, a sidecar": annotated(
        {"remap": "binding"}, initContainers=[{"name": "a", "restartPolicy": "Always"}]
    ),
    "the helper first": {"spec": {"initContainers": [], "containers": [{"name": "helper"}, TRAIN]}},
    "the helper as init container": {"spec": {"initContainers": [{"name": "helper"}], "containers": [TRAIN]}},
}


def changed(change: Manifest, profile: str) -> Manifest:
    container = TRAIN | change.get("container", {})
    metadata: Manifest | None = change.get("metadata", {"name": "train"})
    if profile:
        metadata = dict(metadata or {})
        metadata["annotations"] = {"gpu.topology/profile": profile} | metadata.get("annotations", {})
    return {"metadata": metadata, "spec": {"containers": [container, {"name": "helper"}]} | change.get("spec", {})}


@pytest.mark.parametrize("profile", ["", "pod-peers", "node-peers"])
@pytest.mark.parametrize("cluster", [HAMI_2_9, HAMI_2_10_0, KUBERNETES_1_35, ClusterFacts()])
@pytest.mark.parametrize("rules", [RULES, RULES_WITH_FILE], ids=["annotations", "file"])
def test_no_pod_gets_the_answer_of_one_that_differs_in_what_matters(
    profile: str, cluster: ClusterFacts, rules: AdmitPolicy
) -> None:
    memory = Memory[Outcome]()
    for change in ({}, *CHANGES.values()):
        pod = decode(changed(change, profile))
        recalled = admit(pod, GENEROUS, rules, cluster, memory=memory)
        assert content(recalled) == content(admit(pod, GENEROUS, rules, cluster)), change


def training_pod(name: str, suffix: str, rank: str) -> Manifest:
    token = {"name": f"kube-api-access-{suffix}", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    env = [{"name": "RANK", "value": rank}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    container = {
        "name": "trainer",
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "env": env,
        "volumeMounts": [token],
    }
    metadata = {"name": name, "labels": {"rank": rank}, "annotations": {"rank": rank}}
    volumes = [{"name": f"kube-api-access-{suffix}", "projected": {}}]
    return {"metadata": metadata, "spec": {"containers": [container], "volumes": volumes}}


def test_the_pods_of_one_job_share_an_answer() -> None:
    memory, rules = Memory[Outcome](), policy()
    first = admit(decode(training_pod("a-0", "x7k2p", "0")), TEAM_A, rules, HAMI_2_9, memory=memory)
    second = admit(decode(training_pod("a-1", "q9z4m", "1")), TEAM_A, rules, HAMI_2_9, memory=memory)
    assert first is second


def test_an_answer_is_forgotten_when_the_namespace_changes() -> None:
    memory, rules, pod = Memory[Outcome](), policy(), decode(training_pod("a-0", "x7k2p", "0"))
    first = admit(pod, TEAM_A, rules, HAMI_2_9, memory=memory)
    changed = Namespace("team-a", TEAM_A.labels, {"gpu.topology/nvls": "off"})
    second = admit(pod, changed, rules, HAMI_2_9, memory=memory)
    assert "NCCL_NVLS_ENABLE" in str(json.loads(encode_patch(second.operations)))
    assert content(first) != content(second)


def test_another_version_of_hami_is_another_question() -> None:
    memory, rules, pod = Memory[Outcome](), policy(), decode(training_pod("a-0", "x7k2p", "0"))
    first = admit(pod, TEAM_A, rules, HAMI_2_9, memory=memory)
    second = admit(pod, TEAM_A, rules, ClusterFacts(), memory=memory)
    assert content(first) != content(second)


def test_the_oldest_answers_go_first() -> None:
    memory, rules = Memory[Outcome](size=2), policy()
    manifests = [training_pod("a", "x7k2p", "0") for _ in range(3)]
    for number, manifest in enumerate(manifests):
        manifest["spec"]["containers"][0]["name"] = f"trainer-{number}"
    first, second, third = (admit(decode(one), TEAM_A, rules, HAMI_2_9, memory=memory) for one in manifests)
    assert admit(decode(manifests[2]), TEAM_A, rules, HAMI_2_9, memory=memory) is third
    assert admit(decode(manifests[1]), TEAM_A, rules, HAMI_2_9, memory=memory) is second
    assert admit(decode(manifests[0]), TEAM_A, rules, HAMI_2_9, memory=memory) is not first


def test_what_names_a_pod_is_not_told_to_another() -> None:
    memory, rules = Memory[Outcome](), policy()
    for name in ("one", "two"):
        manifest = training_pod(name, "x7k2p", "0")
        manifest["metadata"]["annotations"] = {"gpu.topology/profile": "observe", "gpu.topology/host-ipc": "true"}
        outcome = admit(decode(manifest), TEAM_A, rules, HAMI_2_9, memory=memory)
        assert any(f"pod team-a/{name}" in warning for warning in outcome.warnings)
        manifest["metadata"]["annotations"]["gpu.topology/profile"] = "exclusive"
        assert f"pod team-a/{name}" in admit(decode(manifest), TEAM_A, rules, HAMI_2_9, memory=memory).message
