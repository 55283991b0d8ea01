"""Parts of cards (vGPU slices): what a pod asks for of each card, what is in use, and whether HAMi would give it.

HAMi decides card by card (pkg/device/nvidia/device.go, Fit): the number of containers, memory and cores. Its quotas are
not looked at here.
"""

from dataclasses import dataclass
from typing import NamedTuple

from webhook.decisions.allocation.hami import Counted
from webhook.decisions.allocation.model import WHOLE
from webhook.hardware.topology.readers.hami_register import RegisteredGpu


class PartAsked(NamedTuple):
    """The part of each of its cards that a container asks for."""

    memory_mib: int
    """MiB; 0: ``memory_percentage`` counts."""
    memory_percentage: int
    """Memory in per cent of the card."""
    cores: int
    """Cores in per cent of a card; 0: as many as are idle."""

    def memory_of(self, card: RegisteredGpu) -> int:
        """Returns the MiB that the part takes of a card."""
        return self.memory_mib or card.memory_mib * self.memory_percentage // WHOLE


@dataclass(slots=True)
class Use:
    """The parts of one card that all pods together have."""

    containers: int = 0
    memory_mib: int = 0
    cores: int = 0

    def count(self, part: Counted, sign: int) -> None:
        """Counts a part that was taken (1) or given back (-1)."""
        self.containers += sign
        self.memory_mib += sign * part.memory_mib
        self.cores += sign * part.cores


def has_room(card: RegisteredGpu, use: Use, asked: PartAsked) -> bool:
    """Returns whether HAMi would give this part of a card beside those that are in use."""
    cores = min(asked.cores, WHOLE)
    if use.containers >= card.most_pods:
        return False
    if card.memory_mib - use.memory_mib < asked.memory_of(card) or card.cores - use.cores < cores:
        return False
    if card.cores == WHOLE and cores == WHOLE:
        return not use.containers
    return bool(cores) or card.cores == 0 or use.cores != card.cores
