"""Topologies of nodes as the agent publishes them, bare or in their ConfigMap, and what follows from those."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.laws import check_read
from tests.hardware.topology.machines import MACHINES
from webhook.cluster.state.topology_objects import read_published
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.recognition import read_topology

FIXED_CALLS, CALLS_EACH = 3000, 6.0
_STATE = Path(__file__).parents[3] / "examples" / "state" / "nodes"


def seeds() -> Iterator[bytes]:
    """Machines that are known, and the nodes of the example."""
    for machine in MACHINES.values():
        text = format_topology(machine)
        yield text.encode()
        metadata = {"name": f"gpu-topology-{machine.node}", "labels": {"gpu.topology/node": machine.node}}
        yield json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"topology.json": text}}
        ).encode()
    for path in sorted(_STATE.glob("*.json")):
        yield path.read_bytes()


def target(data: bytes) -> None:
    """Fails where a reader lets out another error than its own, or what it has read breaks a law."""
    check_read(data, lambda: _read(data), fixed=FIXED_CALLS, each=CALLS_EACH)


def _read(data: bytes) -> NodeTopology:
    published = read_published(data, source="the input")
    return published or read_topology(data, node="node-1", source="the input")
