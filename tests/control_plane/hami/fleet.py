"""A cluster with HAMi and nodes of several kinds, as it is once all agents have published; no agent runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes.client import CoordinationV1Api, CoreV1Api

from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.hami.device_plugin import running_device_plugin
from tests.control_plane.hami.nodes import create_node
from tests.control_plane.hami.scheduler import USER, Hami, Programs, running_hami
from tests.control_plane.installation import NAMESPACE, Installation, installed, registered
from tests.control_plane.load.cluster import known_nodes
from tests.hardware.topology.machines import a100_pcie_bridged, h20, hgx_a100, l40s
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.publication import config_map_manifest, lease_manifest

KINDS = (("h20", h20(), 2), ("hgx", hgx_a100(), 2), ("pairs", a100_pcie_bridged(), 4), ("l40s", l40s(), 2))
"""Eight cards on NVSwitches, twice; four of which bridges join two and two; eight without NVLink."""
DAY_S = 86400.0
PLACEMENT = {"fullSeconds": 60, "pinSeconds": 60, "releaseSeconds": 300}
"""The defaults; those of the tests are shorter."""


@dataclass(frozen=True)
class Fleet:
    """All that runs."""

    control_plane: ControlPlane
    hami: Hami
    ours: Installation
    machines: dict[str, NodeTopology]


def machines() -> tuple[NodeTopology, ...]:
    """The nodes; each card has a UUID of its own."""
    kinds = [(f"{name}-{number}", topology) for name, topology, count in KINDS for number in range(count)]
    return tuple(_named(topology, name, number) for number, (name, topology) in enumerate(kinds))


@contextmanager
def running_fleet(
    binaries: Binaries, programs: Programs, release: str, directory: Path, *, is_fast: bool, scores: bool
) -> Iterator[Fleet]:
    """Starts everything, without a planner.

    Args:
        binaries: Of the control plane.
        programs: Of HAMi.
        release: Of HAMi.
        directory: Empty.
        is_fast: Whether HAMi may ask the API server more often than by default.
        scores: Whether HAMi's device plugin publishes its scores of pairs.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    for part in ("control-plane", "hami", "ours"):
        (directory / part).mkdir()
    with ExitStack() as stack:
        plane = stack.enter_context(running_control_plane(binaries, directory / "control-plane"))
        hami = stack.enter_context(running_hami(plane, programs, release, directory / "hami", is_fast=is_fast))
        stack.enter_context(running_device_plugin(plane))
        ours = stack.enter_context(
            installed(plane, directory / "ours", {}, directory, hami=release, placement=PLACEMENT)
        )
        nodes = machines()
        _create(plane, nodes, scores=scores)
        stack.enter_context(registered(ours, ours.registration(scheduler=USER)))
        until(lambda: known_nodes(ours) == [len(nodes)] * len(ours.replicas), "replicas that know all nodes")
        yield Fleet(plane, hami, ours, {topology.node: topology for topology in nodes})


def _named(topology: NodeTopology, name: str, number: int) -> NodeTopology:
    gpus = tuple(replace(gpu, uuid=f"GPU-{number:08x}-0000-4000-8000-{gpu.index:012x}") for gpu in topology.gpus)
    return replace(topology, node=name, gpus=gpus)


def _create(control_plane: ControlPlane, nodes: Sequence[NodeTopology], *, scores: bool) -> None:
    with control_plane.client() as client:
        admin, leases = CoreV1Api(client), CoordinationV1Api(client)
        for topology in nodes:
            create_node(admin, topology, scores=scores)
            answer: Any = admin.read_node(topology.node, _preload_content=False)
            node = json.loads(answer.data)
            config_map: Any = config_map_manifest(topology, node, namespace=NAMESPACE)
            admin.create_namespaced_config_map(NAMESPACE, config_map)
            lease: Any = lease_manifest(node, namespace=NAMESPACE, interval=DAY_S, at=datetime.now(UTC))
            leases.create_namespaced_lease(NAMESPACE, lease)
