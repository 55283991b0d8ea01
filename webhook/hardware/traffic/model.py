"""The traffic of the GPUs of one node, as its agent counted it: in the last minute, the last five, and so on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

BUSY = 0.5
"""Utilisation from which on a GPU counts as busy in one sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The traffic of one GPU in the last ``seconds``. A value that its driver does not report is None."""

    seconds: int
    nvlink: int | None = None
    """Bytes of payload over NVLink, sent and received."""
    pcie: int | None = None
    """Bytes over PCIe, sent and received; fewer than there were if the driver counts in 32 bits."""
    busy: int | None = None
    """Seconds of the samples in which its utilisation was at least :data:`BUSY`."""
    utilization: float | None = None
    """The mean utilisation, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """The traffic of the GPUs of a node until one moment."""

    at: datetime
    """That moment by the clock of the node, in UTC."""
    cards: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    """The windows of each card, by UUID, the shortest first. Windows of different cards with the same length cover the
    same time. If the counters of a card were reset, it has only windows after that."""

    def window(self, uuid: str, seconds: int) -> Window | None:
        """Returns the window of one card with that many seconds; None if there is none."""
        return next((each for each in self.cards.get(uuid, ()) if each.seconds == seconds), None)
