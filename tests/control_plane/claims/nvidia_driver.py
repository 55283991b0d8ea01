"""NVIDIA's real DRA driver over the stand-in for NVML; no kubelet asks it to prepare anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane.claims.cluster import ClaimsCluster
from tests.control_plane.claims.drivers import NVIDIA, Manifest
from tests.control_plane.processes import Program, running
from tests.nvml.library import compile_stub
from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of

SOURCE = Path(__file__).parents[1] / "nvml_for_go.c"


@dataclass(frozen=True)
class NvidiaDriver:
    """A running kubelet plugin."""

    cluster: ClaimsCluster
    node: str
    program: Program

    def slices(self) -> list[Manifest]:
        """What it has published, once there is something."""
        found: list[Manifest] = []

        def published() -> bool:
            every = self.cluster.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
            found[:] = [
                each for each in every if (each["spec"]["driver"], each["spec"].get("nodeName")) == (NVIDIA, self.node)
            ]
            return bool(found)

        self.program.wait_until(published)
        return found


@contextmanager
def running_nvidia_driver(
    cluster: ClaimsCluster, executable: Path, node: str, machine: Machine, directory: Path
) -> Iterator[NvidiaDriver]:
    """From its start to the end of the block.

    Args:
        cluster: Where it publishes.
        executable: The kubelet plugin.
        node: Exists already.
        machine: What it finds there.
        directory: Empty; short, because it takes Unix sockets.
    """
    root, library = directory / "root", directory / "root" / "usr" / "lib64"
    compile_stub(library, SOURCE)
    (root / "usr" / "bin").mkdir()
    for name in ("nvidia-smi", "nvidia-cdi-hook"):
        (root / "usr" / "bin" / name).touch(mode=0o755)
    for name in ("cdi", "registry", "plugins"):
        (directory / name).mkdir()
    (directory / "plugins" / NVIDIA).mkdir()
    command: list[str | Path] = [
        executable,
        f"--node-name={node}",
        f"--kubeconfig={cluster.control_plane.kubeconfig}",
        f"--cdi-root={directory / 'cdi'}",
        f"--nvidia-driver-root={root}",
        f"--container-driver-root={root}",
        f"--nvidia-cdi-hook-path={root / 'usr' / 'bin' / 'nvidia-cdi-hook'}",
        f"--kubelet-registrar-directory-path={directory / 'registry'}",
        f"--kubelet-plugins-directory-path={directory / 'plugins'}",
        "--image-name=none",
        "--namespace=default",
        "--healthcheck-port=-1",
    ]
    environment = environment_of(library, write_machine(machine, directory / "machine"))
    with running("gpu-kubelet-plugin", command, directory / "gpu-kubelet-plugin.log", environment) as program:
        yield NvidiaDriver(cluster, node, program)
