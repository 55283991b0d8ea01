"""The verdicts on measurements: the way of the bytes, and their rate compared with that of the topology.

A successful copy proves nothing: CUDA copies through the memory of the host if cards cannot reach each other, and PCIe
can be as fast as one old NVLink. The counters of NVLink, read before and after, prove the way. A rate alone proves it
only if it is well above that of PCIe. If it is many times that, counters that stand still are wrong and not the rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from webhook.hardware.measurement.expectations import Expected
from webhook.hardware.measurement.report import Verdict, Warn

CARRIED, NOT_CARRIED = 0.9, 0.1
"""Share of the bytes from which on NVLink has carried the copies, and share up to which it has not. The latter is not 0
because NVLink also carries other communication of the cards."""
CARRIED_OF_SET = 0.4
"""``CARRIED`` for an all-reduce, as a share of the bytes that a ring sends. In a reduction by the NVSwitches (NVLS) a
card sends about half as much."""
ABOVE_PCIE = 1.3
"""Multiple of the PCIe figure from which on a rate proves NVLink. A slot of generation 4 has 24 GB/s as NCCL computes
it, and 26.3 were measured."""
BEYOND_PCIE = 5.0
"""Multiple of the PCIe figure from which on a rate proves NVLink against counters that stand still. It is our choice: a
slot that is reported two generations too slow would look four times as fast. A healthy H100 has 7.7 times its slot."""
PAIR_SHARE, MESH_SHARE, PCIE_SHARE = 0.9, 0.6, 0.6
"""Shares of the expected bandwidth that must be reached, for pairs over NVLink, sets over direct links, and PCIe. The
share for pairs is the one that Azure's health checks require of H100 (335 of 370.8 GB/s); of A100 they require more
(235 of 240). Over direct links the share is our choice: NCCL finds 40 of 60 GB/s in a tenth of the sets of a DGX-1
(webhook/hardware/topology/ring.py), and those checks require 193 of 240 of two A100 with bridges. NCCL's figures for
PCIe are the maximum of slots and sockets, and chipsets differ widely in copies between cards."""
SWITCHED_SHARES = ((1024**3, 0.8), (256 * 1024**2, 0.6))
"""Shares for sets over NVSwitches, from this size of an all-reduce on; smaller ones have none, because latency rules
their rate. 0.8: a sound A100 reaches about 200 of 240 GB/s up to 1 GiB
(https://github.com/NVIDIA/nccl-tests/issues/149); Azure's health checks require 228, of larger sizes. 0.6 is our
choice: NVIDIA calls 256 MiB too few for the full rate (https://github.com/NVIDIA/nccl-tests/issues/212)."""


class Way(Enum):
    """The way of the bytes."""

    NVLINK = auto()
    OTHER = auto()
    UNPROVEN = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The measured values of a pair or a set on which the verdict is based."""

    gbps: float | None
    """The median of the samples."""
    due_bytes: float
    """Bytes by which each counter would rise if NVLink carried all of them."""
    moved: Sequence[int | None]
    """Bytes by which each counter rose; None for a missing counter."""
    peer_access: bool
    intact: bool = True
    carried: float = CARRIED
    share: float = PAIR_SHARE
    staged_gbps: float | None = None
    """The median of the samples without peer access."""


def judge(seen: Evidence, expected: Expected | None) -> tuple[Verdict, list[Warn]]:
    """Returns the verdict and the warnings about it."""
    way, warnings = _way(seen, expected)
    if not seen.intact:
        return Verdict.UNKNOWN, [Warn.WRONG_DATA, *warnings]
    if expected is None or seen.gbps is None:
        return Verdict.UNKNOWN, [*warnings, Warn.NO_EXPECTATION]
    if not expected.over_nvlink:
        unexpected = [Warn.UNEXPECTED_NVLINK] if way is Way.NVLINK and not expected.partly_nvlink else []
        rate, slow = _over_pcie(seen.gbps, seen.staged_gbps, expected.gbps * PCIE_SHARE)
        return rate, [*_besides(warnings, expected), *unexpected, *slow]
    if way is Way.OTHER:
        return Verdict.NOT_NVLINK, warnings
    rate = _by_rate(seen.gbps, expected.gbps * seen.share)
    if way is Way.UNPROVEN and rate is Verdict.AS_EXPECTED:
        return Verdict.UNKNOWN, warnings
    is_rings = expected.ring_gbps is not None and seen.gbps >= expected.ring_gbps * seen.share
    return rate, [*warnings, *([Warn.NO_NVLS] if rate is Verdict.SLOWER and is_rings else [])]


def _by_rate(gbps: float, needed: float) -> Verdict:
    return Verdict.AS_EXPECTED if gbps >= needed else Verdict.SLOWER


def _over_pcie(gbps: float, staged_gbps: float | None, needed: float) -> tuple[Verdict, list[Warn]]:
    """Returns the verdict by what the path carries, whichever way copies use it.

    Some chipsets forward copies from card to card more slowly than copies through the host's memory:
    https://github.com/NVIDIA/nccl/issues/814 has 9.9 GB/s against 22. Such a path is sound.
    """
    if gbps < needed <= (staged_gbps or 0.0):
        return Verdict.AS_EXPECTED, [Warn.PEER_ACCESS_SLOWER]
    return _by_rate(gbps, needed), []


def _besides(warnings: Sequence[Warn], expected: Expected) -> list[Warn]:
    """Returns the warnings that matter without a ring over NVLink alone.

    If NVLink carries a part of the bytes, the counters are expected to disagree.
    """
    telling = {Warn.NO_PEER_ACCESS, Warn.COUNTERS_AT_REST}
    if not expected.partly_nvlink:
        telling.add(Warn.COUNTERS_DISAGREE)
    return [warning for warning in warnings if warning in telling]


def _way(seen: Evidence, expected: Expected | None) -> tuple[Way, list[Warn]]:
    if not seen.peer_access:
        return Way.OTHER, [Warn.NO_PEER_ACCESS]
    pcie_gbps = expected.pcie_gbps if expected else None
    told = [bytes_ for bytes_ in seen.moved if bytes_ is not None]
    if told and len(told) == len(seen.moved) and seen.due_bytes:
        is_beyond = _is_above(seen.gbps, BEYOND_PCIE, pcie_gbps)
        return _way_by_counters([bytes_ / seen.due_bytes for bytes_ in told], seen.carried, is_beyond_pcie=is_beyond)
    return _way_by_rate(seen.gbps, pcie_gbps)


def _is_above(gbps: float | None, multiple: float, pcie_gbps: float | None) -> bool:
    return bool(gbps is not None and pcie_gbps and gbps >= multiple * pcie_gbps)


def _way_by_counters(shares: Sequence[float], carried: float, *, is_beyond_pcie: bool) -> tuple[Way, list[Warn]]:
    if min(shares) >= carried:
        return Way.NVLINK, []
    if max(shares) <= NOT_CARRIED:
        return (Way.NVLINK, [Warn.COUNTERS_AT_REST]) if is_beyond_pcie else (Way.OTHER, [])
    return Way.UNPROVEN, [Warn.COUNTERS_DISAGREE]


def _way_by_rate(gbps: float | None, pcie_gbps: float | None) -> tuple[Way, list[Warn]]:
    if _is_above(gbps, ABOVE_PCIE, pcie_gbps):
        return Way.NVLINK, [Warn.NO_COUNTERS]
    return Way.UNPROVEN, [Warn.NO_COUNTERS, Warn.WAY_UNPROVEN]
