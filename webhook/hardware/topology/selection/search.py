"""The choice of the best of all sets of one size, criterion by criterion."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

from webhook.hardware.topology.selection.bounded import BoundedSearch, spread_rank
from webhook.hardware.topology.selection.packing import EXACT, Packing
from webhook.hardware.topology.selection.pair_table import PairTable, positions
from webhook.hardware.topology.selection.request import Constraint, Policy, Request
from webhook.hardware.topology.sets import GpuSet
from webhook.words.choices import Objective

MAX_SETS = 600
"""The most sets of which each is looked at: all sets of up to eight GPUs, and all sets of three of 16."""
MAX_RINGS = 70
"""The most sets of eight GPUs whose rings are compared, and of other sizes in proportion to the pairs of a set."""
_DIGITS = 3
"""Digits of GB/s, so that sums of the same numbers in another order are equal."""
_KEPT = 4096

Value = float | tuple[float, ...]
"""The value of a set by one criterion; the greater, the better."""


class Sets:
    """The sets of GPUs of one node, and the values of those that were looked at.

    Args:
        table: The GPUs of the node.
        assess: Returns the quality of a set, which takes longer than all other values.
    """

    def __init__(self, table: PairTable, assess: Callable[[int], GpuSet]) -> None:
        self.table, self.packing = table, Packing(table)
        self._assess = assess
        self._judged: dict[int, GpuSet] = {}
        self._grades: dict[int, tuple[float, float]] = {}

    def judge(self, mask: int) -> GpuSet:
        """Returns a set with its quality."""
        if mask not in self._judged:
            if len(self._judged) >= _KEPT:
                self._judged.clear()
            self._judged[mask] = self._assess(mask)
        return self._judged[mask]

    def grade(self, mask: int) -> tuple[float, float]:
        """Returns the value of the class of a set in ``LINK_VALUES``, and GB/s of its weakest pair."""
        if mask not in self._grades:
            if len(self._grades) >= _KEPT:
                self._grades.clear()
            self._grades[mask] = self.table.link(mask), self.table.weakest(mask)
        return self._grades[mask]


class Search:
    """The search for the best set for one request.

    Sets are compared by these criteria, one after the other:

    - the constraints that they meet, the most important one first;
    - with the policy ``spread``, the parts of the node over which they spread;
    - class, weakest pair and ring bandwidth;
    - what other jobs lose with them (``Packing``). It comes right after the class with the objective ``linked``, and
      before all links if the job does not care for them;
    - the number of NUMA nodes, the links that are cut between them and GPUs that stay free, memory, and the mean pair.

    Of equal sets the one with the lowest indices is taken.

    Args:
        sets: The sets of the node.
        request: The request.
        free: The GPUs of which a set may consist, at least as many as are requested.
    """

    def __init__(self, sets: Sets, request: Request, free: int) -> None:
        self._sets, self.table, self.free, self.request = sets, sets.table, free, request
        self._whole = free if request.whole is None else self.table.mask(request.whole)
        near = request.constraints.min_level
        self._near = self.table.near(near) if near else []
        self.exact = True
        """Whether no set meets more constraints, or is of a better class or weakest pair; see ``bounded.MAX_WORK``."""

    def best(self) -> int:
        """Returns the best set."""
        count = self.request.count
        found: Iterable[int]
        if comb(self.free.bit_count(), count) <= MAX_SETS:
            found = map(sum, combinations([1 << gpu for gpu in positions(self.free)], count))
        else:
            bounded = BoundedSearch(self.table, self.request, self.free, self._met)
            found = bounded.run()
            self.exact = bounded.exact
        masks = list(found)
        for criterion in self._criteria():
            if len(masks) == 1:
                break
            if criterion == self._ring:
                masks = masks[: MAX_RINGS * 8**2 // self.request.count**2 or 1]
            values = [criterion(mask) for mask in masks]
            most = max(values)
            masks = [mask for mask, value in zip(masks, values, strict=True) if value == most]
        return min(masks, key=positions)

    def meets(self, mask: int, constraint: Constraint) -> bool:
        """Returns whether a set meets one of the constraints of the request. A single GPU meets all of them."""
        match constraint:
            case _ if not mask & (mask - 1):
                return True
            case Constraint.SAME_NUMA:
                return any(not mask & ~node for node in self.table.numa.values())
            case Constraint.REQUIRE_NVLINK:
                return not any(mask & ~self.table.nvlinked[gpu] & ~(1 << gpu) for gpu in positions(mask))
            case Constraint.MIN_LEVEL:
                return not any(mask & ~self._near[gpu] & ~(1 << gpu) for gpu in positions(mask))
            case Constraint.MIN_BANDWIDTH:
                return self._sets.grade(mask)[1] >= self.request.constraints.min_bandwidth

    def can_meet(self, constraint: Constraint) -> bool:
        """Returns whether a set meets one of the constraints, if the others do not count."""
        alone = replace(self.request, constraints=self.request.constraints.only(constraint))
        search = Search(self._sets, alone, self.free)
        found = search.meets(search.best(), constraint)
        self.exact = self.exact and search.exact
        return found

    def _criteria(self) -> Sequence[Callable[[int], Value]]:
        request, links = self.request, (self._link, self._weakest, self._ring)
        first: list[Callable[[int], Value]] = [self._met] if request.constraints.asked else []
        if request.policy is Policy.SPREAD:
            first.append(self._spread)
        if not request.linked:
            first += [self._kept, *links]
        elif request.objective is Objective.LINKED:
            first += [self._link, self._kept, self._weakest, self._ring]
        else:
            first += [*links, self._kept]
        return [*first, self._numa, self._uncut, self._memory, self._mean]

    def _met(self, mask: int) -> tuple[bool, ...]:
        return tuple([self.meets(mask, constraint) for constraint in self.request.constraints.asked])

    def _spread(self, mask: int) -> Value:
        return spread_rank(self.table, mask)

    def _link(self, mask: int) -> Value:
        return self._sets.grade(mask)[0]

    def _weakest(self, mask: int) -> Value:
        return round(self._sets.grade(mask)[1], _DIGITS)

    def _ring(self, mask: int) -> Value:
        if self._sets.packing.is_uniform:
            return 0.0
        return round(self._sets.judge(mask).ring_bandwidth, _DIGITS)

    def _kept(self, mask: int) -> Value:
        """Returns what the GPUs that stay free are worth to others; of more than eight only their number counts."""
        left = self._whole & ~mask
        return left.bit_count() if self._whole.bit_count() > EXACT else round(self._sets.packing.worth(left), _DIGITS)

    def _numa(self, mask: int) -> Value:
        return -sum(1 for part in self.table.numa_parts if part & mask)

    def _uncut(self, mask: int) -> Value:
        taken, left = self._whole & mask, self._whole & ~mask
        pairs = sum((part & taken).bit_count() * (part & left).bit_count() for part in self.table.numa_parts)
        return -round(self.table.between(taken, left), _DIGITS), -pairs

    def _memory(self, mask: int) -> Value:
        sizes = [size for gpu in positions(mask) if (size := self.table.gpus[gpu].memory_mib)]
        return min(sizes) / max(sizes) if sizes else 1.0

    def _mean(self, mask: int) -> Value:
        return round(self.table.total(mask), _DIGITS)
