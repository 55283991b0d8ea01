"""What this project reads of the machine, beside ``nvidia-smi``; and what NVML answers, raw."""

import subprocess
import time
from collections.abc import Mapping
from ctypes import byref
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from tests.gpu.outcome import Machine, NotTriedError, Outcome, Verdict, holds_if
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import Direction
from webhook.hardware.discovery.field_values import read_fields
from webhook.hardware.discovery.machine import discover
from webhook.hardware.measurement.verdict import NOT_CARRIED
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.matrix import UNKNOWN, matrix
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.readers.recognition import read_topology
from webhook.programs.verify.measure import moved
from webhook.programs.verify.process import Method
from webhook.words.errors import FormatError, GpuTopologyError

_QUERY = ("index", "uuid", "pci.bus_id", "name", "driver_version", "memory.total", "compute_cap")
_SAVED = {
    "nvidia-smi-q.xml": ("nvidia-smi", "-q", "-x"),
    "nvidia-smi-nvlink.txt": ("nvidia-smi", "nvlink", "-s"),
    "nvidia-smi-topo.txt": ("nvidia-smi", "topo", "-m"),
    "kernel.txt": ("uname", "-srmo"),
}
_LINK_FIELDS, _GPU_FIELDS = (138, 139, 140, 141, 202, 204), (91, 197, 198)


def discovery(machine: Machine) -> Outcome:
    """Compare each GPU with what ``nvidia-smi`` says of it, and write the topology for the other steps."""
    for name, command in _SAVED.items():
        (machine.folder / name).write_text(_output(*command), encoding="utf-8")
    try:
        node = discover(node="this-node")
    except GpuTopologyError as error:
        raise NotTriedError(str(error)) from None
    machine.topology_path.write_text(format_topology(node), encoding="utf-8")
    if not node.gpus:
        raise NotTriedError(f"no GPU can be seen: {node.problem or 'NVML lists none'}")
    theirs = _listed(_output("nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"))
    if not theirs:
        raise NotTriedError("nvidia-smi lists no GPU")
    ours = {str(gpu.index): _as_listed(gpu, node) for gpu in node.gpus}
    facts = {"driver": node.driver_version, "cuda": node.cuda_version, "gpus": list(theirs.values())}
    if ours.keys() != theirs.keys():
        return holds_if(False, f"nvidia-smi lists GPUs {', '.join(theirs)}; found {', '.join(ours)}", **facts)
    different = [
        f"GPU {index}: {name} is {ours[index][name]!r} here and {value!r} there"
        for index, each in theirs.items()
        for name, value in each.items()
        if ours[index][name] != value
    ]
    said = (
        f"{len(ours)} x {node.gpus[0].name}, driver {node.driver_version}: {len(_QUERY)} values of each GPU are equal"
    )
    return holds_if(not different, "; ".join(different) or said, **facts)


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}")
        return ""


def _listed(text: str) -> dict[str, dict[str, str]]:
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return {row[0]: dict(zip(_QUERY, row, strict=True)) for row in rows if len(row) == len(_QUERY)}


def _as_listed(gpu: Gpu, node: NodeTopology) -> dict[str, str]:
    domain, rest = gpu.pci_bus_id.split(":", 1)
    values = (
        str(gpu.index),
        gpu.uuid,
        f"{domain:0>8}:{rest}".upper(),
        gpu.name,
        node.driver_version,
        str(gpu.memory_mib),
        gpu.compute_capability,
    )
    return dict(zip(_QUERY, values, strict=True))


def health(machine: Machine) -> Outcome:
    """Say what the agent would call this node. A healthy node must not be called degraded."""
    found = node_health(machine.topology)
    why = "; ".join(map(str, found.findings)) or f"the agent calls the node {found.state}"
    return holds_if(found.state != "degraded", why, state=found.state)


def links(machine: Machine) -> Outcome:
    """Compare the matrix of all GPUs with ``nvidia-smi topo -m``."""
    ours = machine.topology
    path = machine.folder / "nvidia-smi-topo.txt"
    try:
        theirs = read_topology(path.read_text(encoding="utf-8"), node=ours.node, source="nvidia-smi topo -m")
    except (OSError, FormatError) as error:
        raise NotTriedError(str(error)) from None
    here, there = _words(ours), _words(theirs)
    if here.keys() != there.keys():
        return holds_if(False, f"nvidia-smi has {len(there)} cells, and this project {len(here)}")
    known = [pair for pair in here if UNKNOWN not in (here[pair], there[pair])]
    if not known:
        raise NotTriedError("no cell is known on both sides")
    wrong = [
        f"{'-'.join(pair)} is {here[pair]} here and {there[pair]} there" for pair in known if here[pair] != there[pair]
    ]
    return holds_if(not wrong, "; ".join(wrong) or f"{len(known)} of {len(here)} cells are known and equal")


def _words(topology: NodeTopology) -> dict[tuple[str, str], str]:
    found, count = matrix(topology), len(topology.gpus)
    return {
        (row.label, other): word
        for row in found.rows[:count]
        for other, word in zip(found.labels[:count], row.words[:count], strict=True)
        if row.label != other
    }


def counters(machine: Machine) -> Outcome:
    """Read NVML's fields and fabric state as they are, and watch the counters of idle GPUs for some seconds."""
    facts = {"gpus": _raw()}
    reader = CounterReader()
    before = reader.read()
    time.sleep(machine.idle_seconds)
    after = reader.read()
    rose = [moved(before, after, each.uuid, way) for each in before for way in Direction]
    numbers = [number for number in rose if number is not None]
    if not numbers:
        return Outcome(Verdict.SEEN, "no GPU here counts bytes over NVLink", facts)
    most = NOT_CARRIED * Method().copy_bytes
    why = f"at most {max(numbers)} bytes went over NVLink in {machine.idle_seconds:g} s without work"
    return holds_if(max(numbers) <= most, why, **facts)


def _raw() -> list[Any]:
    try:
        pynvml.nvmlInit()
        return [_raw_gpu(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        raise NotTriedError(f"NVML does not start: {error}") from None


def _raw_gpu(handle: Any) -> Mapping[str, Any]:
    numbers = range(pynvml.NVML_NVLINK_MAX_LINKS)
    fields: list[int | tuple[int, int]] = [*_GPU_FIELDS, *((field, link) for field in _LINK_FIELDS for link in numbers)]
    fabric = pynvml.c_nvmlGpuFabricInfo_v2_t()
    p2p = pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED
    return {
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "fabric": _answer(lambda: pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(fabric)))
        or {"state": fabric.state, "status": fabric.status, "healthMask": fabric.healthMask},
        "links": {
            number: {
                "p2p": _answer(lambda n=number: pynvml.nvmlDeviceGetNvLinkCapability(handle, n, p2p)),
                "state": _answer(lambda n=number: pynvml.nvmlDeviceGetNvLinkState(handle, n)),
                "remoteType": _answer(lambda n=number: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, n)),
            }
            for number in numbers
        },
        "fields": [
            {"field": each.field, "scope": each.scope, "error": each.error, "type": each.type, "value": each.value}
            for each in read_fields(handle, fields)
        ],
        "memory": _answer(lambda: str(pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2))),
    }


def _answer(ask: Any) -> Any:
    try:
        return ask()
    except pynvml.NVMLError as error:
        return f"error {error.value}"
