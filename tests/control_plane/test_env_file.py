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
from tests.pods import effective_env
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


def copied(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A manifest as somebody makes it from ``kubectl get -o yaml``."""
    metadata = {"name": name, "annotations": pod["metadata"]["annotations"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


@pytest.mark.parametrize(("profile", "carrier"), [("exclusive", "init"), ("node-peers", "sidecar")])
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
