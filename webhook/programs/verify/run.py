"""One run of the measurements: it reads the machine, measures step by step, and makes a report."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from webhook import __version__
from webhook.hardware.discovery.facts import CardUsage
from webhook.hardware.measurement.plan import (
    Plan,
    may_use_nvls,
    nothing_to_measure,
    plan,
    preloaded_libraries,
    telling_names,
    warnings_of,
)
from webhook.hardware.measurement.report import (
    MAX_CARDS,
    MAX_TEXT,
    BandwidthReport,
    Card,
    How,
    Omission,
    Skipped,
    Versions,
    Warn,
)
from webhook.hardware.measurement.verdict import Expectations, judged_pair, judged_set
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.library import explained
from webhook.programs.verify.process import (
    ASK,
    TOLD,
    CudaDevices,
    Failed,
    LookAtCuda,
    LookAtMachine,
    LookAtNccl,
    Machine,
    MeasurePair,
    MeasureSet,
    Method,
    NcclVersion,
    NoLibrary,
    PairMeasured,
    SetMeasured,
    StepLost,
    Supervisor,
)
from webhook.words.errors import GpuTopologyError

PRELOAD = Path("/etc/ld.so.preload")
_OUT_OF_MEMORY = 2
"""``CUDA_ERROR_OUT_OF_MEMORY``."""
_IN_CONTAINERS = "in a container, use NVIDIA's runtime with the driver capability compute (NVIDIA_DRIVER_CAPABILITIES)"


class NothingToMeasure(GpuTopologyError):
    """The error of a machine on which nothing can be measured now; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The options of a run."""

    node: str
    root: Path = Path("/")
    """The directory that has ``/sys`` and ``/proc``: in a container perhaps a mount of the host's root."""
    gpus: tuple[int, ...] = ()
    """The indices of the GPUs to measure; all if empty."""
    force: bool = False
    method: Method = field(default_factory=Method)
    step_seconds: float = 60.0
    all_reduce: bool = True


def measured(
    wanted: Wanted,
    tell: Callable[[str], None] = lambda _: None,
    show: Callable[[BandwidthReport], None] = lambda _: None,
) -> BandwidthReport:
    """Measures this machine, in a process that ends with the call.

    A KeyboardInterrupt ends the measurements, and the report says what is left.

    Args:
        wanted: The options of the run.
        tell: Called with a text before each step, for people who wait.
        show: Called with the report so far after each result.

    Raises:
        NothingToMeasure: there is no pair that can be measured.
    """
    with Supervisor() as supervisor:
        return Run(supervisor, wanted, tell, show).report(datetime.now(UTC))


