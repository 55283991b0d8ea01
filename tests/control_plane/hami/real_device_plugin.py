"""HAMi's real device plugin on a node of its own, over the stub of NVML, and the kubelet that it registers with."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api

from tests.control_plane.agents import publish
from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.device_plugin import REAL_NODE
from tests.control_plane.hami.kubelet import Kubelet, running_kubelet
from tests.control_plane.hami.nodes import node_manifest, untaint
from tests.control_plane.installation import NAMESPACE
from tests.control_plane.processes import running
from tests.nvml.driver_root import make_driver_root
from tests.nvml.library import LIBRARY, compile_stub
from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology

RESOURCE = "nvidia.com/gpu"
REGISTER = "hami.io/node-nvidia-register"
SCORES = "hami.io/node-nvidia-score"
HANDSHAKE = "hami.io/node-handshake"
SOURCE = Path(__file__).parents[1] / "nvml_for_go.c"
LOCKS = Path("/tmp/vgpulock")  # noqa: S108 - HAMi's plugin makes it, wherever it runs
IN_A_NODE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
mkdir -p /var/lib/kubelet
mount --bind "$1" /var/lib/kubelet
mount --bind "$2" /sys
shift 2
exec "$@"
"""
"""Paths that the plugin has no option for are those of this node only."""


@dataclass(frozen=True)
class RealNode:
    """A node whose GPUs HAMi's plugin has registered."""

    name: str
    kubelet: Kubelet
    root: Path
    """Where the files of its machine are."""

    def written(self, admin: CoreV1Api, annotation: str) -> list[dict[str, Any]]:
        """What the plugin has written about the cards, in the order of their UUIDs."""
        cards: list[dict[str, Any]] = json.loads(annotations_of_node(admin, self.name)[annotation])
        return sorted(cards, key=lambda card: str(card.get("id", card.get("uuid"))))


@contextmanager
def real_node(
    cluster: Cluster, executable: Path, machine: Machine, topology: NodeTopology, directory: Path, *options: str
) -> Iterator[RealNode]:
    """A node with this machine until the end of the block; its topology is published.

    Args:
        cluster: With this release of HAMi.
        executable: The device plugin.
        machine: What NVML shows to it.
        topology: The same, under the name of the node.
        directory: Empty; its path is short, for Unix sockets.
        options: More of the plugin's command line.
    """
    with ExitStack() as stack:
        admin = CoreV1Api(stack.enter_context(cluster.control_plane.client()))
        body: Any = node_manifest(topology)
        del body["metadata"]["annotations"]
        admin.create_node(body)
        stack.callback(admin.delete_node, topology.node)
        untaint(admin, topology.node)
        publish(cluster.control_plane, NAMESPACE, topology, directory / "agent.log")
        description = write_machine(machine, directory / "machine")
        (directory / "kubelet").mkdir()
        kubelet = stack.enter_context(running_kubelet(directory / "kubelet"))
        compile_stub(directory / "library", SOURCE)
        driver = make_driver_root(directory / "driver", machine, directory / "library" / LIBRARY)
        command = _command(executable, directory, driver, options)
        environment = _environment(cluster, directory, description)
        if not LOCKS.exists():
            stack.callback(shutil.rmtree, LOCKS, ignore_errors=True)
        plugin = stack.enter_context(running("hami-device-plugin", command, directory / "plugin.log", environment))
        plugin.wait_until(lambda: REGISTER in annotations_of_node(admin, topology.node))
        until(lambda: RESOURCE in kubelet.endpoints, "a registration")
        _notice(admin, topology.node)
        yield RealNode(topology.node, kubelet, directory / "machine")


def annotations_of_node(admin: CoreV1Api, node: str) -> dict[str, str]:
    found: Any = admin.read_node(node)
    return found.metadata.annotations or {}


def _notice(admin: CoreV1Api, node: str) -> None:
    """Have HAMi's scheduler look at the nodes now: it does when one comes or goes, and otherwise every 15 s."""
    passing: Any = {"metadata": {"name": "passing"}}
    admin.create_node(passing)
    admin.delete_node("passing")
    until(lambda: annotations_of_node(admin, node).get(HANDSHAKE, "").startswith("Req"), "a handshake")


def _command(executable: Path, directory: Path, driver: Path, options: Sequence[str]) -> list[str | Path]:
    configuration = directory / "device-config.yaml"
    devices = {"resourceCountName": RESOURCE, "resourceMemoryName": "nvidia.com/gpumem", "deviceSplitCount": 10}
    others = {"deviceMemoryScaling": 1, "deviceCoreScaling": 1, "libCudaLogLevel": "1"}
    configuration.write_text(json.dumps({"nvidia": devices | others}))
    unshare = shutil.which("unshare")
    assert unshare, "expected unshare of util-linux on the PATH"
    mounted = [str(directory / "kubelet"), str(directory / "machine" / "sys")]
    in_a_node = [unshare, "--mount", "sh", "-c", IN_A_NODE, "node", *mounted]
    where = [f"--driver-root-ctr-path={driver}", f"--nvidia-driver-root={driver}", f"--dev-root={driver}"]
    return [*in_a_node, executable, f"--config-file={configuration}", "--mig-strategy=none", *where, *options]


def _environment(cluster: Cluster, directory: Path, description: Path) -> dict[str, str]:
    own = {
        "KUBECONFIG": str(cluster.control_plane.kubeconfig),
        "NODE_NAME": REAL_NODE,
        "HOOK_PATH": str(directory / "hook"),
        "ENABLE_TOPOLOGY_SCORE": "true",
        # HAMi's chart sets both for a NUMA refit, which no release has yet (pull request 2731).
        "HAMI_SCHEDULER_ENDPOINT": cluster.hami.url,
        "HAMI_SCHEDULER_TLS_INSECURE": "true",
        "PATH": os.environ.get("PATH", ""),
    }
    return environment_of(directory / "library", description) | own
