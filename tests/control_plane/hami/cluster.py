"""One control plane with one release of HAMi, our installation, and the nodes that the tests schedule to."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import Binaries, ControlPlane, StartableControlPlane, startable_control_plane
from tests.control_plane.hami.device_plugin import running_device_plugin
from tests.control_plane.hami.nodes import create_node
from tests.control_plane.hami.scheduler import Hami, Programs, running_hami
from tests.control_plane.hami.team import OPTED_IN, PERMISSIONS, create_namespace
from tests.control_plane.installation import PROBED, Installation, installed
from tests.control_plane.protection import protected
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from tests.nvml import machines as played
from webhook.hardware.topology.model import NodeTopology

H20, BRIDGED = "h20-node-1", "a100-bridged"
Labels = frozenset[tuple[str, str]]
USUAL: tuple[Mapping[str, str], ...] = ({}, OPTED_IN, OPTED_IN | PERMISSIONS)
"""Labels of the namespaces that most tests want."""


@dataclass(frozen=True)
class Cluster:
    """All that runs.

    Attributes:
        api_server: That of the control plane, for tests in which it is away.
        teams: Namespaces that are there, by their labels.
        plugins: The device list strategy of HAMi's own device plugin, by the nodes that it has served.
    """

    control_plane: ControlPlane
    api_server: StartableControlPlane
    hami: Hami
    ours: Installation
    teams: dict[Labels, str]
    plugins: dict[str, str] = field(default_factory=dict)


@contextmanager
def running_cluster(
    binaries: Binaries, programs: Programs, release: str, directory: Path, nvml: Path, *, overwrite_env: bool = False
) -> Iterator[Cluster]:
    """Starts everything; of ours only the policy is registered yet.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    for part in ("control-plane", "hami", "ours"):
        (directory / part).mkdir()
    with ExitStack() as stack:
        api_server = stack.enter_context(startable_control_plane(binaries, directory / "control-plane"))
        api_server.start()
        control_plane = api_server.control_plane
        hami = stack.enter_context(
            running_hami(control_plane, programs, release, directory / "hami", overwrite_env=overwrite_env)
        )
        stack.enter_context(running_device_plugin(control_plane))
        with control_plane.client() as client:
            admin = CoreV1Api(client)
            for topology in topologies():
                create_node(admin, topology)
            teams = {frozenset(labels.items()): create_namespace(admin, labels) for labels in USUAL}
        machines = {H20: played.h20(), BRIDGED: bridged_machine()}
        ours = stack.enter_context(installed(control_plane, directory / "ours", machines, nvml, hami=release))
        stack.enter_context(protected(control_plane, PROBED))
        yield Cluster(control_plane, api_server, hami, ours, teams)


def topologies() -> tuple[NodeTopology, ...]:
    """Eight H20 on NVSwitches; four A100 of which bridges join 0 to 1 and 2 to 3."""
    bridged = a100_pcie_bridged()
    gpus = tuple(replace(gpu, uuid=_bridged_uuid(gpu.index)) for gpu in bridged.gpus)
    return h20(), replace(bridged, node=BRIDGED, gpus=gpus)


def bridged_machine() -> played.Machine:
    """What the agent of the second node finds there."""
    machine = played.a100_pcie_bridged()
    for index in range(len(machine.cards)):
        machine = machine.with_card(index, uuid=_bridged_uuid(index))
    return machine


def _bridged_uuid(index: int) -> str:
    return f"GPU-a1000000-7c21-4be9-9d3e-00000000000{index}"
