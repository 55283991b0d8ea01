"""Whatever NVML refuses: no driver, an old one, a function that fails. Nothing is raised, and what is known stays."""

import ctypes
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.topology import machines as topologies
from tests.nvml.library import LIBRARY
from tests.nvml.machines import a100_pcie_bridged, gb200_tray, h20, write_machine
from tests.nvml.stub import Play, environment_of, without_library
from webhook.hardware.discovery.machine import discover
from webhook.hardware.discovery.usage import read_usage
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology, NvLink, Pcie

PROGRAM = """
import ctypes, sys
from pathlib import Path
from webhook.hardware.discovery.machine import discover

def show():
    topology = discover(node="n", root=Path(sys.argv[1]))
    print(len(topology.gpus), topology.problem)

show()
for library in sys.argv[2:]:
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    show()
"""


def in_a_process(environment: dict[str, str], *arguments: Path) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


MISMATCH = (
    "the kernel module of the NVIDIA driver and libnvidia-ml.so.1 are of different versions, as after an update: "
    "load the module anew or restart the node, then restart this program"
)
NOT_HERE = (
    "0 libnvidia-ml.so.1 is not here: install the NVIDIA driver or, in a container, "
    "use NVIDIA's runtime with the driver capability utility or, where the GPU Operator's NRI plugin stands in for "
    "that runtime, ask it by an annotation of the pod (nvidia.cdi.k8s.io/container.NAME)"
)

# The driver


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (9, "the NVIDIA driver is not loaded: see dmesg, and load it with modprobe nvidia"),
        (18, MISMATCH),
        (4, "the NVIDIA driver does not let this process in: it must be able to open /dev/nvidiactl"),
        (13, "the NVIDIA driver is too old: install a current one"),
        (999, "NVML does not start: Unknown Error. See dmesg and nvidia-smi"),
        (8, "NVML does not start: Insufficient External Power. See dmesg and nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_leaves_what_sysfs_tells_and_says_what_to_do(
    code: int, problem: str, play: Play
) -> None:
    found = discover(node="a100-pcie", root=play(a100_pcie_bridged().with_lines(f"error nvmlInitWithFlags {code}")))
    assert found == NodeTopology(
        node="a100-pcie", source="nvml", problem=problem, cpus=topologies.a100_pcie_bridged().cpus
    )


def test_without_a_description_the_stub_is_a_machine_without_a_driver(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(h20())
    monkeypatch.delenv("NVML_STUB_MACHINE")
    problem = "the NVIDIA driver is not loaded: see dmesg, and load it with modprobe nvidia"
    assert discover(node="n", root=tmp_path) == NodeTopology(node="n", source="nvml", problem=problem)


def test_a_driver_without_a_gpu_says_so(play: Play) -> None:
    found = discover(node="n", root=play(replace(h20(), cards=(), numa_nodes=(), nics=())))
    assert found == NodeTopology(
        node="n",
        source="nvml",
        driver_version="570.133.20",
        cuda_version="12.8",
        problem="the NVIDIA driver lists no GPU: see lspci and dmesg and, in a container, NVIDIA_VISIBLE_DEVICES",
    )


def test_a_driver_that_cannot_count_its_gpus_is_a_problem(play: Play) -> None:
    found = discover(node="n", root=play(a100_pcie_bridged().with_lines("error nvmlDeviceGetCount_v2 999")))
    assert found.problem == "NVML gives no answer: Unknown Error. See dmesg and nvidia-smi"
    assert found.gpus == ()


@pytest.mark.parametrize("said", [65, 1_000, 2**31, 2**32 - 1])
def test_a_driver_with_more_gpus_than_any_machine_is_not_asked_card_by_card(
    said: int, play: Play, nvml_library: Path
) -> None:
    calls = ctypes.CDLL(str(nvml_library / LIBRARY))
    calls.nvml_stub_calls.restype = ctypes.c_ulong
    root = play(h20().with_lines(f"count {said}"))
    before = calls.nvml_stub_calls()
    found, used = discover(node="n", root=root), read_usage()
    assert calls.nvml_stub_calls() - before < 10
    assert (found.gpus, found.lost, used) == ((), (), ())
    assert found.problem == (
        f'nvmlDeviceGetCount of the NVIDIA driver: expected at most 64 GPUs, found "{said}". '
        "No machine has so many: compare nvidia-smi -L with lspci, and see dmesg"
    )


def test_a_driver_with_as_many_gpus_as_a_topology_may_have_is_asked_for_each(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_lines("count 64")))
    assert len(found.gpus) == 8
    assert len(found.lost) == 56


def test_a_driver_that_went_away_is_seen_again_when_it_is_back(play: Play) -> None:
    gone = h20().with_lines("error nvmlInitWithFlags 9")
    before = discover(node="h20-node-1", root=play(h20()))
    between = discover(node="h20-node-1", root=play(gone))
    after = discover(node="h20-node-1", root=play(h20()))
    assert between.problem.startswith("the NVIDIA driver is not loaded")
    assert before == after == topologies.h20()


def test_a_machine_without_the_library_says_what_to_install(tmp_path: Path) -> None:
    assert in_a_process(environment_of(without_library(tmp_path)), tmp_path) == [NOT_HERE]


