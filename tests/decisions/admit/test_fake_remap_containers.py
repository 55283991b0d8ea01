"""A container with our name, our command and more: it is brought to our form, or the pod is refused."""

import copy
from itertools import product
from typing import Any

import pytest

from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, judge
from tests.pods import Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.outcome import Kind, Reason

CARRIERS = pytest.mark.parametrize("cluster", [HAMI_2_9, HAMI_2_10_0], ids=["init", "sidecar"])
SHELL = {"exec": {"command": ["sh", "-c", "sleep inf"]}}
EXTRAS: dict[str, Manifest] = {
    "another image": {"image": "registry.local/spy:1"},
    "an image by digest": {"image": "ghcr.io/gpu-topology-webhook/gpu-topology-remap@sha256:" + "0" * 64},
    "another pull policy": {"imagePullPolicy": "Never"},
    "more arguments": {"args": ["--mode", "init", "--directory", "/data"]},
    "no arguments": {"args": []},
    "a working directory": {"workingDir": "/data"},
    "a port": {"ports": [{"containerPort": 22, "hostPort": 22}]},
    "a device": {"volumeDevices": [{"name": "disk", "devicePath": "/dev/nvidia0"}]},
    "a terminal": {"stdin": True, "stdinOnce": False, "tty": True},
    "another termination message": {"terminationMessagePath": "/run/gpu-topology/env"},
    "the log as termination message": {"terminationMessagePolicy": "FallbackToLogsOnError"},
    "more memory": {"resources": {"limits": {"memory": "64Gi"}}},
    "a claim": {"resources": {"claims": [{"name": "gpus"}]}},
    "a resize policy": {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
    "another restart policy": {"restartPolicy": "OnFailure"},
    "a field of tomorrow": {"hostUsers": False},
    "root": {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}},
    "privileged": {"securityContext": {"privileged": True, "runAsUser": 0}},
    "a volume of the user": {"volumeMounts": [{"name": "host", "mountPath": "/run/gpu-topology"}]},
    "a capability": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
    "no seccomp": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    "a host's proc": {"securityContext": {"procMount": "Unmasked"}},
    "a hook at the start": {"lifecycle": {"postStart": SHELL}},
    "a hook at the end": {"lifecycle": {"preStop": SHELL, "stopSignal": "SIGHUP"}},
    "a liveness probe": {"livenessProbe": SHELL},
    "a readiness probe": {"readinessProbe": SHELL},
    "a startup probe": {"startupProbe": SHELL},
    "variables from elsewhere": {"envFrom": [{"secretRef": {"name": "s"}}]},
    "variables that are null": {"env": None},
    "mounts that are null": {"volumeMounts": None},
    "a sub path": {"volumeMounts": [{"name": "gpu-topology", "mountPath": "/run/gpu-topology", "subPath": "x"}]},
    "a read-only mount": {
        "volumeMounts": [{"name": "gpu-topology", "mountPath": "/run/gpu-topology", "readOnly": True}]
    },
    "a mount that goes back": {
        "volumeMounts": [
            {"name": "gpu-topology", "mountPath": "/run/gpu-topology", "mountPropagation": "Bidirectional"}
        ]
    },
    "two mounts": {
        "volumeMounts": [
            {"name": "gpu-topology", "mountPath": "/run/gpu-topology"},
            {"name": "gpu-topology", "mountPath": "/usr/lib/python3"},
        ]
    },
    "a mount in place of the token": {
        "volumeMounts": [
            {"name": "gpu-topology", "mountPath": "/run/gpu-topology"},
            {"name": "gpu-topology", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"},
        ]
    },
}
VARIABLES: list[Manifest] = [
    {"name": "LD_PRELOAD", "value": "/run/gpu-topology/x.so"},
    {"name": "PATH", "value": "/data"},
    {"name": "PYTHONPATH", "value": "/run/gpu-topology"},
    {"name": "PYTHONSTARTUP", "value": "/run/gpu-topology/x.py"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"},
    {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    {"name": "GPU_TOPOLOGY_ALLOCATION", "value": "GPU-foreign,NVIDIA,1,1:;"},
    {"name": "GPU_TOPOLOGY_PROFILE", "value": "node-peers"},
]


def injected(cluster: ClusterFacts) -> Manifest:
    """A pod as it leaves us, in a namespace without permissions."""
    outcome, after = judge(pod(), TEAM_A, cluster)
    assert outcome.kind is Kind.PATCH
    return after


def ours(manifest: Manifest) -> Manifest:
    found: Manifest = next(
        container for container in manifest["spec"]["initContainers"] if container["name"] == "gpu-topology-remap"
    )
    return found


def judged(manifest: Manifest, cluster: ClusterFacts) -> Manifest | None:
    """The pod afterwards; ``None`` if it is refused for its own list of GPUs, which is what the container has."""
    outcome, after = judge(manifest, TEAM_A, cluster)
    if outcome.allowed:
        return after
    assert outcome.reason == Reason.MISSING_PERMISSION
    assert "sets NVIDIA_VISIBLE_DEVICES itself" in outcome.message
    return None


@CARRIERS
def test_what_our_container_does_not_have_goes(cluster: ClusterFacts, subtests: pytest.Subtests) -> None:
    for what, extra in EXTRAS.items():
        with subtests.test(what):
            wanted = injected(cluster)
            manifest = copy.deepcopy(wanted)
            ours(manifest).update(extra)
            assert manifest != wanted
            assert judged(manifest, cluster) in (None, wanted)


@CARRIERS
def test_no_variable_of_the_users_stays_in_it(cluster: ClusterFacts, subtests: pytest.Subtests) -> None:
    for place, variable in product(("first", "last"), VARIABLES):
        with subtests.test(place=place, variable=variable):
            wanted = injected(cluster)
            manifest = copy.deepcopy(wanted)
            env = ours(manifest)["env"]
            env.insert(0 if place == "first" else len(env), variable)
            after = judged(manifest, cluster)
            assert after is None or after == wanted or variable in ours(wanted)["env"]


@CARRIERS
@pytest.mark.parametrize(
    "command", [None, [], ["sh"], ["gpu-topology"], ["gpu-topology", "remap", "x"], ["GPU-topology", "remap"]]
)
def test_one_with_another_command_is_the_users_own(cluster: ClusterFacts, command: Any) -> None:
    """It gets no GPU by a list of its own, and ours has another name."""
    manifest = pod(initContainers=[container("gpu-topology-remap", None, command=command)])
    _, after = judge(manifest, TEAM_A, cluster)
    assert ours(after)["command"] == command
    assert "env" not in ours(after) or {"name": "CUDA_DISABLE_CONTROL", "value": "true"} in ours(after)["env"]
    assert [container["name"] for container in after["spec"]["initContainers"]] == [
        "gpu-topology-remap-2",
        "gpu-topology-remap",
    ]
    spying = copy.deepcopy(manifest)
    spying["spec"]["initContainers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert judge(spying, TEAM_A, cluster)[0].reason == Reason.MISSING_PERMISSION


@CARRIERS
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_of_two_with_our_form_one_is_ours_and_the_other_may_see_no_gpu_of_its_own_choice(
    cluster: ClusterFacts, where: str
) -> None:
    manifest = injected(cluster)
    second = copy.deepcopy(ours(manifest)) | {"name": "gpu-topology-remap-2", "image": "registry.local/spy:1"}
    second["env"] = [*second["env"], {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    manifest["spec"][where].append(second)
    assert judged(manifest, cluster) is None


@CARRIERS
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "volcano.sh/vgpu-number"])
def test_one_that_asks_for_gpus_is_refused_because_ours_never_does(cluster: ClusterFacts, resource: str) -> None:
    manifest = injected(cluster)
    ours(manifest)["resources"] = {"limits": {resource: "8"}}
    outcome, _ = judge(manifest, TEAM_A, cluster)
    assert outcome.reason in {Reason.CONTRADICTS_PROFILE, Reason.BAD_RESOURCE}
    assert "container gpu-topology-remap" in outcome.message
