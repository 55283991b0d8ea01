"""One run of the measurements: it reads the machine, measures step by step, and makes a report."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from webhook import __version__
from webhook.hardware.discovery.facts import CardUsage
from webhook.hardware.measurement.expectations import Expectations
from webhook.hardware.measurement.judgements import judged_pair, judged_set
from webhook.hardware.measurement.messages import (
    ASK,
    TOLD,
    Failed,
    LookAtNccl,
    MeasurePair,
    MeasureSet,
    Method,
    NcclVersion,
    NoLibrary,
    PairMeasured,
    SetMeasured,
)
from webhook.hardware.measurement.plan import Plan, nothing_to_measure, plan
from webhook.hardware.measurement.report import (
    MAX_TEXT,
    BandwidthReport,
    Card,
    CardSet,
    How,
    Omission,
    Pair,
    Skipped,
    Versions,
    Warn,
)
from webhook.hardware.measurement.surroundings import may_use_nvls, preloaded_libraries, telling_names, warnings_of
from webhook.hardware.topology.model import Gpu
from webhook.programs.verify.here import Here, NothingToMeasure, look
from webhook.programs.verify.supervisor import StepLost, Supervisor

PRELOAD = Path("/etc/ld.so.preload")
_OUT_OF_MEMORY = 2
"""``CUDA_ERROR_OUT_OF_MEMORY``."""


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
        self._pairs: list[Pair] = []
        self._sets: list[CardSet] = []
        self._nccl_version: str | None = None
        self._skipped: list[Omission] = []
        self._warnings: list[Warn] = []

    def report(self, now: datetime) -> BandwidthReport:
        """Measures, and returns the report.

        Raises:
            NothingToMeasure: there is no pair that can be measured.
        """
        here = look(self._supervisor, self._wanted.node, self._wanted.root, self._wanted.step_seconds)
        chosen = self._plan(here)
        self._skipped += chosen.skipped
        preloaded = preloaded_libraries(_text(PRELOAD))
        self._warnings += warnings_of(preloaded)

        def so_far(left: list[Omission]) -> BandwidthReport:
            return self._report(here, preloaded, now, left)

        rest = [Omission(cards=list(chosen.cards), reason=Skipped.INTERRUPTED)]
        try:
            for _ in self._results(chosen, Expectations(here.topology)):
                self._show(so_far(rest))
        except KeyboardInterrupt:
            return so_far(rest)
        return so_far([])

    def _results(self, chosen: Plan, expectations: Expectations) -> Iterator[None]:
        """Measures step by step, and yields after each result."""
        for ends in chosen.pairs:
            found = self._pair(*ends, expectations)
            self._pairs += [found] if found else []
            yield
        self._nccl_version = self._nccl() if self._wanted.all_reduce else None
        if self._nccl_version:
            together = self._set(chosen.cards, expectations, self._nccl_version)
            self._sets += [together] if together else []
            yield

    def _report(self, here: Here, preloaded: list[str], now: datetime, left: list[Omission]) -> BandwidthReport:
        return BandwidthReport(
            node=self._wanted.node,
            time=now.isoformat(timespec="seconds"),
            versions=Versions(
                tool=__version__,
                driver=here.topology.driver_version[:MAX_TEXT] or None,
                cuda=here.cuda.version,
                nccl=self._nccl_version,
            ),
            how=_how(self._wanted),
            environment=telling_names(os.environ),
            preloaded=preloaded,
            cards=_cards(here),
            pairs=[*self._pairs],
            sets=[*self._sets],
            skipped=[*self._skipped, *left],
            warnings=[*self._warnings],
        )

    def _plan(self, here: Here) -> Plan:
        wanted = self._wanted
        chosen = plan(here.topology, usage=here.usage, visible=here.cuda.uuids, asked=wanted.gpus, force=wanted.force)
        reason = nothing_to_measure(here.topology, chosen)
        if reason:
            raise NothingToMeasure(reason)
        return chosen

    def _pair(self, source: str, target: str, expectations: Expectations) -> Pair | None:
        found = self._measured(MeasurePair(source=source, target=target, method=self._wanted.method), [source, target])
        if not isinstance(found, PairMeasured):
            return None
        return judged_pair(source, target, found, expectations.pair(source, target))

    def _nccl(self) -> str | None:
        found = self._measured(LookAtNccl(), [])
        if isinstance(found, NcclVersion):
            return found.version
        if isinstance(found, NoLibrary):
            self._warnings.append(Warn.NO_NCCL)
        return None

    def _set(self, cards: tuple[str, ...], expectations: Expectations, version: str) -> CardSet | None:
        found = self._measured(MeasureSet(cards=list(cards), method=self._wanted.method), list(cards))
        if not isinstance(found, SetMeasured):
            return None
        return judged_set(cards, found, expectations.set(cards, nvls=may_use_nvls(os.environ, version)))

    def _measured(self, request: ASK, cards: list[str]) -> TOLD | None:
        """Runs a step and returns its answer. A step without a measurement is added to the skipped ones."""
        self._tell(_said(request))
        try:
            found = self._supervisor.ask(request, self._wanted.step_seconds)
        except StepLost as lost:
            self._skipped.append(Omission(cards=cards, reason=Skipped(str(lost))))
            return None
        if isinstance(found, Failed):
            full = found.function.startswith("cu") and found.code == _OUT_OF_MEMORY
            reason = Skipped.NO_MEMORY if full else Skipped.FAILED
            self._skipped.append(
                Omission(
                    cards=cards, reason=reason, function=found.function, code=found.code, problem=found.said or None
                )
            )
        elif isinstance(found, NoLibrary):
            self._skipped.append(Omission(cards=cards, reason=Skipped.NO_NCCL, problem=found.problem or None))
        return found


def _said(request: ASK) -> str:
    match request:
        case MeasurePair():
            return f"{request.source} to {request.target}"
        case MeasureSet():
            return f"all-reduce of {len(request.cards)} GPUs"
        case _:
            return "NCCL"


def _how(wanted: Wanted) -> How:
    method = wanted.method
    return How(
        copy_bytes=method.copy_bytes,
        copies=method.copies,
        staged_copies=method.staged_copies,
        samples=method.samples,
        warm_ups=method.warm_ups,
        step_seconds=wanted.step_seconds,
    )


def _cards(here: Here) -> list[Card]:
    unknown = CardUsage(uuid="")
    return [_card(gpu, here.usage.get(gpu.uuid, unknown)) for gpu in here.topology.gpus if gpu.uuid]


def _card(gpu: Gpu, usage: CardUsage) -> Card:
    return Card(
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name[:MAX_TEXT] or None,
        pci_bus_id=gpu.pci_bus_id or None,
        processes=usage.processes,
        used_bytes=usage.used_bytes,
    )


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""
