"""The file ``report.txt``: the result of the verification, for people."""

from collections.abc import Iterator, Sequence

from webhook.decisions.resolve.node import Origin
from webhook.decisions.resolve.resolve import Resolution
from webhook.hardware.topology.matrix import matrix
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.sets import GpuSet
from webhook.programs.remap.inputs import Inputs
from webhook.programs.remap.verdict import Verdict
from webhook.words.printable import printable

_MARK = "*"
_SHORT = len("GPU-b0c5b618")
_ORIGINS = {
    Origin.NVML: "as NVML sees it",
    Origin.AGENT: "as the agent published it",
    Origin.HAMI: "as HAMi describes it",
}


def one_line(text: str) -> str:
    """Escapes every character that a terminal or a log may misread."""
    return printable(text).encode("ascii", "backslashreplace").decode()


def format_report(inputs: Inputs, verdict: Verdict, *, warnings: Sequence[str] = ()) -> str:
    """Returns the report, whose first line is the reason.

    Args:
        inputs: The inputs of the program.
        verdict: The verdict on them.
        warnings: Warnings in addition to those of the verdict.
    """
    lines = [verdict.reason, "", *_situation(inputs, verdict)]
    if verdict.resolution:
        lines += ["", *_containers(verdict.resolution), "", *_sets(verdict.resolution)]
    lines += ["", *_checks(verdict, warnings)]
    if verdict.node and verdict.node.topology.gpus:
        own = verdict.resolution.gpus if verdict.resolution else ()
        lines += ["", *_matrix(verdict.node.topology, own)]
    return "".join(f"{one_line(line)}\n" for line in lines)


def _situation(inputs: Inputs, verdict: Verdict) -> Iterator[str]:
    yield f"profile    {inputs.profile}, GPUs given by {inputs.scheduler}"
    yield f"node       {inputs.node}" + (f", {_ORIGINS[verdict.node.origin]}" if verdict.node else "")
    if verdict.node and verdict.node.topology.driver_version:
        topology = verdict.node.topology
        yield f"driver     {topology.driver_version}" + (
            f", CUDA {topology.cuda_version}" * bool(topology.cuda_version)
        )


def _containers(resolution: Resolution) -> list[str]:
    rows: list[Sequence[str]] = [("container", "GPU", "CUDA", "UUID", "PCI bus id", "NUMA")]
    for given in resolution.containers:
        numbers = given.cuda_indices or range(len(given.gpus))
        rows += [(given.container.name, *_row(gpu, number)) for gpu, number in zip(given.gpus, numbers, strict=True)]
    return _table(rows)


def _row(gpu: Gpu, number: int) -> tuple[str, ...]:
    """Returns the cells of one GPU. Its number is CUDA's index among the GPUs that the container sees."""
    numa = "" if gpu.numa_node is None else str(gpu.numa_node)
    return gpu.label, str(number), gpu.uuid, gpu.pci_bus_id, numa


def _sets(resolution: Resolution) -> Iterator[str]:
    for gpu_set in resolution.sets:
        yield f"link       {resolution.node.doubt(gpu_set) or _set(gpu_set)}"


def _set(gpu_set: GpuSet) -> str:
    members = " ".join(f"GPU{index}" for index in gpu_set.gpus)
    if gpu_set.weakest is None:
        return f"{members}: {gpu_set.link}"
    first, second = gpu_set.weakest.gpus
    weakest = f"{gpu_set.bandwidth_text} GB/s per direction between GPU{first} and GPU{second}, the weakest pair"
    return f"{members}: {gpu_set.link}, {weakest}; ring {' '.join(map(str, gpu_set.ring))}"


def _checks(verdict: Verdict, warnings: Sequence[str]) -> Iterator[str]:
    yield "Checks"
    for finding in verdict.findings:
        yield f"  {finding.state:8} {finding.text}"
    for text in warnings:
        yield f"  {'warning':8} {text}"


def _matrix(topology: NodeTopology, own: Sequence[Gpu]) -> list[str]:
    marked = {gpu.label for gpu in own}
    found = matrix(topology)
    short = {gpu.label: gpu.uuid[:_SHORT] for gpu in topology.gpus}
    rows: list[Sequence[str]] = [("", *(_marked(label, marked) for label in found.labels), "")]
    rows += [(_marked(row.label, marked), *row.words, short.get(row.label, "")) for row in found.rows]
    nics = [f"  {label} is {name}" for label, name in found.nics]
    title = f"Matrix, as nvidia-smi topo -m writes it; {_MARK} is a GPU of this pod" if own else "Matrix"
    return [title, *_table(rows), *nics]


def _marked(label: str, marked: set[str]) -> str:
    return label + _MARK * (label in marked)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
