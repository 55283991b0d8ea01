"""Whether a pod whose GPUs have NVLink uses it, judged by bytes: the hint ``NVLinkUnused``.

A rate cannot decide it. Tensor-parallel decoding of a 70B model moves about 80 MB/s over links that carry 450 GB/s, and
a job in which the GPUs have little to say to each other moves less. What says more is that not one byte went over the
links since the first busy minute, while bytes go over PCIe. Both are signs, never proofs: docs/observability.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from webhook.hardware.traffic.model import Traffic, Window

SHORTEST = 300
"""Seconds that are judged at least."""
RECENT = 375
"""Seconds of the window for what moved in the last minutes, at most, where there is one."""
OLD_SECONDS = 900.0
"""What an agent said longer ago is not about now."""
ALL_BUSY = 0.9
"""Share of the samples of each GPU that must be busy; a few may fall between two steps."""
FIRST_BUSY = 60
"""Busy seconds after the start that are not judged: libraries greet each other over the links then."""
WEAK_BYTES_PER_SECOND = 1_000_000
"""Over NVLink, of all GPUs together."""
PCIE_BYTES_PER_SECOND = 10_000_000
"""Over PCIe, of each GPU: what goes through host memory, or over the network, shows there."""


class Sign(StrEnum):
    """How strong a hint is."""

    STRONG = "strong"
    """Not one byte since the first busy minute."""
    WEAK = "weak"
    """Next to nothing in the last minutes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodTraffic:
    """What the GPUs of one pod did together in some last minutes. What is not told of one of them is None."""

    seconds: int
    nvlink: int | None
    """Bytes, sent and received, of all of them."""
    pcie: int | None
    utilization: float | None
    """The mean of all of them, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unused:
    """NVLink seems not to be used, as far as the seconds before now tell."""

    sign: Sign
    moved: PodTraffic


def is_recent(traffic: Traffic, now: datetime) -> bool:
    """Whether it tells of the last minutes, as far as the clocks of two machines can be compared."""
    return abs((now - traffic.at).total_seconds()) <= OLD_SECONDS


def pod_traffic(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> PodTraffic | None:
    """What moved in the last minutes; None where nothing is told of one of the GPUs for as long as the pod has run.

    Args:
        traffic: Of its node.
        uuids: The whole GPUs of the pod, which no other pod has.
        started: When it started, by the clock of its node; None: it has not, or that is not known.
    """
    windows = [each for each in _common(traffic, uuids, started) if each[0].seconds <= RECENT]
    return _together(windows[-1]) if windows else None


def unused(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> Unused | None:
    """Whether NVLink seems unused; None where it does not, or where something is not told that it takes to say so.

    Args:
        traffic: Of the node of the pod.
        uuids: Two or more whole GPUs of the pod, which no other pod has and which all have NVLink to each other.
        started: When it started, by the clock of its node; None: it has not, or that is not known.
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
    """The windows of all GPUs at once that lie in the life of the pod, the shortest first."""
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
    """Whether each GPU was busy long enough in the time by which one window is longer than the other."""
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
