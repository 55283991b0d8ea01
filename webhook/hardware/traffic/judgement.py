"""The judgement whether a pod whose GPUs have NVLink uses it, by bytes: the hint ``NVLinkUnused``.

A rate cannot decide this. Tensor-parallel decoding of a 70B model moves about 80 MB/s over links that carry 450 GB/s,
and a job whose GPUs communicate little moves less. It is a stronger sign if no byte went over the links since the first
busy minute while bytes went over PCIe. Both are signs, never proofs: docs/observability.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from webhook.hardware.traffic.model import Traffic, Window

SHORTEST = 300
"""The least seconds that are judged."""
RECENT = 375
"""The most seconds of the window that shows the traffic of the last minutes."""
OLD_SECONDS = 900.0
"""Seconds after which the report of an agent is no longer recent."""
ALL_BUSY = 0.9
"""Share of the seconds in which each GPU must be busy; some samples may fall between two steps."""
FIRST_BUSY = 60
"""Busy seconds after the start that are not judged, because libraries set up their connections over the links then."""
WEAK_BYTES_PER_SECOND = 1_000_000
"""Bytes per second over NVLink, of all GPUs together, below which NVLink seems hardly used."""
PCIE_BYTES_PER_SECOND = 10_000_000
"""Bytes per second over PCIe that each GPU must move. Traffic through host memory or the network is visible there."""


class Sign(StrEnum):
    """The strength of a hint."""

    STRONG = "strong"
    """No byte since the first busy minute."""
    WEAK = "weak"
    """Almost no bytes in the last minutes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodTraffic:
    """The traffic of all GPUs of one pod in the last minutes. A value that is unknown for one GPU is None."""

    seconds: int
    nvlink: int | None
    """Bytes, sent and received, of all GPUs."""
    pcie: int | None
    utilization: float | None
    """The mean of all GPUs, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unused:
    """The hint that NVLink seems unused, with the traffic that led to it."""

    sign: Sign
    moved: PodTraffic


def is_recent(traffic: Traffic, now: datetime) -> bool:
    """Returns whether the traffic is that of the last minutes, as far as the clocks of two machines agree."""
    return abs((now - traffic.at).total_seconds()) <= OLD_SECONDS


def pod_traffic(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> PodTraffic | None:
    """Returns the traffic of a pod in the last minutes; None if no window within its life covers all of its GPUs.

    Args:
        traffic: The traffic of its node.
        uuids: The whole GPUs of the pod, which no other pod has.
        started: When the pod started, by the clock of its node; None if it has not, or if that is unknown.
    """
    windows = [each for each in _common(traffic, uuids, started) if each[0].seconds <= RECENT]
    return _together(windows[-1]) if windows else None


def unused(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> Unused | None:
    """Returns the hint that NVLink seems unused; None if NVLink seems used, or if the necessary values are unknown.

    Args:
        traffic: The traffic of the node of the pod.
        uuids: Two or more whole GPUs of the pod, which no other pod has and which all have NVLink to each other.
        started: When the pod started, by the clock of its node; None if it has not, or if that is unknown.
    """
    if len(set(uuids)) < 2:
        return None
    windows = [each for each in _common(traffic, uuids, started) if _is_told(each)]
    judged = [each for each in windows if each[0].seconds >= SHORTEST]
    if not judged or not _is_busy(judged[0]) or not _moves_over_pcie(judged[0]):
        return None
    since_busy = next(
        (shorter for longer, shorter in pairwise(reversed(windows)) if _was_busy_before(longer, shorter)), None
    )
    if since_busy is None or since_busy[0].seconds < SHORTEST:
        return None
    moved, recent = _together(since_busy), _together(judged[0])
    if not moved.nvlink:
        return Unused(sign=Sign.STRONG, moved=moved)
    if (recent.nvlink or 0) < WEAK_BYTES_PER_SECOND * recent.seconds:
        return Unused(sign=Sign.WEAK, moved=recent)
    return None


def _common(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> Iterator[tuple[Window, ...]]:
    """Yields the windows that all GPUs have and that lie within the life of the pod, the shortest first."""
    if not uuids or started is None:
        return
    for first in traffic.cards.get(uuids[0], ()):
        if (traffic.at - started).total_seconds() < first.seconds:
            return
        found = [traffic.window(uuid, first.seconds) for uuid in uuids]
        windows = tuple(each for each in found if each is not None)
        if len(windows) == len(found):
            yield windows


def _is_told(windows: Sequence[Window]) -> bool:
    return all(None not in (each.nvlink, each.pcie, each.busy) for each in windows)


def _is_busy(windows: Sequence[Window]) -> bool:
    return all((each.busy or 0) >= ALL_BUSY * each.seconds for each in windows)


def _moves_over_pcie(windows: Sequence[Window]) -> bool:
    return all((each.pcie or 0) >= PCIE_BYTES_PER_SECOND * each.seconds for each in windows)


def _was_busy_before(longer: Sequence[Window], shorter: Sequence[Window]) -> bool:
    """Returns whether each GPU was busy long enough in the time by which one window is longer than the other."""
    return all((one.busy or 0) - (other.busy or 0) >= FIRST_BUSY for one, other in zip(longer, shorter, strict=True))


def _together(windows: Sequence[Window]) -> PodTraffic:
    shares = [each.utilization for each in windows if each.utilization is not None]
    return PodTraffic(
        seconds=windows[0].seconds,
        nvlink=_sum(windows, "nvlink"),
        pcie=_sum(windows, "pcie"),
        utilization=sum(shares) / len(shares) if len(shares) == len(windows) else None,
    )


def _sum(windows: Sequence[Window], name: str) -> int | None:
    found = [getattr(each, name) for each in windows]
    return None if None in found else sum(found)
