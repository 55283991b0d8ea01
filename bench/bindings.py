"""The Bindings that the benchmark sends, and their pods at the API server: injected, and with GPUs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, permutations
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec

from bench import bodies
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import Gpu, NodeTopology

PATH = "/mutate/bindings"
TOPOLOGY = Path(__file__).parents[1] / "examples" / "state" / "nodes" / "h20-node-1.json"
"""A node with eight GPUs, all linked alike, four on each NUMA node."""
UID = f"3b0c6d0f-4d52-9a44-0f4a-{bodies.SERIAL.decode()}"
NAME = f"llama-pretrain-worker-{bodies.SERIAL.decode()}"
GPUS = 4
ORDERS = 12
"""The orders of each of the 36 sets of GPUs; together they are more than the webhook caches for a node."""

Admit = Callable[[bytes], bytes]
"""Sends a request to the webhook and returns its whole answer."""


def topology() -> NodeTopology:
    """Returns the topology of the node that pods are bound to."""
    return parse_topology(TOPOLOGY.read_bytes(), source=str(TOPOLOGY))


def request(pod: bytes) -> bytes:
    """Returns the HTTP request about the Binding of this pod, as HAMi's scheduler posts it."""
    metadata = msgspec.json.decode(pod)["metadata"]
    identity = {"name": metadata["name"], "namespace": bodies.NAMESPACE, "uid": metadata["uid"]}
    kind = {"group": "", "version": "v1", "kind": "Binding"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": bodies.UID,
            "kind": kind,
            "resource": resource,
            "subResource": "binding",
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": "binding",
            "name": identity["name"],
            "namespace": bodies.NAMESPACE,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:hami-scheduler",
                "uid": "8c605b8f-4c1d-6e0a-4f27-9d3c2a1b7e9f",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": {
                "kind": "Binding",
                "apiVersion": "v1",
                "metadata": {**identity, "creationTimestamp": None},
                "target": {"kind": "Node", "name": topology().node},
            },
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
    return bodies.post(PATH, msgspec.json.encode(review))


def pods(admit: Admit) -> Iterator[bytes]:
    """Yields the pods of `pods_with_gpus`."""
    for pod, _ in pods_with_gpus(admit):
        yield pod


def pods_with_gpus(admit: Admit) -> Iterator[tuple[bytes, Sequence[Gpu]]]:
    """Yields pods with four GPUs, each with its GPUs, and each with another set or order of them.

    Two GPUs are of each NUMA node, so that all answers have the same length. Name and uid hold `bodies.SERIAL`, which
    the stand-in for the API server replaces with another number in each answer.
    """
    submitted = json.dumps(bodies.submitted("gpu")).replace('"nvidia.com/gpu": "8"', f'"nvidia.com/gpu": "{GPUS}"')
    pod = _injected(admit, json.loads(submitted))
    pod["metadata"] |= {"name": NAME, "uid": UID}
    gpus = topology().gpus
    for chosen in combinations(gpus, GPUS):
        if sum(gpu.numa_node == gpus[0].numa_node for gpu in chosen) == GPUS // 2:
            # Many orders, because HAMi may pick the GPUs in any order.
            for order in islice(permutations(chosen), ORDERS):
                yield _allocated(pod, order), order


def _injected(admit: Admit, submitted: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod after admission."""
    answer = admit(bodies.post(bodies.PATH, bodies.review(submitted)))
    response = json.loads(answer.partition(b"\r\n\r\n")[2])["response"]
    pod: dict[str, Any] = jsonpatch.apply_patch(
        bodies.with_managed_fields(submitted), json.loads(base64.b64decode(response["patch"]))
    )
    return pod


def _allocated(pod: dict[str, Any], gpus: Sequence[Gpu]) -> bytes:
    """Returns the pod after HAMi's Filter (HAMi docs/develop/protocol.md); its first app container has the GPUs."""
    devices = "".join(f"{gpu.uuid},NVIDIA,{gpu.memory_mib},100:" for gpu in gpus)
    given = {
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1768469400",
        "hami.io/vgpu-devices-allocated": f";{devices};;",
        "hami.io/vgpu-devices-to-allocate": f";{devices};;",
        "hami.io/vgpu-node": topology().node,
        "hami.io/vgpu-time": "1768469400",
    }
    metadata = pod["metadata"]
    annotations = {**metadata.get("annotations", {}), **given}
    head = {"kind": "Pod", "apiVersion": "v1"}
    return msgspec.json.encode({**head, **pod, "metadata": {**metadata, "annotations": annotations}})
