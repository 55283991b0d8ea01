"""The slices that the tests publish are those of NVIDIA's real driver."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.claims.cluster import ClaimsCluster
from tests.control_plane.claims.drivers import NVIDIA, Manifest, nvidia_slices
from tests.control_plane.processes import Program, running
from tests.go_programs.catalogue import NVIDIA_DRA_DRIVER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import h20
from tests.nvml import machines
from tests.nvml.library import compile_stub
from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

OF_REAL_HARDWARE = "resource.kubernetes.io/pcieRoot"
"""Read from the sysfs of the machine, which has no such cards."""


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


def test_its_slice_is_that_of_the_tests_in_another_order(claims_cluster: ClaimsCluster, go_program: GetProgram) -> None:
    executable = go_program(NVIDIA_DRA_DRIVER)
    topology = h20()
    # Not tmp_path: the path of a Unix socket has at most 107 characters.
    with (
        tempfile.TemporaryDirectory(prefix="dra-") as directory,
        claims_cluster.node(topology.node),
        running_nvidia_driver(claims_cluster, executable, topology.node, machines.h20(), Path(directory)) as driver,
    ):
        (found,) = driver.slices()
    (ours,) = nvidia_slices(topology)
    assert found["spec"]["pool"] == ours["spec"]["pool"]
    assert by_name(found) == by_name(ours)


def by_name(one: Manifest) -> dict[str, Any]:
    devices = {}
    for device in one["spec"]["devices"]:
        attributes = {key: value for key, value in device["attributes"].items() if key != OF_REAL_HARDWARE}
        devices[device["name"]] = device | {"attributes": attributes}
    return devices
