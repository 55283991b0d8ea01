"""Many nodes with eight GPUs each, as the API server has them once all agents have published."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api

from bench.proc import resident_mib
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.hami.nodes import node_manifest, untaint
from tests.control_plane.installation import NAMESPACE, Installation, installed
from tests.control_plane.load.client import Request, Sent, send
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.publication import config_map_manifest, lease_manifest

AGENT_INTERVAL_S = 60.0


def machines(count: int) -> tuple[NodeTopology, ...]:
    """So many nodes with eight H20 each, no two GPUs of which are the same."""
    return tuple(_machine(number) for number in range(count))


def create_nodes(control_plane: ControlPlane, topologies: Sequence[NodeTopology]) -> None:
    """Nodes, and of each the ConfigMap and the Lease, in the agent's words. They have the taint of new nodes.

    Raises:
        AssertionError: the API server does not take one of them.
    """
    nodes = [Request("/api/v1/nodes", _json(node_manifest(topology))) for topology in topologies]
    _all_taken(send(control_plane, nodes, float("inf")))
    with control_plane.client() as client:
        answer: Any = CoreV1Api(client).list_node(_preload_content=False)
    stored = {node["metadata"]["name"]: node for node in json.loads(answer.data)["items"]}
    published = [each for topology in topologies for each in _published(topology, stored[topology.node])]
    _all_taken(send(control_plane, published, float("inf")))


def make_ready(control_plane: ControlPlane) -> None:
    """The nodes lose the taint of new nodes, so that pods may run there."""
    with control_plane.client() as client:
        admin = CoreV1Api(client)
        answer: Any = admin.list_node(_preload_content=False)
        for node in json.loads(answer.data)["items"]:
            untaint(admin, node["metadata"]["name"])


def _published(topology: NodeTopology, node: dict[str, Any]) -> Iterator[Request]:
    config_map = config_map_manifest(topology, node, namespace=NAMESPACE)
    yield Request(f"/api/v1/namespaces/{NAMESPACE}/configmaps", _json(config_map))
    lease = lease_manifest(node, namespace=NAMESPACE, interval=AGENT_INTERVAL_S, at=datetime.now(UTC))
    yield Request(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", _json(lease))


def _machine(number: int) -> NodeTopology:
    machine = h20()
    gpus = tuple(replace(gpu, uuid=f"{gpu.uuid[:-8]}{number:08x}") for gpu in machine.gpus)
    return replace(machine, node=f"gpu-node-{number:05}", gpus=gpus)


def _json(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest).encode()


def _all_taken(sent: Sent) -> None:
    assert sent.faults == (), sent.faults[0]


KNOWN = 'gpu_topology_nodes{topology="fresh"} '


@dataclass(frozen=True)
class Cluster:
    """All that runs.

    Attributes:
        nodes: How many there are.
        memory: MiB resident of each replica before there were nodes, and with them.
    """

    ours: Installation
    nodes: int
    memory: tuple[tuple[float, ...], tuple[float, ...]]


@contextmanager
def running_cluster(binaries: Binaries, directory: Path, nodes: int) -> Iterator[Cluster]:
    """Starts everything; nothing of ours is registered yet.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    for part in ("control-plane", "ours"):
        (directory / part).mkdir()
    with (
        running_control_plane(binaries, directory / "control-plane") as control_plane,
        installed(control_plane, directory / "ours", {}, directory, hami="2.10.0") as ours,
    ):
        before = resident(ours)
        create_nodes(control_plane, machines(nodes))
        until(lambda: known_nodes(ours) == [nodes] * len(ours.replicas), "replicas that know all nodes")
        yield Cluster(ours, nodes, (before, resident(ours)))


def resident(ours: Installation) -> tuple[float, ...]:
    """MiB of each replica."""
    return tuple(resident_mib(replica.process.pid) for _, replica in sorted(ours.replicas.items()))


def known_nodes(ours: Installation) -> list[float]:
    """How many nodes with a fresh topology each replica knows."""
    return [float(line.removeprefix(KNOWN)) for lines in ours.metrics() for line in lines if line.startswith(KNOWN)]
