"""What NCCL makes of the topology file: in a process with one rank, and with all GPUs of the machine.

NCCL of this Python or of the linker is used, never one that this project brings.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.gpu.gpus import opened
from tests.gpu.outcome import Machine, NotTriedError, Outcome, Verdict, holds_if
from webhook.hardware.measurement.report import CardSet
from webhook.hardware.measurement.verdict import middle, ring_factor
from webhook.hardware.topology.nccl_file import format_nccl_topology
from webhook.programs.verify.library import CallFailed, explained
from webhook.programs.verify.measure import measure_set
from webhook.programs.verify.nccl import Nccl
from webhook.programs.verify.process import Method
from webhook.words.errors import FormatError

SYSTEM_FILE = Path("/etc/nccl.conf")
"""NCCL reads it in any case: src/misc/param.cc."""
AS_FAST = 1.05
"""An all-reduce takes at most so many times as long: it is no slower."""
_QUICK = Method(reduced_bytes=(1024**2, 64 * 1024**2), samples=3, warm_ups=1)
_BROKEN = '<system version="1">\n\t<cpu numaid="0"/>\n</system>\n'
"""NCCL's parser takes no tab: it ends the start of the communicator."""
_OF_CUDA = 1
"""``ncclUnhandledCudaError``, which is not about the file."""
_SWITCHES, _OF_SWITCH = "NVSwitches", "0x068000"
_SET = re.compile(r"NCCL_TOPO_FILE set by environment to (\S+)")
_NOT_OPENED = "Could not open XML topology file"
_BANDWIDTH = re.compile(r"=== System : maxBw (\d+\.\d+) ")


def file_taken(machine: Machine) -> Outcome:
    """Have NCCL of one rank read our topology file, and compare it with the topology that NCCL finds by itself."""
    try:
        text = format_nccl_topology(machine.topology)
    except FormatError as error:
        return holds_if(False, f"no topology file for this machine: {error}")
    machine.file_path.write_text(text, encoding="utf-8")
    version, _ = _start(machine, machine.topology.gpus[0].uuid, file=machine.file_path)
    log = (machine.folder / "nccl.log").read_text(encoding="utf-8", errors="replace")
    bandwidth, given = _BANDWIDTH.search(log), _SET.search(log)
    if bandwidth is None:
        raise NotTriedError(f"NCCL {version} did not say what topology it has")
    if given is None or given[1] != str(machine.file_path):
        return holds_if(False, f"NCCL {version} was not told of the topology file")
    if _NOT_OPENED in log:
        return holds_if(False, f"NCCL {version} did not open the topology file")
    return holds_if(True, f"NCCL {version} read it: {bandwidth[1]} GB/s at most between two GPUs")


def broken_file_refused(machine: Machine) -> Outcome:
    """Have NCCL read a file with a broken element: it has to refuse it, or the other step shows nothing."""
    broken = machine.folder / "broken.xml"
    broken.write_text(_BROKEN, encoding="utf-8")
    try:
        version, _ = _start(machine, machine.topology.gpus[0].uuid, file=broken)
    except CallFailed as error:
        is_refused = error.function == "ncclCommInitAll" and error.code != _OF_CUDA
        return holds_if(is_refused, f"{explained(error.function, error.code)} {error.said}".strip())
    return holds_if(False, f"NCCL {version} started with a file that it cannot read")


def own_topology(machine: Machine) -> Outcome:
    """Compare the links of our file with those that NCCL finds by itself, of as many GPUs as there are."""
    uuids = [gpu.uuid for gpu in machine.topology.gpus]
    version, _ = _start(machine, *uuids, dump=machine.folder / "nccl-dump.xml")
    try:
        ours, theirs = (read_gpus(path.read_text()) for path in (machine.file_path, machine.folder / "nccl-dump.xml"))
    except OSError as error:
        raise NotTriedError(f"{error.filename} was not written") from None
    if not ours or not theirs:
        raise NotTriedError(f"NCCL {version} wrote no GPU of its own")
    found = difference(ours, theirs)
    return holds_if(not found, found or f"NVLinks, C2C and NUMA node of {len(theirs)} GPUs are equal")


def preloaded(machine: Machine) -> Outcome:
    """Start NCCL of one rank with HAMi-core preloaded. No claim rests on whether it starts."""
    if not machine.hami_core:
        raise NotTriedError("no library of HAMi-core: --hami-core FILE")
    done = _apart(machine, machine.topology.gpus[0].uuid, preload=machine.hami_core)
    return Outcome(Verdict.SEEN, f"NCCL of one rank, HAMi-core preloaded: {_said(done)}", {"code": done.returncode})


