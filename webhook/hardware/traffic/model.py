"""The traffic of the GPUs of one node, as its agent counted it, and the judgement whether a pod uses its NVLinks.

The agent writes it into an annotation of its Lease, in JSON::

    {"at":"2026-11-23T03:20:10Z",
     "cards":{"GPU-...":[{"seconds":60,"nvlink":0,"pcie":1048576,"utilization":0.97}]}}

A rate cannot decide this alone. Tensor-parallel decoding of a 70B model moves about 80 MB/s over links that carry
450 GB/s, and a job whose GPUs communicate little moves less. It is a sign, and no proof, if next to no byte goes over
the links of busy GPUs while bytes go over PCIe: docs/observability.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.words.errors import FormatError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

MOST_CHARACTERS = 16 * 1024
"""The most characters of the annotation. Sixty-four cards with two windows, at full speed, have 13 KiB."""
MOST_CARDS = 64
SHORTEST = 300
"""The least seconds that are judged."""
OLD_SECONDS = 900.0
"""Seconds after which the report of an agent is no longer recent."""
BUSY = 0.8
"""The mean utilisation from which on a GPU counts as busy."""
BYTES_PER_SECOND = 1_000_000
"""Bytes per second over NVLink, of all GPUs together, below which NVLink seems unused."""
PCIE_BYTES_PER_SECOND = 10_000_000
"""Bytes per second over PCIe that each GPU must move. Traffic through host memory or the network is visible there."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_Bytes = Annotated[int, Meta(ge=0, le=2**62)]
_Uuid = Annotated[str, Meta(pattern=r"\A[!-~]{1,80}\Z")]


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The traffic of one GPU in the last ``seconds``. A value that its driver does not report is None."""

    seconds: Annotated[int, Meta(ge=1, le=7 * 86400)]
    nvlink: _Bytes | None = None
    """Bytes of payload over NVLink, sent and received."""
    pcie: _Bytes | None = None
    """Bytes over PCIe, sent and received; fewer than there were if the driver counts in 32 bits."""
    utilization: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The mean utilisation, from 0 to 1."""


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic of the GPUs of a node until one moment."""

    at: Annotated[datetime, Meta(tz=True)]
    """That moment by the clock of the node."""
    cards: Annotated[dict[_Uuid, Annotated[tuple[Window, ...], Meta(max_length=16)]], Meta(max_length=MOST_CARDS)]
    """The windows of each card, by UUID, the shortest first. Windows of different cards with the same length cover the
    same time. If the counters of a card were reset, it has only windows after that."""

    def window(self, uuid: str, seconds: int) -> Window | None:
        """Returns the window of one card with that many seconds; None if there is none."""
        return next((each for each in self.cards.get(uuid, ()) if each.seconds == seconds), None)


_DECODER = msgspec.json.Decoder(Traffic)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodTraffic:
    """The traffic of all GPUs of one pod in the last minutes. A value that is unknown for one GPU is None."""

    seconds: int
    nvlink: int | None
    """Bytes, sent and received, of all GPUs."""
    pcie: int | None
    utilization: float | None
    """The mean of all GPUs, from 0 to 1."""


def format_traffic(traffic: Traffic) -> str:
    """Returns the value of the annotation."""
    return msgspec.json.encode(msgspec.structs.replace(traffic, at=traffic.at.replace(microsecond=0))).decode()


def parse_traffic(text: str, source: str) -> Traffic:
    """Reads the value of the annotation. Everyone who may write Leases can write any text there.

    Args:
        text: The value.
        source: Its place, for errors.

    Raises:
        FormatError: the text is no traffic, or too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise FormatError(source, expected=f"at most {MOST_CHARACTERS} characters", found=str(len(text)))
    try:
        return decode(_DECODER, text)
    except msgspec.DecodeError as error:
        raise FormatError(source, expected="traffic of GPUs in JSON", found=shape_problem(error)) from None


def is_recent(traffic: Traffic, now: datetime) -> bool:
    """Returns whether the traffic is that of the last minutes, as far as the clocks of two machines agree."""
    return abs((now - traffic.at).total_seconds()) <= OLD_SECONDS


def pod_traffic(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> PodTraffic | None:
    """Returns the traffic of a pod in the longest window within its life that all of its GPUs have; None without one.

    Args:
        traffic: The traffic of its node.
        uuids: The whole GPUs of the pod, which no other pod has.
        started: When the pod started, by the clock of its node; None if it has not, or if that is unknown.
    """
    windows = list(_common(traffic, uuids, started))
    return _together(windows[-1]) if windows else None


def unused(traffic: Traffic, uuids: Sequence[str], started: datetime | None) -> PodTraffic | None:
    """Returns the traffic that lets NVLink seem unused; None if it seems used, or if the necessary values are unknown.

    Args:
        traffic: The traffic of the node of the pod.
        uuids: Two or more whole GPUs of the pod, which no other pod has and which all have NVLink to each other.
        started: When the pod started, by the clock of its node; None if it has not, or if that is unknown.
    """
    judged = next((each for each in _common(traffic, uuids, started) if each[0].seconds >= SHORTEST), None)
    if judged is None or len(set(uuids)) < 2 or not all(map(_is_busy_over_pcie, judged)):
        return None
    moved = _together(judged)
    return moved if moved.nvlink is not None and moved.nvlink < BYTES_PER_SECOND * moved.seconds else None


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


def _is_busy_over_pcie(window: Window) -> bool:
    is_busy = (window.utilization or 0.0) >= BUSY
    return is_busy and (window.pcie or 0) >= PCIE_BYTES_PER_SECOND * window.seconds


def _together(windows: Sequence[Window]) -> PodTraffic:
    shares = [each.utilization for each in windows if each.utilization is not None]
    return PodTraffic(
        seconds=windows[0].seconds,
        nvlink=_sum([each.nvlink for each in windows]),
        pcie=_sum([each.pcie for each in windows]),
        utilization=sum(shares) / len(shares) if len(shares) == len(windows) else None,
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def bytes_text(number: float) -> str:
    """Returns an amount of bytes with three digits, in powers of 1000: ``0 B``, ``1.5 GB``."""
    place = 0
    while number >= 999.5 and place < len(_UNITS) - 1:
        number, place = number / 1000, place + 1
    return f"{number:.3g} {_UNITS[place]}"


def share_text(share: float) -> str:
    """Returns a share as a percentage: ``0%``, ``<0.1%``, ``2.5%``, ``40%``."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"
