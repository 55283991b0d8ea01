"""The pods with GPUs by resource claims, their claims, and the slices that identify the GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bench import bindings, bodies
from webhook.hardware.topology.model import Gpu
from webhook.words import names

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
ENTRY, REQUEST = "gpus", "gpus"
CLAIM = f"llama-pretrain-gpus-{bodies.SERIAL.decode()}"
_PROFILE = {"name": names.REMAP_PROFILE, "value": "exclusive"}


def slices() -> str:
    """Returns the ResourceSlice of the node, as NVIDIA's driver publishes it, for a state directory."""
    node = bindings.topology()
    spec = {
        "driver": DRIVER,
        "nodeName": node.node,
        "pool": {"name": node.node, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(gpu) for gpu in node.gpus],
    }
    return json.dumps(
        {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node.node}-gpus"}, "spec": spec}
    )


def pods(admit: bindings.Admit) -> Iterator[tuple[bytes, bytes]]:
    """Yields pods with four GPUs by one claim, each with its claim: the pods of `bindings.pods` without their limit.

    The names of pod and claim hold `bodies.SERIAL`.
    """
    for bound, gpus in bindings.pods_with_gpus(admit):
        pod = msgspec.json.decode(bound)
        yield msgspec.json.encode(_claiming(pod)), msgspec.json.encode(_allocated(pod["metadata"], gpus))


def _device(gpu: Gpu) -> dict[str, Any]:
    """Returns a device with the attributes of NVIDIA's driver (cmd/gpu-kubelet-plugin/deviceinfo.go)."""
    texts = {"type": "gpu", "uuid": gpu.uuid, "productName": "NVIDIA H20", "brand": "Nvidia", "architecture": "Hopper"}
    texts |= {"resource.kubernetes.io/pciBusID": gpu.pci_bus_id, "resource.kubernetes.io/pcieRoot": "pci0000:00"}
    versions = {"cudaComputeCapability": "9.0.0", "driverVersion": "550.163.1", "cudaDriverVersion": "12.4.0"}
    attributes: dict[str, Any] = {name: {"string": text} for name, text in texts.items()}
    attributes |= {name: {"version": text} for name, text in versions.items()}
    return {
        "name": f"gpu-{gpu.index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{gpu.memory_mib}Mi"}},
    }


def _claiming(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod with a claim in place of its limit, and without HAMi's annotations."""
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {key: value for key, value in metadata["annotations"].items() if not key.startswith("hami.io/")}
    spec = {
        **spec,
        "containers": [_container(one) for one in spec["containers"]],
        "resourceClaims": [{"name": ENTRY, "resourceClaimTemplateName": "four-gpus"}],
    }
    status = {**pod.get("status", {}), "resourceClaimStatuses": [{"name": ENTRY, "resourceClaimName": CLAIM}]}
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": spec, "status": status}


def _container(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources", {})
    if "nvidia.com/gpu" not in resources.get("limits", {}):
        return container
    left = {section: _without_gpus(resources.get(section, {})) for section in ("limits", "requests")}
    env = [*container.get("env", ()), _PROFILE]
    return {**container, "env": env, "resources": {**left, "claims": [{"name": ENTRY}]}}


def _without_gpus(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if not name.startswith("nvidia.com/")}


def _allocated(metadata: Mapping[str, Any], gpus: Sequence[Gpu]) -> dict[str, Any]:
    """Returns the ResourceClaim of the pod as kube-scheduler writes it before it binds the pod."""
    node = bindings.topology().node
    results = [{"request": REQUEST, "driver": DRIVER, "pool": node, "device": f"gpu-{gpu.index}"} for gpu in gpus]
    wish = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(gpus)}
    pod = {"name": metadata["name"], "uid": metadata["uid"]}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {
        "kind": "ResourceClaim",
        "apiVersion": API,
        "metadata": {
            "name": CLAIM,
            "generateName": "llama-pretrain-gpus-",
            "namespace": bodies.NAMESPACE,
            "uid": "9d1f0c57-6a0e-4f27-9d3c-2a1b7e9f8c60",
            "resourceVersion": "1048577",
            "creationTimestamp": "2026-01-15T09:30:00Z",
            "annotations": {"resource.kubernetes.io/pod-claim-name": ENTRY},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", **pod, "controller": True}],
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": REQUEST, "exactly": wish}]}},
        "status": {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": terms},
                "allocationTimestamp": "2026-01-15T09:30:00Z",
            },
            "reservedFor": [{"resource": "pods", **pod}],
        },
    }
