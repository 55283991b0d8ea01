"""What NVIDIA's container toolkit makes of a node for CDI is what we take for granted of it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.go_programs.catalogue import NVIDIA_CTK
from tests.go_programs.left_out import GetProgram, LeaveOut
from tests.hardware.topology import machines as topologies
from tests.nvml.driver_root import make_driver_root
from tests.nvml.library import LIBRARY, compile_stub
from tests.nvml.machines import hgx_h100, write_machine
from tests.nvml.stub import environment_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SOURCE = Path(__file__).with_name("nvml_for_go.c")
UUIDS = [gpu.uuid for gpu in topologies.hgx_h100().gpus]


@pytest.fixture(scope="module")
def specification(
    go_program: GetProgram, leave_out: LeaveOut, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Of eight H100, with each card by its index and by its UUID."""
    program, directory = go_program(NVIDIA_CTK), tmp_path_factory.mktemp("cdi")
    if os.geteuid() != 0:
        leave_out("root", "a driver has device nodes")
    machine = hgx_h100()
    compile_stub(directory / "library", SOURCE)
    root = make_driver_root(directory / "driver", machine, directory / "library" / LIBRARY)
    options = ["--mode=nvml", f"--driver-root={root}", f"--dev-root={root}", "--format=json"]
    strategies = ["--device-name-strategy=index", "--device-name-strategy=uuid"]
    done = subprocess.run(
        [program, "cdi", "generate", *options, *strategies],
        env=environment_of(root / "usr" / "lib64", write_machine(machine, directory / "machine")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def nodes(edits: dict[str, Any]) -> list[str]:
    return [node["path"] for node in edits.get("deviceNodes", [])]


def test_devices_are_named_by_index_and_uuid_and_are_those_that_discovery_finds(specification: dict[str, Any]) -> None:
    devices = {device["name"]: nodes(device["containerEdits"]) for device in specification["devices"]}
    assert specification["kind"] == "nvidia.com/gpu"
    assert list(devices) == [*map(str, range(8)), *UUIDS, "all"]
    for gpu in topologies.hgx_h100().gpus:
        assert devices[gpu.uuid] == devices[str(gpu.index)] == [f"/dev/nvidia{gpu.minor}"]
    assert devices["all"] == [f"/dev/nvidia{minor}" for minor in range(8)]


def test_a_container_by_cdi_no_longer_has_a_list_of_its_own(specification: dict[str, Any]) -> None:
    # So the webhook refuses peer profiles where devices come by CDI (docs/troubleshooting.md#known-limits).
    assert "NVIDIA_VISIBLE_DEVICES=void" in specification["containerEdits"]["env"]


def test_every_container_by_cdi_gets_the_library_that_remap_asks(specification: dict[str, Any]) -> None:
    edits = specification["containerEdits"]
    assert "/dev/nvidiactl" in nodes(edits)
    assert [mount for mount in edits["mounts"] if "libnvidia-ml.so." in mount["containerPath"]]
