"""Traffic of the GPUs of one node, as its agent saw it: how much in the last minute, the last five, and so on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

BUSY = 0.5
"""Utilisation from which on a GPU counts as busy in one sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """What one GPU did in the last so many seconds. What its driver does not tell is None."""

    seconds: int
    nvlink: int | None = None
    """Bytes, sent and received, of payload."""
    pcie: int | None = None
    """The same over PCIe; less than there were, where the driver counts in 32 bits."""
    busy: int | None = None
    """Seconds of the samples in which its utilisation was at least :data:`BUSY`."""
    utilization: float | None = None
    """The mean, from 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """What the GPUs of a node did until one moment."""

    at: datetime
    """By the clock of the node, in UTC."""
    cards: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    """By UUID, the shortest first. Windows of different cards with the same seconds are the same time. A card whose
    counters began anew has only windows that lie behind that."""

    def window(self, uuid: str, seconds: int) -> Window | None:
        """That of one card, of so many seconds."""
        return next((each for each in self.cards.get(uuid, ()) if each.seconds == seconds), None)
