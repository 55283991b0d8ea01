"""The simulated steps of a cluster from the creation of a pod to its start: HAMi's scheduler, API server, kubelet."""

import base64
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from webhook.cluster.files.state import DirectoryState
    from webhook.decisions.configuration import AdmitPolicy
    from webhook.hardware.topology.model import Gpu

Manifest = dict[str, Any]


def create_pods(path: Path, policy: "AdmitPolicy", state: "DirectoryState") -> Iterator[Manifest]:
    """Yield the pods of a workload as the API server stores them after the webhook's patch."""
    from webhook.cli.workload import apply_in_place, inject_manifest

    injection = inject_manifest(path.read_text(encoding="utf-8"), path.name, policy, state)
    for template in injection.templates:
        pod: Manifest = apply_in_place(json.loads(template.pod), template.outcome.operations)
        metadata = pod.setdefault("metadata", {})
        metadata.setdefault("name", f"{path.stem.split('-', 1)[1]}-0")
        metadata |= {"namespace": template.namespace, "uid": str(uuid.uuid4())}
        yield {"apiVersion": "v1", "kind": "Pod"} | pod


def allocate(pod: Manifest, node: str, free: list["Gpu"]) -> None:
    """Give the pod GPUs from ``free``, and annotate it as HAMi does: in the order in which HAMi picks them."""
    from webhook.decisions.allocation.hami import DIALECT
    from webhook.decisions.allocation.model import WHOLE, Allocation, Device

    segments = []
    for container in pod["spec"]["containers"]:
        count = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        taken = [free.pop(0) for _ in range(count)]
        devices = [Device(uuid=gpu.uuid, memory_mib=gpu.memory_mib, cores=WHOLE) for gpu in reversed(taken)]
        segments.append(tuple(devices))
    allocation = Allocation(segments=tuple(segments))
    pod["metadata"]["annotations"] |= {DIALECT.key: DIALECT.format(allocation), DIALECT.node_key: node}


def bind(client: "httpx.Client", pod: Manifest, node: str) -> dict[str, str]:
    """Bind the pod. Returns the annotations that the webhook put onto the Binding, and adds them to the pod."""
    import jsonpatch

    from webhook.cli.demo.admission import review
    from webhook.words.errors import GpuTopologyError

    metadata = pod["metadata"]
    binding: Manifest = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    request = {
        "kind": {"group": "", "version": "v1", "kind": "Binding"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "operation": "CREATE",
        "object": binding,
    }
    answer = review(client, "/mutate/bindings", request)
    if not answer["allowed"]:
        raise GpuTopologyError(f"the Binding was refused: {answer['status']['message']}")
    bound = jsonpatch.apply_patch(binding, json.loads(base64.b64decode(answer.get("patch", b"W10="))))
    written: dict[str, str] = bound["metadata"].get("annotations", {})
    metadata["annotations"] |= written
    pod["spec"]["nodeName"] = node
    return written


def environment_of(container: Manifest, pod: Manifest) -> dict[str, str]:
    """Return the variables of a container as the kubelet sets them. A missing annotation gives an empty one."""
    found = {}
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        found[entry["name"]] = _field(pod, source) if source else entry.get("value", "")
    return found


def _field(pod: Manifest, path: str) -> str:
    if path == "spec.nodeName":
        return str(pod["spec"]["nodeName"])
    key = path.removeprefix("metadata.annotations['").removesuffix("']")
    return str(pod["metadata"]["annotations"].get(key, ""))
