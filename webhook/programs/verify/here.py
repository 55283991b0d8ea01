"""The state of this machine before a measurement or a trial."""

from dataclasses import dataclass
from pathlib import Path

from webhook.hardware.discovery.facts import CardUsage
from webhook.hardware.measurement.messages import (
    ASK,
    TOLD,
    CudaDevices,
    Failed,
    LookAtCuda,
    LookAtMachine,
    Machine,
    NoLibrary,
)
from webhook.hardware.measurement.plan import Plan, nothing_to_measure
from webhook.hardware.measurement.report import MAX_CARDS
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.errors import explained
from webhook.programs.verify.supervisor import TIMED_OUT, StepLost, Supervisor
from webhook.words.errors import GpuTopologyError


class NothingToMeasure(GpuTopologyError):
    """The error of a machine on which nothing can be measured or tried now; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Here:
    """What NVML and CUDA say of this machine."""

    topology: NodeTopology
    usage: dict[str, CardUsage]
    cuda: CudaDevices


def look(supervisor: Supervisor, node: str, root: Path, seconds: float) -> Here:
    """Reads this machine, in the process of the supervisor.

    Args:
        supervisor: The supervisor of the process that asks NVML and CUDA.
        node: Name of the node.
        root: The directory that has ``/sys`` and ``/proc``: in a container perhaps a mount of the host's root.
        seconds: The time limit of each of the two.

    Raises:
        NothingToMeasure: one of them gives no answer, or there are no GPUs, or too many.
    """
    machine = _answer(supervisor, LookAtMachine(node=node, root=str(root)), seconds, "NVML")
    if not isinstance(machine, Machine):
        raise NothingToMeasure(f"this machine cannot be looked at: {machine}")
    topology = parse_topology(machine.topology, source="this machine")
    if not topology.gpus:
        raise NothingToMeasure(nothing_to_measure(topology, Plan(cards=())))
    if len(topology.gpus) > MAX_CARDS:
        raise NothingToMeasure(f"expected at most {MAX_CARDS} GPUs on a machine, found {len(topology.gpus)}")
    cuda = _answer(supervisor, LookAtCuda(), seconds, "CUDA")
    if not isinstance(cuda, CudaDevices):
        raise NothingToMeasure(_no_cuda(cuda))
    return Here(topology=topology, usage={one.uuid: one for one in machine.usage}, cuda=cuda)


def _answer(supervisor: Supervisor, request: ASK, seconds: float, what: str) -> TOLD:
    try:
        return supervisor.ask(request, seconds)
    except StepLost as lost:
        after = f" within {seconds:g} s" if str(lost) == TIMED_OUT else ""
        raise NothingToMeasure(f"{what} gives no answer{after} ({lost}): see dmesg and nvidia-smi") from None


def _no_cuda(told: TOLD) -> str:
    if isinstance(told, NoLibrary):
        advice = "in a container, use NVIDIA's runtime with the driver capability compute (NVIDIA_DRIVER_CAPABILITIES)"
        return told.sentence if told.problem else f"{told.sentence}: {advice}"
    return f"CUDA does not start: {explained(told.function, told.code)}" if isinstance(told, Failed) else str(told)
