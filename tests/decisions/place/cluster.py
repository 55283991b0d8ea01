"""A cluster in memory for the planner: objects as the API server has them, and what the planner is told of them.

Patches are applied by an independent library. HAMi's part is as small as it can be: it gives the cards of the list.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch
import msgspec

from tests.control_plane.hami.nodes import node_manifest
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.decisions.node_record import NodeRecord, read_node
from webhook.decisions.place.planner import Planner
from webhook.decisions.place.pod import PodRecord, read_pod
from webhook.decisions.place.world import World
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace
from webhook.objects.workload import MISSING, WorkloadRef, read_workload

GATE = "gpu.topology/place"
BEGIN = datetime(2026, 11, 22, 12, tzinfo=UTC)
Object = dict[str, Any]


def named(topology: NodeTopology, node: str) -> NodeTopology:
    """The machine as the node of that name, with UUIDs of its own."""
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}.{gpu.index}") for gpu in topology.gpus)
    return replace(topology, node=node, gpus=gpus)


class PlacedCluster:
    """Nodes and pods, a planner, and a clock that only moves when it is told to.

    Args:
        nodes: With different names.
        settings: Of the section ``placement``, beside ``mode: on``.
        namespace: Annotations of the one namespace.
    """

    def __init__(
        self,
        *nodes: NodeTopology,
        settings: Mapping[str, Any] | None = None,
        namespace: Mapping[str, str] | None = None,
    ) -> None:
        self.policy = admit_policy(parse_config({"placement": {"mode": "on", **(settings or {})}}), version="1.0.0")
        self.namespace = Namespace("team", {"gpu.topology/injection": "enabled"}, dict(namespace or {}))
        self.cpu = self.tick = 0.0
        """The planner's clock of CPU time, and by how much each look at it moves it on."""
        self.lead()
        self.now = 1000.0
        self.version = 0
        self.pods: dict[str, Object] = {}
        self.namespaces: dict[str, str] = {}
        """Of each pod that ever was."""
        self.nodes: dict[str, Object] = {}
        self.topologies: dict[str, NodeTopology | None] = {}
        self.records: dict[str, PodRecord] = {}
        self.node_records: dict[str, NodeRecord] = {}
        self.workloads: dict[WorkloadRef, Object | None] = {}
        """Objects that may be read, by how pods name them. None: they may not be."""
        self.has_pod_groups = True
        """Whether a PodGroup that a pod names, and that is not among those objects, is known not to be there."""
        self.said: list[Write] = []
        for topology in nodes:
            self.add_node(topology)

    def lead(self) -> None:
        """A planner begins that knows nothing but what stands on the objects."""
        self.world = World()
        self.planner = Planner(self.world, self.policy, namespaces=lambda _: self.namespace, cpu=self.spent)

    def spent(self) -> float:
        """The CPU time, after one more tick."""
        self.cpu += self.tick
        return self.cpu

    def restart(self) -> None:
        """Another planner takes over, and is told all objects."""
        self.lead()
        for key, record in self.records.items():
            self.world.pod_changed(key, None, record)
        for name in self.nodes:
            self.tell_node(name)

    def add_node(self, topology: NodeTopology, **spec: Any) -> None:
        """A node with HAMi's annotations and an agent."""
        self.nodes[topology.node] = {**node_manifest(topology), "spec": spec}
        self.topologies[topology.node] = topology
        self.tell_node(topology.node)

    def tell_node(self, name: str) -> None:
        """The planner hears of a node as it is now."""
        record = None
        if name in self.nodes:
            record = read_node(msgspec.json.encode(self.nodes[name]), name, self.node_records.get(name))
            self.node_records[name] = record
        self.world.node_changed(name, record, self.topologies.get(name))

    def remove_node(self, name: str) -> None:
        """The node goes, and its topology with it."""
        del self.nodes[name], self.topologies[name]
        self.tell_node(name)

    def create(
        self,
        name: str,
        *gpus: int,
        options: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        gated: bool = True,
        namespace: str = "team",
        annotations: Mapping[str, str] | None = None,
        owner: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Object:
        """A pod with a container for each count of whole cards, as admission leaves it."""
        containers = [
            {"name": f"c{k}", "resources": {"limits": {"nvidia.com/gpu": str(count), "nvidia.com/gpucores": "100"}}}
            for k, count in enumerate(gpus)
        ]
        given = {f"gpu.topology/{key}": value for key, value in (options or {}).items()}
        created = BEGIN + timedelta(seconds=self.now - 1000)
        gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
        pod: Object = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}-{self.version}",
                **({"ownerReferences": [dict(owner)]} if owner else {}),
                "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "labels": {**({"gpu.topology/placement": "waiting"} if gated else {}), **(labels or {})},
                "annotations": {"gpu.topology/injected": "1.0.0/exclusive", **given, **(annotations or {})},
            },
            "spec": {"schedulerName": "hami-scheduler", "containers": containers, **gates, **spec},
            "status": {"phase": "Pending"},
        }
        self.pods[name] = pod
        self.namespaces[name] = namespace
        self.tell(name)
        return pod

    def tell(self, name: str) -> None:
        """The planner hears of a pod as it is now."""
        self.version += 1
        key = f"{self.namespaces.get(name, 'team')}/{name}"
        before, after = self.records.pop(key, None), None
        if name in self.pods:
            self.pods[name]["metadata"]["resourceVersion"] = str(self.version)
            after = read_pod(msgspec.json.encode(self.pods[name]), key, before)
            self.records[key] = after
        self.world.pod_changed(key, before, after)

    def replace_record(self, name: str, change: Callable[[PodRecord], PodRecord]) -> None:
        """The planner keeps something else of a pod from now on."""
        key = f"{self.namespaces[name]}/{name}"
        before, self.records[key] = self.records[key], change(self.records[key])
        self.world.pod_changed(key, before, self.records[key])

    def delete(self, name: str) -> None:
        """The pod is gone."""
        del self.pods[name]
        self.tell(name)

    def round(self, *, busy: tuple[str, ...] = ()) -> list[Write]:
        """What the planner decides now, done."""
        writes = self.planner.decide(self.now, BEGIN + timedelta(seconds=self.now - 1000), busy)
        for write in writes:
            self.apply(write)
        self.said += writes
        self.read()
        return writes

    def stateful_set(self, name: str) -> Object:
        """The owner of the pods of a StatefulSet."""
        uid = f"uid-of-{name}"
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": True}

    def read(self) -> None:
        """The planner is told what it asked for, as far as there is an answer."""
        for ref in self.planner.wishes:
            found = self.workloads.get(ref)
            if found is not None:
                self.world.workload_read(ref, read_workload(ref, msgspec.json.encode(found)))
            elif ref in self.workloads:
                self.world.workload_read(ref, None)
            elif self.has_pod_groups:
                self.world.workload_read(ref, MISSING)

    def apply(self, write: Write) -> None:
        """Do what the planner wants, as the API server does it."""
        pod = self.pods.get(write.name)
        if pod is None or pod["metadata"]["uid"] != write.uid:
            return
        if write.patch:
            pod = self.pods[write.name] = jsonpatch.apply_patch(pod, msgspec.json.encode(write.patch).decode())
        if write.condition:
            found = write.condition
            self.condition(pod, "gpu.topology/Placed", found.status, found.reason, found.message)
        self.tell(write.name)

    def condition(self, pod: Object, kind: str, status: str, reason: str, message: str = "") -> None:
        """Set a condition of a pod."""
        kept = [each for each in pod["status"].get("conditions", ()) if each["type"] != kind]
        said = {"type": kind, "status": status, "reason": reason, "message": message}
        pod["status"]["conditions"] = [*kept, said]

    def refuse(self, name: str, message: str = "0/1 nodes are available: 1 CardUuidMismatch.") -> None:
        """The scheduler finds no node for the pod."""
        self.condition(self.pods[name], "PodScheduled", "False", "Unschedulable", message)
        self.tell(name)

    def give(self, name: str, node: str, cards: tuple[str, ...], *, memory_mib: int = 40960, cores: int = 100) -> None:
        """HAMi gives the pod these cards, or parts of them, and it is bound."""
        pod = self.pods[name]
        devices = "".join(f"{card},NVIDIA,{memory_mib},{cores}:" for card in cards)
        pod["metadata"]["annotations"] |= {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-devices-allocated": f"{devices};",
        }
        pod["spec"]["nodeName"] = node
        self.tell(name)

    def schedule(self) -> list[str]:
        """HAMi gives every pod without a gate what it is pinned to; returns the names of those that it bound."""
        bound = []
        for name, pod in self.pods.items():
            pinned = self.pinned(name)
            if pinned and not self.gates(name) and "nodeName" not in pod["spec"]:
                node = next(key for key, topology in self.topologies.items() if topology and topology.gpu(pinned[0]))
                self.give(name, node, pinned)
                bound.append(name)
        return bound

    def pinned(self, name: str) -> tuple[str, ...]:
        """The cards that HAMi may choose from; empty: any."""
        text = self.pods[name]["metadata"]["annotations"].get("nvidia.com/use-gpuuuid", "")
        return tuple(text.split(",")) if text else ()

    def cards(self, name: str) -> list[str]:
        """The same as ``node:index``."""
        return [card.removeprefix("GPU-").replace(".", ":") for card in self.pinned(name)]

    def gates(self, name: str) -> list[str]:
        """The names of the pod's gates."""
        return [gate["name"] for gate in self.pods[name]["spec"].get("schedulingGates", ())]

    def label(self, name: str) -> str:
        """How far the placement is."""
        return str(self.pods[name]["metadata"]["labels"].get("gpu.topology/placement", ""))

    def why(self, name: str) -> tuple[str, str]:
        """Reason and message of the planner's condition."""
        found = [
            each for each in self.pods[name]["status"].get("conditions", ()) if each["type"] == "gpu.topology/Placed"
        ]
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")
