"""The remap program finds the cards of a pod by their UUIDs over every NVML, that of the stub and those of others.

Every card of the machine is shown: which of them a container sees is the work of NVIDIA's runtime, and only the stub
plays that too.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.go_programs.run_apart import ROOT
from tests.nvml.any_driver import AnyMachine
from tests.programs.remap.pods import allocated
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.remap.verdict import ExitCode

pytestmark = pytest.mark.any_driver


@pytest.fixture
def seen(any_machine: AnyMachine) -> NodeTopology:
    return discover(node="node-1", root=any_machine.root)


def uuids_of(seen: NodeTopology) -> list[str]:
    """In the order of CUDA, which is that of the bus ids; some libraries of others list their cards in another."""
    return [gpu.uuid for gpu in sorted(seen.gpus, key=lambda gpu: gpu.pci_bus_id)]


def pair(seen: NodeTopology) -> dict[str, str]:
    """The variables of a pod with two containers that see every card and have one each: the first and the last."""
    uuids, numbers = uuids_of(seen), ("0", str(len(seen.gpus) - 1))
    return {
        "CUDA_DISABLE_CONTROL": "true",
        "GPU_TOPOLOGY_PROFILE": "node-peers",
        "GPU_TOPOLOGY_REQUIRE_NVLINK": "false",
        "GPU_TOPOLOGY_NODE_NAME": "node-1",
        "GPU_TOPOLOGY_ALLOCATION": allocated([uuids[0]], [uuids[-1]]),
        "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(seen),
        "GPU_TOPOLOGY_CONTAINERS": "prefill:1:0,decode:1:1",
        "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": numbers[0],
        "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_1": numbers[1],
    }


def remap(machine: AnyMachine, directory: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Exit code, and the termination message."""
    log = directory / "termination-log"
    log.touch()
    (directory / "shared").mkdir(exist_ok=True)
    options = ["--directory", directory / "shared", "--termination-log", log, "--root", machine.root]
    done = subprocess.run(
        [sys.executable, "-m", "webhook", "remap", *map(str, options)],
        env={**machine.environment, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, log.read_text()


def test_a_pod_whose_indices_are_those_of_its_cards_starts(
    any_machine: AnyMachine, seen: NodeTopology, tmp_path: Path
) -> None:
    assert remap(any_machine, tmp_path, pair(seen)) == (ExitCode.TRUE, "")
    assert (tmp_path / "shared" / "nccl-topo.xml").read_text().startswith('<system version="1">')


def test_a_pod_whose_indices_are_those_of_other_cards_does_not_start(
    any_machine: AnyMachine, seen: NodeTopology, tmp_path: Path
) -> None:
    swapped = pair(seen) | {"GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": "1"}
    code, reason = remap(any_machine, tmp_path, swapped)
    assert code == ExitCode.OTHER_GPUS
    assert all(uuid in reason for uuid in uuids_of(seen)[:2])


def test_a_pod_with_a_card_that_is_not_there_does_not_start(
    any_machine: AnyMachine, seen: NodeTopology, tmp_path: Path
) -> None:
    strange = "GPU-ffffffff-ffff-4fff-8fff-ffffffffffff"
    variables = pair(seen) | {"GPU_TOPOLOGY_ALLOCATION": allocated([uuids_of(seen)[0]], [strange])}
    code, reason = remap(any_machine, tmp_path, variables)
    assert code not in (ExitCode.TRUE, 0)
    assert strange in reason
