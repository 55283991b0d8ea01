"""Containers that read their values from the file: what a real API server makes of such pods."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import Served, created, gpu_container, gpu_pod, served
from tests.control_plane.scheduling import NODE, allocate, bind, stored, stored_pod
from tests.pods import effective_env, find_container
from tests.programs.server.conftest import RunningServer

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("for_module")]

FROM_FILE = "remap: {environment: file}\n"
PEERS = (gpu_container("prefill"), gpu_container("decode", 1))
NCCL = {"NCCL_P2P_LEVEL": "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE": "NCCL_NVLS_ENABLE"}


@pytest.fixture(scope="module")
def for_module(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(control_plane, tmp_path_factory.mktemp("served"), config=FROM_FILE) as found:
        yield found


def file_keys(pod: dict[str, Any], container: str) -> dict[str, Any]:
    """The variables that a container reads from a file, with all fields of the reference."""
    env = effective_env(pod, container)
    return {name: value["fileKeyRef"] for name, value in env.items() if "fileKeyRef" in value}


def lines(**keys: str) -> dict[str, dict[str, str | bool]]:
    """References to lines of our file, as the API server stores them: it sets ``optional``."""
    return {
        name: {"volumeName": "gpu-topology", "path": "env", "key": key, "optional": False} for name, key in keys.items()
    }


def test_exclusive_keeps_its_references(control_plane: ControlPlane, admin: CoreV1Api, namespace: str) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    pod = stored_pod(admin, namespace, "train")
    assert file_keys(pod, "worker") == lines(**NCCL)
    assert effective_env(pod, "gpu-topology-remap")["GPU_TOPOLOGY_ENVIRONMENT"] == "file"


def test_the_reader_mounts_the_same_volume_read_only(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    pod = stored_pod(admin, namespace, "train")
    mounts = find_container(pod, "worker")["volumeMounts"]
    assert {"name": "gpu-topology", "mountPath": "/run/gpu-topology", "readOnly": True} in mounts
    assert {"name": "gpu-topology", "emptyDir": {"sizeLimit": "8Mi"}} in pod["spec"]["volumes"]
    assert {entry["volumeName"] for entry in file_keys(pod, "worker").values()} == {"gpu-topology"}


def test_exclusive_is_bound_with_what_is_true_of_its_cards(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    allocate(admin, namespace, "train", (), (2, 5))
    bind(admin, namespace, "train")
    node, annotations = stored(admin, namespace, "train")
    assert (node, annotations["gpu.topology/link"], annotations["gpu.topology/ring-order"]) == (NODE, "NVSwitch", "2,5")
    assert "gpu.topology/nccl-p2p-level" not in annotations
    assert file_keys(stored_pod(admin, namespace, "train"), "worker") == lines(**NCCL)


def test_pod_peers_are_bound_with_what_the_remap_program_verifies(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    annotations = bound_peers(control_plane, admin, namespace, "pod-peers")
    assert annotations["gpu.topology/cuda-visible-devices.0"] == "1,2"
    assert annotations["gpu.topology/cuda-visible-devices.1"] == "0"
    assert annotations["gpu.topology/visible-uuids"] == (
        "GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6,"
        "GPU-9648f14e-6ab2-46f0-221f-777f7652630b,"
        "GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8"
    )


def test_node_peers_are_bound_with_what_the_remap_program_verifies(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    annotations = bound_peers(control_plane, admin, namespace, "node-peers")
    assert annotations["gpu.topology/cuda-visible-devices.0"] == "3,6"
    assert annotations["gpu.topology/cuda-visible-devices.1"] == "1"


def bound_peers(control_plane: ControlPlane, admin: CoreV1Api, namespace: str, profile: str) -> dict[str, str]:
    """The annotations of a pod with GPUs 6 and 3 for its first container and GPU 1 for its second."""
    created(control_plane, namespace, gpu_pod("serve", {"gpu.topology/profile": profile}, *PEERS))
    allocate(admin, namespace, "serve", (), (6, 3), (1,))
    bind(admin, namespace, "serve")
    node, annotations = stored(admin, namespace, "serve")
    assert node == NODE
    return annotations


def copied(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A manifest as somebody makes it from ``kubectl get -o yaml``."""
    metadata = {"name": name, "annotations": pod["metadata"]["annotations"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


@pytest.mark.parametrize("carrier", ["init", "sidecar"])
@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
def test_a_copy_of_the_stored_pod_is_taken_as_it_is(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, webhook: RunningServer, profile: str, carrier: str
) -> None:
    options = {"gpu.topology/profile": profile, "gpu.topology/remap": carrier}
    created(control_plane, namespace, gpu_pod("serve", options, *PEERS))
    first, before = stored_pod(admin, namespace, "serve"), admissions(webhook)
    copy = created(control_plane, namespace, copied(first, "copy"))
    assert copy["spec"] == first["spec"]
    assert copy["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert admissions(webhook) - before == Counter({"already-injected": 1})


def admissions(webhook: RunningServer) -> Counter[str]:
    """Reviews so far, by the reason that is logged. Metrics would be refused to who asks for them so often."""
    lines = [json.loads(line) for line in webhook.out.read_bytes().splitlines()]
    return Counter(line["reason"] for line in lines if "reason" in line)


def test_a_copy_without_annotations_is_prepared_again(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    created(control_plane, namespace, gpu_pod("train", {}))
    first = stored_pod(admin, namespace, "train")
    bare = copied(first, "copy") | {"metadata": {"name": "copy"}}
    copy = created(control_plane, namespace, bare)
    assert copy["spec"] == first["spec"]
    assert copy["metadata"]["annotations"] == first["metadata"]["annotations"]
