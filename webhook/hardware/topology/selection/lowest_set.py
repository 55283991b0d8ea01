"""The search for the set with the lowest indices whose pairs meet the constraints."""

from webhook.hardware.topology.selection.pair_table import positions
from webhook.hardware.topology.selection.search import Aim

MAX_STEPS = 50_000
"""Steps, each of which adds a GPU to a partial set, after which a search gives up. Only a node with many GPUs and few
fitting pairs needs so many."""


class LowestSearch:
    """A search that examines the sets in the order of their indices and stops at the first that fits.

    Args:
        aim: The aim of the search; its scale and order do not matter.
    """

    def __init__(self, aim: Aim) -> None:
        self._aim = aim
        self._steps = MAX_STEPS

    @property
    def gave_up(self) -> bool:
        """Whether the search gave up, so that sets were left out."""
        return not self._steps

    def run(self, pool: int) -> int:
        """Returns the mask of the set; 0 if there is none, or if the search gave up."""
        return self._descend(0, pool)

    def _descend(self, mask: int, candidates: int) -> int:
        missing = self._aim.count - mask.bit_count()
        if not missing:
            return mask if not self._aim.least or self._aim.table.weakest(mask) >= self._aim.least else 0
        for gpu in positions(candidates):
            if not self._steps or candidates.bit_count() < missing:
                return 0
            candidates &= -2 << gpu
            if self._aim.before[gpu] & ~mask:
                continue
            self._steps -= 1
            found = self._descend(mask | 1 << gpu, candidates & self._aim.partners[gpu])
            if found:
                return found
        return 0
