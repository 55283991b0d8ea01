"""Clusters with one thing to see in each, and what their objects look like."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.insight.analyze.clusters import AT, Cluster, Object, cards, pairs
from tests.insight.analyze.faults import FAULTS
from tests.insight.explain.situations import injected
from tests.pods import container, pod
from webhook.hardware.topology.model import MigMode, NvLink
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.overview.model import Node, Overview, Pod
from webhook.insight.overview.picture import overview

PROGRAM = "gpu-topology-remap"


def seen(cluster: Cluster) -> Overview:
    """The picture of a cluster."""
    snapshot = cluster.snapshot()
    return overview(snapshot, analyze(snapshot))


def node_of(found: Overview, name: str) -> Node:
    (node,) = (node for node in found.nodes if node.name == name)
    return node


def pod_of(found: Overview, name: str) -> Pod:
    (pod_,) = (each for each in found.pods if each.name == name)
    return pod_


def states(node: Node) -> list[str]:
    return [card.state.value for card in node.cards]


def fault(name: str) -> Callable[[Cluster], None]:
    """One of the seeded faults of ``analyze``."""
    return next(each.make for each in FAULTS if each.name == name)


def without_nodes(cluster: Cluster) -> None:
    """The caller may not list nodes, so nothing is known of them."""
    cluster.objects = {key: each for key, each in cluster.objects.items() if key[0] != "Node"}
    deny(cluster, "Node", "nodes")


def deny(cluster: Cluster, kind: str, resource: str) -> None:
    """The caller may not list the objects of a kind."""
    cluster.read.remove(kind)
    cluster.unread.append({"what": resource, "problem": f"list {resource}: you may not (403)", "denied": True})


def annotate_node(cluster: Cluster, name: str, **changes: Any) -> None:
    """Change every card in the register of HAMi."""
    annotations = cluster.get("Node", name)["metadata"]["annotations"]
    gpus = json.loads(annotations["hami.io/node-nvidia-register"])
    annotations["hami.io/node-nvidia-register"] = json.dumps([gpu | changes for gpu in gpus])


def cordoned(cluster: Cluster) -> None:
    """No pod may come to one node, and HAMi leaves a card of the other alone."""
    cluster.get("Node", "switched")["spec"] = {"unschedulable": True}
    cluster.get("Node", "paired")["metadata"]["annotations"]["hami.io/device-cordon"] = "GPU-paired.3"


def mig(cluster: Cluster) -> None:
    """A node with one card in MIG mode, so that the links to its partner are down."""
    topology = pairs("cut")
    gpus = [replace(gpu, nvlinks=tuple(map(_down, gpu.nvlinks))) if gpu.index > 1 else gpu for gpu in topology.gpus]
    gpus[3] = replace(gpus[3], mig_mode=MigMode.ENABLED)
    cluster.add_node(replace(topology, gpus=tuple(gpus)))


def _down(link: NvLink) -> NvLink:
    return replace(link, active=0)


def pinned(cluster: Cluster) -> Object:
    """A pod behind the gate whose cards the planner holds: two of the node ``paired``."""
    found = injected(pod(container(gpus=2), schedulerName="hami-scheduler"))
    chosen = cards("paired", 2, 3)
    placed = {
        "node": "paired",
        "cards": chosen,
        "link": "NVLink",
        "bandwidth": 240.0,
        "share": 1.0,
        "attempt": 1,
        "at": AT.isoformat(),
    }
    metadata = found["metadata"]
    metadata |= {"name": "pinned", "uid": "uid-pinned", "resourceVersion": "1", "creationTimestamp": AT.isoformat()}
    metadata["labels"] = metadata.get("labels", {}) | {"gpu.topology/placement": "waiting"}
    metadata["annotations"] |= {
        "gpu.topology/placed": json.dumps(placed),
        "nvidia.com/use-gpuuuid": ",".join(chosen),
    }
    found["spec"]["schedulingGates"] = [{"name": "gpu.topology/place"}]
    cluster.add(found)
    return found


def claims(cluster: Cluster) -> None:
    """A pod that was given its cards by claims, as bind wrote it down."""
    topology = pairs("claimable")
    gpus = tuple(replace(gpu, uuid=f"GPU-claimable{gpu.index}") for gpu in topology.gpus)
    cluster.add_node(replace(topology, gpus=gpus))
    fault("claims that are not looked at")(cluster)
    claimed = cluster.get("Pod", "claimed", "team-a")
    claimed["spec"]["nodeName"] = "claimable"
    claimed["metadata"]["annotations"] = {"gpu.topology/claimed-gpus": "main=GPU-claimable2,GPU-claimable3"}


def ran(cluster: Cluster, pod_name: str, **status: Any) -> None:
    """The remap program of a pod has that status."""
    found = cluster.get("Pod", pod_name, "team-a")
    found["status"] = {"phase": "Running", "initContainerStatuses": [{"name": PROGRAM, **status}]}
