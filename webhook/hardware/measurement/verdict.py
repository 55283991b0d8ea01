"""The verdicts: which way the bytes took, and whether they were as fast as the topology lets expect.

Success of a copy proves nothing: CUDA copies through the memory of the host where cards cannot reach each other, and
PCIe can be as fast as one old NVLink. What proves a way are the counters of NVLink, before and after; a rate alone does
so only well above what PCIe can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from webhook.hardware.measurement.expectations import Expected
from webhook.hardware.measurement.report import Verdict, Warn

CARRIED, NOT_CARRIED = 0.9, 0.1
"""Shares of the bytes that NVLink must have moved, and may have moved without having carried them: it also carries what
cards tell each other besides."""
CARRIED_OF_SET = 0.4
"""Share of what a ring sends. In a reduction by the NVSwitches (NVLS) a card sends about half as much."""
ABOVE_PCIE = 1.3
"""Times the figure of PCIe. A slot of generation 4 has 24 GB/s by NCCL's reckoning, and 26.3 were measured."""
PAIR_SHARE, SWITCHED_SHARE, MESH_SHARE, PCIE_SHARE = 0.9, 0.85, 0.6, 0.6
"""Of what is expected, which must be reached. For pairs over NVLink it is the share that Azure's health checks ask of
H100 (335 of 370.8 GB/s); of A100 they ask more (235 of 240). The share for sets is our choice and has no source: those
checks ask 228 of 240 of A100, with other sizes, so that less is asked here. Over direct links still less is asked: NCCL
finds 40 of 60 GB/s in a tenth of the sets of a DGX-1 (webhook/hardware/topology/ring.py), and those checks ask 193 of
240 of two A100 with bridges. NCCL's figures for PCIe are the most that slots and sockets can, and what a chipset does
with copies between cards differs by far."""


class Way(Enum):
    """Which way the bytes took."""

    NVLINK = auto()
    OTHER = auto()
    UNPROVEN = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was seen of a pair or a set."""

    gbps: float | None
    """The median."""
    due_bytes: float
    """That each counter should have risen by, had NVLink carried all."""
    moved: Sequence[int | None]
    """By which counters rose; None for those that are not there."""
    peer_access: bool
    intact: bool = True
    carried: float = CARRIED
    share: float = PAIR_SHARE


def judge(seen: Evidence, expected: Expected | None) -> tuple[Verdict, list[Warn]]:
    """The verdict, and what to know besides."""
    way, warnings = _way(seen, expected)
    if not seen.intact:
        return Verdict.UNKNOWN, [Warn.WRONG_DATA, *warnings]
    if expected is None or seen.gbps is None:
        return Verdict.UNKNOWN, [*warnings, Warn.NO_EXPECTATION]
    if not expected.over_nvlink:
        unexpected = [Warn.UNEXPECTED_NVLINK] if way is Way.NVLINK and not expected.partly_nvlink else []
        return _by_rate(seen.gbps, expected.gbps * PCIE_SHARE), [*_besides(warnings, expected), *unexpected]
    if way is Way.OTHER:
        return Verdict.NOT_NVLINK, warnings
    rate = _by_rate(seen.gbps, expected.gbps * seen.share)
    if way is Way.UNPROVEN and rate is Verdict.AS_EXPECTED:
        return Verdict.UNKNOWN, warnings
    return rate, warnings


def _by_rate(gbps: float, needed: float) -> Verdict:
    return Verdict.AS_EXPECTED if gbps >= needed else Verdict.SLOWER


def _besides(warnings: Sequence[Warn], expected: Expected) -> list[Warn]:
    """Without what matters only where NVLink is expected; where it carries a part, counters cannot agree."""
    telling = (Warn.NO_PEER_ACCESS,) if expected.partly_nvlink else (Warn.NO_PEER_ACCESS, Warn.COUNTERS_DISAGREE)
    return [warning for warning in warnings if warning in telling]


def _way(seen: Evidence, expected: Expected | None) -> tuple[Way, list[Warn]]:
    if not seen.peer_access:
        return Way.OTHER, [Warn.NO_PEER_ACCESS]
    told = [bytes_ for bytes_ in seen.moved if bytes_ is not None]
    if len(told) == len(seen.moved) and seen.due_bytes:
        return _way_by_counters([bytes_ / seen.due_bytes for bytes_ in told], seen.carried)
    return _way_by_rate(seen.gbps, expected.pcie_gbps if expected else None)


def _way_by_counters(shares: Sequence[float], carried: float) -> tuple[Way, list[Warn]]:
    if min(shares) >= carried:
        return Way.NVLINK, []
    if max(shares) <= NOT_CARRIED:
        return Way.OTHER, []
    return Way.UNPROVEN, [Warn.COUNTERS_DISAGREE]


def _way_by_rate(gbps: float | None, pcie_gbps: float | None) -> tuple[Way, list[Warn]]:
    if gbps is not None and pcie_gbps and gbps >= ABOVE_PCIE * pcie_gbps:
        return Way.NVLINK, [Warn.NO_COUNTERS]
    return Way.UNPROVEN, [Warn.NO_COUNTERS, Warn.WAY_UNPROVEN]