@pytest.mark.slow
def test_a_library_that_was_missing_once_is_found_when_it_is_there(tmp_path: Path, nvml_library: Path) -> None:
    description = write_machine(h20(), tmp_path / "h20")
    environment = environment_of(without_library(tmp_path), description)
    first, second = in_a_process(environment, tmp_path / "h20", nvml_library / LIBRARY)
    assert first.startswith("0 libnvidia-ml.so.1 is not here")
    assert second == "8 "


@pytest.mark.slow
def test_a_process_of_its_own_finds_the_library_by_its_path(tmp_path: Path, nvml_library: Path) -> None:
    description = write_machine(gb200_tray(), tmp_path / "tray")
    assert in_a_process(environment_of(nvml_library, description), tmp_path / "tray") == ["4 "]


# Functions

EVERY_ERROR = (1, 2, 3, 4, 13, 999)


FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("nvmlDeviceGetName", {"name": ""}),
    ("nvmlDeviceGetMinorNumber", {"minor": None}),
    ("nvmlDeviceGetMemoryInfo", {"memory_mib": 0}),
    ("nvmlDeviceGetMigMode", {"mig_mode": MigMode.UNSUPPORTED}),
    ("nvmlDeviceGetMaxPcieLinkGeneration", {}),
    ("nvmlDeviceGetMaxPcieLinkWidth", {}),
    ("nvmlDeviceGetCpuAffinity", {}),
    ("nvmlDeviceGetNumaNodeId", {}),
    ("nvmlDeviceGetGpuFabricInfoV", {}),
    ("nvmlDeviceGetFieldValues", {"c2c": None}),
    ("nvmlDeviceGetNvLinkState", {}),
    ("nvmlDeviceGetNvLinkRemoteDeviceType", {}),
    ("nvmlDeviceGetNvLinkRemotePciInfo_v2", {}),
    ("nvmlDeviceGetCudaComputeCapability", {"compute_capability": "", "c2c": None}),
    ("nvmlDeviceGetP2PStatus", {}),
    ("nvmlDeviceGetTopologyCommonAncestor", {}),
]
"""What each function tells of a card, as the topology without it."""


@pytest.mark.slow
def test_a_function_that_fails_for_one_gpu_costs_only_what_it_would_have_told(
    play: Play, subtests: pytest.Subtests
) -> None:
    for (function, changes), code in product(FUNCTIONS, EVERY_ERROR):
        with subtests.test(function, code=code):
            found = discover(node="gb200-tray", root=play(gb200_tray().with_error(2, function, code)))
            assert found == topologies.bent(topologies.gb200_tray(), 2, **changes)


@pytest.mark.parametrize("code", [2, 3])
def test_links_without_capabilities_are_there_and_not_up(code: int, play: Play) -> None:
    machine = a100_pcie_bridged().with_error(2, "nvmlDeviceGetNvLinkCapability", code)
    found = discover(node="a100-pcie", root=play(machine))
    down = (NvLink(target="GPU3", count=12, active=0),)
    assert found == topologies.bent(topologies.a100_pcie_bridged(), 2, nvlinks=down)


@pytest.mark.parametrize("code", [1, 4, 13, 999])
def test_links_whose_capabilities_cannot_be_asked_count(code: int, play: Play) -> None:
    found = discover(node="gb200-tray", root=play(gb200_tray().with_error(2, "nvmlDeviceGetNvLinkCapability", code)))
    assert found == topologies.gb200_tray()


@pytest.mark.parametrize("code", [2, 3, 13])
def test_a_gpu_without_a_uuid_is_there(code: int, play: Play) -> None:
    found = discover(node="h20-node-1", root=play(h20().with_error(4, "nvmlDeviceGetUUID", code)))
    assert found == topologies.bent(topologies.h20(), 4, uuid="")


@pytest.mark.parametrize("code", EVERY_ERROR)
def test_versions_that_nvml_does_not_tell_are_empty(code: int, play: Play) -> None:
    functions = ("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion")
    machine = gb200_tray().with_lines(*(f"error {function} {code}" for function in functions))
    found = discover(node="gb200-tray", root=play(machine))
    assert found == replace(topologies.gb200_tray(), driver_version="", cuda_version="")


def test_an_old_driver_has_no_fabric_no_fields_and_no_mig(play: Play) -> None:
    missing = ["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode"]
    found = discover(node="h20-node-1", root=play(h20().with_lines(*(f"error {name} 13" for name in missing))))
    gpus = tuple(replace(gpu, mig_mode=MigMode.UNSUPPORTED) for gpu in topologies.h20().gpus)
    assert found == replace(topologies.h20(), fabric=None, gpus=gpus)


def test_a_gpu_that_tells_only_its_uuid_is_one(play: Play, tmp_path: Path) -> None:
    machine = a100_pcie_bridged()
    everything = [
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "nvmlDeviceGetNvLinkCapability",
        "nvmlDeviceGetNvLinkState",
    ]
    play(machine.with_card(0, lines=tuple(f"error {name} 3" for name in everything)).with_card(1, links=()))
    found = discover(node="n", root=tmp_path / "nothing")
    assert found.gpus[0] == Gpu(index=0, uuid="GPU-00000000-0000-0000-0000-000000000000")
    assert found.gpus[1].pcie == Pcie(generation=4, width=16)
