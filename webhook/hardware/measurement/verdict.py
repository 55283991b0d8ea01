"""The verdicts on measurements: the expected bandwidth, the way of the bytes, and their rate.

A successful copy proves nothing: CUDA copies through the memory of the host if cards cannot reach each other, and PCIe
can be as fast as one old NVLink. The counters of NVLink, read before and after, prove the way. A rate alone proves it
only if it is well above that of PCIe. If it is many times that, counters that stand still are wrong and not the rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from statistics import median
from typing import Any

from msgspec.structs import replace

from webhook.hardware.measurement.report import CardSet, Pair, Verdict, Warn
from webhook.hardware.topology.connections import Connections, PathType, nvlink_bandwidth
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.hardware.topology.pcie import PciePath, link_bandwidth
from webhook.hardware.topology.sets import LinkClass, assess

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
_UNSTEADY = 0.1
"""Spread, as a share of the median, above which the measurement should be repeated."""
_HOPPER = 90
_CHANNELS, _CHANNEL_RATES = 8, (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
"""Channels of NVLS, and GB/s that one may have: NCCL src/graph/search.cc, ``sm90SpeedArrayIntra``. A full board of H100
has 8 channels of 40 GB/s."""
_EFFICIENCY, _AGAINST_RING = 0.85, 5 / 6
"""Share of the channels' bandwidth that NVLS reduces on Hopper, and the share by which NCCL reckons it when it compares
it with rings: NCCL src/graph/tuning.cc, ``nvlsEfficiency`` and ``ncclTopoTuneModel``."""
_FEWEST = 3
"""Cards from which every version of NCCL with NVLS uses it; some need no more than two."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected bandwidth of a pair or of a set."""

    link: str
    """The link, in the words of ``nvidia-smi topo -m`` for a pair, of ``gpu.topology/link`` for a set."""
    gbps: float
    """GB/s per direction of a pair; busbw of a set."""
    over_nvlink: bool
    pcie_gbps: float | None
    """GB/s of the slowest PCIe slot; None if a slot is unknown."""
    partly_nvlink: bool = False
    """Whether a ring of a set needs PCIe for some hops and uses NVLink for the others."""
    chipset: str = ""
    """The CPU through whose root complex copies between two cards go; empty if they go through none."""
    ring_gbps: float | None = None
    """Busbw of the best ring of a set for which NCCL chooses NVLS, the reduction by the NVSwitches; else None."""