def all_reduce(machine: Machine) -> Outcome:
    """Reduce over all GPUs without our file and with it."""
    uuids = [gpu.uuid for gpu in machine.topology.gpus]
    if not machine.file_path.is_file():
        raise NotTriedError("no topology file was written")
    plain = _apart(machine, *uuids)
    if plain.returncode:
        raise NotTriedError(f"NCCL of all GPUs does not start without the file: {_said(plain)}")
    told = _apart(machine, *uuids, file=machine.file_path)
    if told.returncode:
        return holds_if(False, f"NCCL of all GPUs starts without the file, and not with it: {_said(told)}")
    with_file, without = float(told.stdout), float(plain.stdout)
    why = f"{with_file:.4g} ms with the topology file, {without:.4g} without"
    return holds_if(with_file <= AS_FAST * without, why, milliseconds={"with": with_file, "without": without})


def _apart(
    machine: Machine, *uuids: str, file: Path | None = None, preload: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Start NCCL and reduce in a process of its own: NCCL reads its variables once. It prints the milliseconds."""
    command = [sys.executable, "-m", "tests.gpu.nccl", str(machine.folder), str(file or ""), *uuids]
    environment = os.environ | ({"LD_PRELOAD": preload} if preload else {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    print(done.stdout, done.stderr)
    return done


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    if not done.returncode:
        return f"it reduces in {float(done.stdout):.3g} ms"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _start(machine: Machine, *uuids: str, file: Path | None = None, dump: Path | None = None) -> tuple[str, CardSet]:
    """Start NCCL of these GPUs in this process and reduce; return its version and the times.

    Raises:
        NotTriedError: there is no NCCL or no CUDA here.
        CallFailed: NCCL refuses something.
    """
    settings = [line for line in _lines(SYSTEM_FILE) if "=" in line and not line.lstrip().startswith("#")]
    if settings:
        raise NotTriedError(f"{SYSTEM_FILE} sets {', '.join(settings)}, so nothing shows NCCL's own choice")
    log = machine.folder / "nccl.log"
    log.unlink(missing_ok=True)
    os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH", "NCCL_DEBUG_FILE": str(log)}
    os.environ |= {"NCCL_TOPO_FILE": str(file)} if file else {}
    os.environ |= {"NCCL_TOPO_DUMP_FILE": str(dump)} if dump else {}
    try:
        nccl = Nccl()
    except OSError as error:
        raise NotTriedError(f"no NCCL: {error}") from None
    return nccl.version(), measure_set(opened(), nccl, uuids, _QUICK)


def _lines(path: Path) -> Sequence[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ()


@dataclass(frozen=True)
class FileGpu:
    """A GPU as a topology file has it."""

    links: Mapping[str, int]
    """NVLinks by their end: the bus id of a GPU, or all NVSwitches together."""
    c2c: int
    numa_node: str


def read_gpus(text: str) -> dict[str, FileGpu]:
    """The GPUs of a topology file by their bus ids (NCCL src/graph/xml.h); none if it is no such file."""
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - written by NCCL or by us in this run
    except ElementTree.ParseError:
        return {}
    return {
        pci.get("busid", "").lower(): _file_gpu(gpu, cpu.get("numaid", ""))
        for cpu in root.iter("cpu")
        for pci in cpu.iter("pci")
        if (gpu := pci.find("gpu")) is not None
    }


def _file_gpu(gpu: ElementTree.Element, numa_node: str) -> FileGpu:
    links = Counter[str]()
    for link in gpu.iter("nvlink"):
        links[_SWITCHES if link.get("tclass") == _OF_SWITCH else link.get("target", "").lower()] += _count(link)
    return FileGpu(links, sum(map(_count, gpu.iter("c2c"))), numa_node)


def _count(element: ElementTree.Element) -> int:
    count = element.get("count", "")
    return int(count) if count.isdecimal() else 0


def difference(ours: Mapping[str, FileGpu], theirs: Mapping[str, FileGpu]) -> str:
    """The first difference, in a clause; empty if there is none. NCCL leaves out GPUs without a rank, with their links.

    A GPU at rest trains its PCIe link down, so speeds are not compared.
    """
    for bus_id, gpu in theirs.items():
        own = ours.get(bus_id)
        if own is None:
            return f"our file has no GPU {bus_id}"
        for target in sorted({*own.links, *gpu.links} & {*theirs, _SWITCHES}):
            here, there = own.links.get(target, 0), gpu.links.get(target, 0)
            if here != there:
                return f"{bus_id} has {here} NVLinks to {target} here, and {there} as NCCL finds"
        if (own.c2c, own.numa_node) != (gpu.c2c, gpu.numa_node):
            here_, there_ = (f"{each.c2c} C2C links and NUMA node {each.numa_node}" for each in (own, gpu))
            return f"{bus_id} has {here_} here, {there_} as NCCL finds"
    return ""


def main(folder: str, file: str, *uuids: str) -> None:
    """Print the milliseconds of an all-reduce of these GPUs, with or without a topology file."""
    try:
        _, measured = _start(Machine(Path(folder)), *uuids, file=Path(file) if file else None)
    except NotTriedError as reason:
        sys.exit(str(reason))
    except CallFailed as error:
        sys.exit(f"{explained(error.function, error.code)} {error.said}".strip())
    busbw = middle(measured.samples_gbps)
    print(measured.reduced_bytes * ring_factor(len(uuids)) / busbw / 1e6 if busbw else 0.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
