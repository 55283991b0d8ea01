"""The order of sets by their distribution over the parts of the node, which some policies apply before the score."""

from collections.abc import Iterable

Rank = tuple[int, ...]


class Order:
    """The order of sets that a policy applies before the score: their distribution over the parts of the node.

    Args:
        kinds: NUMA nodes, PCIe switches and so on, as masks of their free GPUs; the most important kind first.
        count: GPUs in a set.
        spread: Whether a set should be in many parts with few GPUs in each. If not, it should leave few GPUs free in
            its parts.
    """

    def __init__(self, kinds: Iterable[Iterable[int]] = (), count: int = 1, *, spread: bool = False) -> None:
        self._spread, self._count = spread, count
        self.kinds = [parts for kind in kinds if _differs(parts := [part for part in kind if part])]
        """The kinds of parts in which sets can differ."""
        self._even = [_even_share(parts, count) for parts in self.kinds]

    def rank(self, mask: int, missing: int = 0) -> Rank:
        """Returns the rank of a set; greater is better.

        With ``missing`` this is an upper bound for the rank of the set with so many more GPUs, whichever they are.
        """
        rank: list[int] = []
        for parts, even in zip(self.kinds, self._even, strict=True):
            if self._spread:
                shares = [(part & mask).bit_count() for part in parts]
                rank += (min(len(parts) - shares.count(0) + missing, len(parts)), -max(even, *shares))
            else:
                theirs = sum([part.bit_count() for part in parts if part & mask])
                rank.append(min(mask.bit_count() + missing - theirs, 0))
        return tuple(rank)

    def promise(self, mask: int, missing: int, candidates: int) -> Rank:
        """Returns an upper bound for the rank of a partial set with ``missing`` more GPUs from ``candidates``."""
        if not self._spread:
            return self.rank(mask, missing)
        rank: list[int] = []
        for parts, even in zip(self.kinds, self._even, strict=True):
            rank += self._spread_promise(parts, even, (mask, missing, candidates))
        return tuple(rank)

    def _spread_promise(self, parts: list[int], even: int, ahead: tuple[int, int, int]) -> tuple[int, int]:
        mask, missing, candidates = ahead
        shares = [(part & mask).bit_count() for part in parts]
        new = sum([1 for part in parts if part & candidates and not part & mask])
        rooms = [(part & (mask | candidates)).bit_count() for part in parts]
        largest = max(even, *shares)
        while largest < self._count and sum([min(room, largest) for room in rooms]) < self._count:
            largest += 1
        return len(parts) - shares.count(0) + min(missing, new), -largest


def _differs(parts: list[int]) -> bool:
    return len(parts) > 1 and any(part & (part - 1) for part in parts)


def _even_share(parts: list[int], count: int) -> int:
    """Returns the largest share of a part if ``count`` GPUs are spread over all parts as evenly as possible."""
    sizes = [part.bit_count() for part in parts]
    return next((share for share in range(1, count) if sum(min(size, share) for size in sizes) >= count), count)