class Expectations:
    """The expected bandwidths of the cards of a machine, by their UUIDs.

    Args:
        topology: The topology of the machine.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self._topology = topology
        self._connections = Connections(topology)
        self._gpus = {gpu.uuid: gpu for gpu in topology.gpus if gpu.uuid}

    def pair(self, source: str, target: str) -> Expected | None:
        """Returns what to expect of copies from one card to another; None if that is unknown.

        No third card counts, because copies are not routed.
        """
        ends = self._of((source, target))
        if ends is None:
            return None
        one, other = ends
        found = self._connections.direct(one.index, other.index)
        over_nvlink = found.type is PathType.NVL
        if not found.bandwidth:
            return None
        cpu, chipset = next(iter(self._topology.cpus), None), ""
        if cpu and cpu.vendor and not over_nvlink and found.pcie.rank >= PciePath.PHB.rank:
            chipset = f"{cpu.vendor} family {cpu.family} model {cpu.model}"
        return Expected(found.word, found.bandwidth, over_nvlink, _pcie(ends), chipset=chipset)

    def set(self, cards: Sequence[str], *, nvls: bool = False) -> Expected | None:
        """Returns what to expect of an all-reduce of several cards, by the algorithm that NCCL chooses.

        None if that is unknown.

        Args:
            cards: Their UUIDs.
            nvls: Whether NCCL may let NVSwitches reduce.
        """
        members = self._of(cards)
        if members is None:
            return None
        found = assess(self._topology, [gpu.index for gpu in members], self._connections)
        if not found.ring_bandwidth:
            return None
        over_nvlink, partly = found.ring_over_nvlink, found.link is LinkClass.PARTIAL
        by_switches = _nvls_busbw(members, found.ring_bandwidth) if nvls and found.link is LinkClass.NVSWITCH else None
        return Expected(
            found.link.value,
            by_switches or found.ring_bandwidth,
            over_nvlink,
            _pcie(members),
            partly_nvlink=partly and not over_nvlink,
            ring_gbps=found.ring_bandwidth if by_switches else None,
        )

    def _of(self, uuids: Sequence[str]) -> list[Gpu] | None:
        found = [self._gpus[uuid] for uuid in uuids if uuid in self._gpus]
        return found if len(found) == len(uuids) else None


def _nvls_busbw(gpus: Sequence[Gpu], ring_busbw: float) -> float | None:
    """Returns the busbw of NVLS where NCCL chooses it; None where it chooses rings.

    From Blackwell on NCCL's model prefers rings for the boards that are known.
    """
    if len(gpus) < _FEWEST or any(gpu.sm != _HOPPER for gpu in gpus):
        return None
    links = min(nvlink_bandwidth(gpu, gpu.switch_links) for gpu in gpus)
    rate = next((rate for rate in _CHANNEL_RATES if _CHANNELS * rate <= links), 0.0)
    reduced, factor = _CHANNELS * rate * _EFFICIENCY, 2 * (len(gpus) - 1) / len(gpus)
    return reduced * factor if reduced * _AGAINST_RING > ring_busbw / factor else None


def _pcie(gpus: Sequence[Gpu]) -> float | None:
    if any(gpu.pcie is None for gpu in gpus):
        return None
    return min(link_bandwidth(gpu.pcie) for gpu in gpus)


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
    share: float | None = PAIR_SHARE
    """The share of the expected bandwidth that must be reached; None if none is known."""
    staged_gbps: float | None = None
    """The median of the samples without peer access."""


def judge(seen: Evidence, expected: Expected | None) -> tuple[Verdict, list[Warn]]:
    """Returns the verdict and the warnings about it."""
    way, warnings = _way(seen, expected)
    if not seen.intact:
        return Verdict.UNKNOWN, [Warn.WRONG_DATA, *warnings]
    if expected is None or seen.gbps is None or seen.share is None:
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
    slots = (seen.gbps or 0.0) / expected.pcie_gbps if expected and expected.pcie_gbps else 0.0
    shares = [bytes_ / seen.due_bytes for bytes_ in seen.moved if bytes_ is not None and seen.due_bytes]
    if not shares or len(shares) < len(seen.moved):
        proven = slots >= ABOVE_PCIE
        return (Way.NVLINK, [Warn.NO_COUNTERS]) if proven else (Way.UNPROVEN, [Warn.NO_COUNTERS, Warn.WAY_UNPROVEN])
    if min(shares) >= seen.carried:
        return Way.NVLINK, []
    if max(shares) <= NOT_CARRIED:
        return (Way.NVLINK, [Warn.COUNTERS_AT_REST]) if slots >= BEYOND_PCIE else (Way.OTHER, [])
    return Way.UNPROVEN, [Warn.COUNTERS_DISAGREE]


def judged_pair(found: Pair, expected: Expected | None) -> Pair:
    """Returns a measured pair with its expectation and its verdict."""
    staged_gbps = middle(found.staged_samples_gbps)
    seen = Evidence(
        gbps=middle(found.samples_gbps),
        due_bytes=found.copied_bytes,
        moved=(found.sent_bytes, found.received_bytes),
        peer_access=found.peer_access,
        intact=Warn.WRONG_DATA not in found.warnings,
        staged_gbps=staged_gbps,
    )
    return replace(
        found,
        chipset=(expected.chipset or None) if expected else None,
        measured_gbps=seen.gbps,
        staged_gbps=staged_gbps,
        **_judgement(seen, expected, found.samples_gbps),
    )


def judged_set(found: CardSet, expected: Expected | None) -> CardSet:
    """Returns a measured all-reduce with its expectation and its verdict."""
    factor = ring_factor(len(found.cards))
    share: float | None = MESH_SHARE
    if expected and expected.link == LinkClass.NVSWITCH:
        share = next((share for least, share in SWITCHED_SHARES if found.reduced_bytes >= least), None)
    seen = Evidence(
        gbps=middle(found.samples_gbps),
        due_bytes=found.reduced_bytes * found.reductions * factor,
        moved=found.sent_bytes,
        peer_access=True,  # NCCL decides for itself
        carried=CARRIED_OF_SET,
        share=share,
    )
    return replace(
        found,
        algbw_gbps=None if seen.gbps is None else seen.gbps / factor,
        busbw_gbps=seen.gbps,
        nvls=bool(expected and expected.ring_gbps),
        **_judgement(seen, expected, found.samples_gbps),
    )


def _judgement(seen: Evidence, expected: Expected | None, samples: Sequence[float]) -> dict[str, Any]:
    """Returns the members that pairs and sets have in common."""
    verdict, warnings = judge(seen, expected)
    return {
        "link": expected.link if expected else None,
        "spread_gbps": spread(samples),
        "expected_gbps": expected.gbps if expected else None,
        "pcie_gbps": expected.pcie_gbps if expected else None,
        "ratio": seen.gbps / expected.gbps if seen.gbps is not None and expected else None,
        "verdict": verdict,
        "warnings": [*warnings, *([Warn.UNSTEADY] if is_unsteady(samples) else [])],
    }


def ring_factor(count: int) -> float:
    """Returns the bytes that each of ``count`` cards sends per reduced byte: 2(n-1)/n, as in nccl-tests."""
    return 2 * (count - 1) / count


def middle(samples: Sequence[float]) -> float | None:
    """Returns the median, which one disturbed sample does not change; None without samples."""
    return median(samples) if samples else None


def spread(samples: Sequence[float]) -> float | None:
    """Returns the difference between the greatest and the least sample; None with fewer than two samples."""
    return max(samples) - min(samples) if samples[1:] else None


def is_unsteady(samples: Sequence[float]) -> bool:
    """Returns whether the samples differ by more than a tenth of their median."""
    between, of = spread(samples), middle(samples)
    return bool(between and of and between > _UNSTEADY * of)
