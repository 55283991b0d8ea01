"""What a check of an NCCL topology file has found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from webhook.model.errors import shorten


class Severity(StrEnum):
    """What a finding means for a job, worst first."""

    ABORTS = "aborts"
    """NCCL refuses to make a communicator, or crashes."""
    MISREADS = "misreads"
    """NCCL takes the file, but gets another topology than the one that is written there."""
    ADVICE = "advice"
    """NCCL 2.30 reads what is meant; an older release does not, or it holds only under a condition."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong with a file. As text: ``line 3: pci 0000:18:00.0: expected ..., found ...: NCCL ...``."""

    severity: Severity
    line: int
    """From 1."""
    where: str
    """The element, for example ``nvlink of gpu 0000:18:00.0``, or the part of the file."""
    message: str
    """``expected ..., found ...``"""
    consequence: str
    """One sentence: what NCCL does."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}: {self.message}: {self.consequence}"


@dataclass(frozen=True, slots=True)
class GpuEntry:
    """A GPU as the file has it."""

    bus_id: str
    switch_links: int = 0
    """NVLinks that end at NVSwitches."""
    direct_links: tuple[tuple[str, int], ...] = ()
    """NVLinks to other GPUs: bus id as written, and how many."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What NCCL has after it has read a file, before it detects anything itself."""

    elements: int = 0
    """Of the 255 that it can hold."""
    cpus: tuple[str, ...] = ()
    """NUMA ids."""
    gpus: tuple[GpuEntry, ...] = ()
    nics: tuple[str, ...] = ()
    """Bus ids; the names of the ports where a NIC is right below a CPU."""

    @property
    def switch_links(self) -> int:
        """NVLinks of all GPUs that end at NVSwitches."""
        return sum(gpu.switch_links for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one file; its findings stand in the order of their lines."""

    findings: tuple[Diagnostic, ...]
    contents: Contents = Contents()
    """Empty where NCCL takes nothing from the file."""

    @property
    def accepted(self) -> bool:
        """NCCL makes communicators with this file."""
        return all(finding.severity is not Severity.ABORTS for finding in self.findings)

    @property
    def clean(self) -> bool:
        """NCCL gets the topology that the file means."""
        return all(finding.severity is Severity.ADVICE for finding in self.findings)


def quoted(value: str) -> str:
    """``value`` as messages show it: printable, in quotes, and cut."""
    return shorten(value)


def fails(words: str, result: str = "ncclInternalError") -> str:
    """The sentence for an error that NCCL reports itself, with its own words and ``ncclResult_t``."""
    return f'NCCL fails with {result} ("{words}")'


def in_order(findings: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """By line; the worst of a line first."""
    ranks = list(Severity)
    return tuple(sorted(findings, key=lambda finding: (finding.line, ranks.index(finding.severity))))
