"""The planner's choice of cards, on a node where HAMi alone would split a bridged pair."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.cluster.files.state import DirectoryState
    from webhook.hardware.topology.model import NodeTopology

NODE = "a100-pcie"
TAKEN = 3
"""The index of the GPU of which another pod has a slice."""
_NAMESPACE = "ml-workloads"
_PLAYED = (
    "The API server is played here; the decision is the planner's. A pod has a slice of GPU{taken}. HAMi 2.9.0 and "
    "2.10.0, asked in our tests, give the next pod of two cards GPU1 and GPU2, which no NVLink joins."
)


def place_a_pod(console: "Console", state: "DirectoryState", *, detailed: bool) -> bool:
    """Have cards chosen for a pod of two; returns whether an NVLink joins them. Does nothing without the node."""
    from webhook import __version__
    from webhook.decisions.configuration import admit_policy, parse_config
    from webhook.decisions.place.planner import Planner
    from webhook.decisions.place.world import World

    known = state.node(NODE).published
    if known is None:
        return True
    console.print()
    console.rule(f"[bold]cards of the node {NODE}", align="left", style="dim")
    console.print(_PLAYED.format(taken=TAKEN), style="dim italic")
    policy = admit_policy(parse_config({"placement": {"mode": "on"}}), version=__version__)
    world = World()
    _tell(world, known.topology)
    (write,) = Planner(world, policy, namespaces=state.namespace).decide(0.0, _now())
    console.print(f"\n[bold]pod {write.name}[/]")
    for operation in (each for each in write.patch if detailed and each.op != "test"):
        console.print(f"          {_said(operation.op, operation.path, operation.value)}", markup=False)
    if write.condition:
        console.print(f"          condition {write.condition.reason}: {write.condition.message}", markup=False)
    return write.link == "NVLink"


def _tell(world: Any, topology: "NodeTopology") -> None:
    """Add the node, the pod with a slice and the waiting pod to the planner's world."""
    from webhook.decisions.node_record import read_node
    from webhook.decisions.place.pod import read_pod
    from webhook.words import names

    registered = [
        {"id": gpu.uuid, "index": gpu.index, "type": gpu.name, "mode": "hami-core", "health": True}
        for gpu in topology.gpus
    ]
    annotations = {names.HAMI_NODE_REGISTER: json.dumps(registered)}
    node = {"metadata": {"name": NODE, "annotations": annotations}, "status": {"allocatable": {"pods": "110"}}}
    world.node_changed(NODE, read_node(json.dumps(node).encode(), NODE, None), topology)
    part = f"{topology.gpus[TAKEN].uuid},NVIDIA,1000,0:;"
    served = {names.HAMI_ALLOCATED_NODE: NODE, names.HAMI_DEVICES_ALLOCATED: part}
    waiting = {
        "schedulerName": "hami-scheduler",
        "schedulingGates": [{"name": names.PLACE_GATE}],
        "containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpucores": 100}}}],
    }
    for pod in (
        _pod("slice", served, {"nodeName": NODE, "containers": []}),
        _pod("train-0", {names.INJECTED: "{}"}, waiting),
    ):
        record = read_pod(json.dumps(pod).encode(), pod["metadata"]["name"], None)
        world.pod_changed(record.key, None, record)


def _pod(name: str, annotations: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": _NAMESPACE, "uid": name, "resourceVersion": "1", "labels": {}}
    return {"metadata": metadata | {"annotations": annotations}, "spec": spec}


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def _said(op: str, path: str, value: Any) -> str:
    """Describe an operation in one line."""
    from msgspec import UNSET

    return f"{op} {path.replace('~1', '/')}" + (f": {value}" if value is not UNSET else "")