class Run:
    """One run on this machine.

    Args:
        supervisor: The supervisor of the process that measures.
        wanted: The options of the run.
        tell: Called with a text before each step, for people who wait.
        show: Called with the report so far after each result.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        wanted: Wanted,
        tell: Callable[[str], None],
        show: Callable[[BandwidthReport], None] = lambda _: None,
    ) -> None:
        self._supervisor, self._wanted, self._tell, self._show = supervisor, wanted, tell, show

    def report(self, now: datetime) -> BandwidthReport:
        """Measures, and returns the report.

        Raises:
            NothingToMeasure: there is no pair that can be measured.
        """
        wanted = self._wanted
        topology, usage = machine_here(self._supervisor, wanted.node, wanted.root, wanted.step_seconds)
        if not topology.gpus:
            raise NothingToMeasure(nothing_to_measure(topology, Plan(cards=())))
        if len(topology.gpus) > MAX_CARDS:
            raise NothingToMeasure(f"expected at most {MAX_CARDS} GPUs on a machine, found {len(topology.gpus)}")
        cuda = cuda_here(self._supervisor, wanted.step_seconds)
        chosen = plan(topology, usage=usage, visible=cuda.uuids, asked=wanted.gpus, force=wanted.force)
        reason = nothing_to_measure(topology, chosen)
        if reason:
            raise NothingToMeasure(reason)
        self._report = _empty(wanted, now, topology, usage, cuda.version, chosen)
        left = Omission(cards=list(chosen.cards), reason=Skipped.INTERRUPTED)
        try:
            for _ in self._results(chosen, Expectations(topology)):
                self._show(replace(self._report, skipped=[*self._report.skipped, left]))
        except KeyboardInterrupt:
            self._report.skipped.append(left)
        return self._report

    def _results(self, chosen: Plan, expectations: Expectations) -> Iterator[None]:
        """Measures step by step, adds each result to the report, and yields after it."""
        method, cards = self._wanted.method, list(chosen.cards)
        for source, target in chosen.pairs:
            request = MeasurePair(source=source, target=target, method=method)
            found = self._measured(request, f"{source} to {target}", [source, target])
            if isinstance(found, PairMeasured):
                self._report.pairs.append(judged_pair(found.pair, expectations.pair(source, target)))
            yield
        found = self._measured(LookAtNccl(), "NCCL", []) if self._wanted.all_reduce else None
        if isinstance(found, NoLibrary):
            self._report.warnings.append(Warn.NO_NCCL)
        if not isinstance(found, NcclVersion):
            return
        self._report = replace(self._report, versions=replace(self._report.versions, nccl=found.version))
        expected = expectations.set(cards, nvls=may_use_nvls(os.environ, found.version))
        found = self._measured(MeasureSet(cards=cards, method=method), f"all-reduce of {len(cards)} GPUs", cards)
        if isinstance(found, SetMeasured):
            self._report.sets.append(judged_set(found.together, expected))
        yield

    def _measured(self, request: ASK, what: str, cards: list[str]) -> TOLD | None:
        """Runs a step and returns its answer. A step without a measurement is added to the skipped ones."""
        self._tell(what)
        try:
            found = self._supervisor.ask(request, self._wanted.step_seconds)
        except StepLost as lost:
            self._report.skipped.append(Omission(cards=cards, reason=lost.reason))
            return None
        if isinstance(found, Failed):
            full = found.function.startswith("cu") and found.code == _OUT_OF_MEMORY
            reason, problem = Skipped.NO_MEMORY if full else Skipped.FAILED, found.said or None
            omission = Omission(cards=cards, reason=reason, function=found.function, code=found.code, problem=problem)
            self._report.skipped.append(omission)
        elif isinstance(found, NoLibrary):
            omission = Omission(cards=cards, reason=Skipped.NO_NCCL, problem=found.problem or None)
            self._report.skipped.append(omission)
        return found


def machine_here(
    supervisor: Supervisor, node: str, root: Path, seconds: float
) -> tuple[NodeTopology, dict[str, CardUsage]]:
    """Returns the topology of this machine and the use of its cards by UUID, as NVML and sysfs report them.

    Args:
        supervisor: The supervisor of the process that asks NVML.
        node: Name of the node.
        root: The directory that has ``/sys`` and ``/proc``: in a container perhaps a mount of the host's root.
        seconds: The time limit.

    Raises:
        NothingToMeasure: there is no answer.
    """
    machine = _answer(supervisor, LookAtMachine(node=node, root=str(root)), seconds, "NVML")
    if not isinstance(machine, Machine):
        raise NothingToMeasure(f"this machine cannot be looked at: {machine}")
    return parse_topology(machine.topology, source="this machine"), {one.uuid: one for one in machine.usage}


def cuda_here(supervisor: Supervisor, seconds: float) -> CudaDevices:
    """Returns the version of CUDA here and its devices. Raises NothingToMeasure if there is no answer."""
    cuda = _answer(supervisor, LookAtCuda(), seconds, "CUDA")
    match cuda:
        case CudaDevices():
            return cuda
        case NoLibrary():
            raise NothingToMeasure(cuda.sentence if cuda.problem else f"{cuda.sentence}: {_IN_CONTAINERS}")
        case Failed():
            raise NothingToMeasure(f"CUDA does not start: {explained(cuda.function, cuda.code)}")
        case _:
            raise NothingToMeasure(f"CUDA gives no answer that is known: {cuda}")


def _answer(supervisor: Supervisor, request: ASK, seconds: float, what: str) -> TOLD:
    try:
        return supervisor.ask(request, seconds)
    except StepLost as lost:
        after = f" within {seconds:g} s" if lost.reason is Skipped.TIMED_OUT else ""
        raise NothingToMeasure(f"{what} gives no answer{after} ({lost}): see dmesg and nvidia-smi") from None


def _empty(
    wanted: Wanted,
    now: datetime,
    topology: NodeTopology,
    usage: Mapping[str, CardUsage],
    cuda_version: str,
    chosen: Plan,
) -> BandwidthReport:
    """Returns the report before the first measurement."""
    method, unknown = wanted.method, CardUsage(uuid="")
    try:
        with PRELOAD.open(encoding="utf-8", errors="replace") as file:
            preloaded = preloaded_libraries(file.read(65536))
    except OSError:
        preloaded = []
    return BandwidthReport(
        node=wanted.node,
        time=now.isoformat(timespec="seconds"),
        versions=Versions(tool=__version__, driver=topology.driver_version[:MAX_TEXT] or None, cuda=cuda_version),
        how=How(
            copy_bytes=method.copy_bytes,
            copies=method.copies,
            staged_copies=method.staged_copies,
            samples=method.samples,
            warm_ups=method.warm_ups,
            step_seconds=wanted.step_seconds,
        ),
        environment=telling_names(os.environ),
        preloaded=preloaded,
        cards=[
            Card(
                uuid=gpu.uuid,
                index=gpu.index,
                name=gpu.name[:MAX_TEXT] or None,
                pci_bus_id=gpu.pci_bus_id or None,
                processes=usage.get(gpu.uuid, unknown).processes,
                used_bytes=usage.get(gpu.uuid, unknown).used_bytes,
            )
            for gpu in topology.gpus
            if gpu.uuid
        ],
        pairs=[],
        sets=[],
        skipped=list(chosen.skipped),
        warnings=warnings_of(preloaded),
    )
