"""The candidate sets for one request on one node, and the best of them."""

from webhook.hardware.topology.selection.domains import Domains, joined
from webhook.hardware.topology.selection.equivalence import alike, count_sets, predecessors
from webhook.hardware.topology.selection.exchange import ExchangeSearch
from webhook.hardware.topology.selection.lowest_set import LowestSearch
from webhook.hardware.topology.selection.order import Order
from webhook.hardware.topology.selection.pair_table import PairTable, mask_of, positions
from webhook.hardware.topology.selection.request import Constraint, Constraints, Policy, Request
from webhook.hardware.topology.selection.score import Scale, pair_worths
from webhook.hardware.topology.selection.search import Aim, ExactSearch, Finalists

MAX_SETS = 20_000
"""The most different sets among which the best is found exactly. It includes the 12,870 sets of 8 of 16 GPUs of which
no two are alike. Among more sets, or if ``ExactSearch`` gives up, ``ExchangeSearch`` finds a good one."""


class Candidates:
    """The sets of free GPUs with the size of a request.

    Args:
        table: The GPUs of the node.
        domains: The parts of the node.
        request: The request.
        free: The free GPUs, at least as many as are requested.
    """

    def __init__(self, table: PairTable, domains: Domains, request: Request, free: int) -> None:
        self.table, self.domains, self.free, self._request = table, domains, free, request
        self.scale = Scale(table, domains, request.scored_by, request.count)
        self.exact = True
        """Whether all answers so far are exact."""
        self._alike = alike(table, domains, free)
        self._before = predecessors(self._alike, len(table.gpus))
        self._worths = pair_worths(table, domains, request.scored_by)
        self._helped = table.with_help(free)
        self._order = _order(request, domains, free)

    def best(self, constraints: Constraints) -> list[int]:
        """Returns the equally best sets by the policy among those that meet the constraints; empty if none meets them.

        The sets with the lowest indices come first, at most ``MAX_FINALISTS``.
        """
        aim, pools = self._aim(constraints), self._pools(constraints)
        if self._request.policy is Policy.FIRST_FIT:
            return self._lowest(aim, pools)
        finalists = Finalists(self.free, self._worths)
        sets = sum(count_sets(self._alike, pool, aim.count) for pool in pools)
        if sets <= MAX_SETS:
            exact = ExactSearch(aim, finalists)
            for pool in pools:
                exact.run(pool)
            if not exact.gave_up:
                return finalists.masks
        self.exact = False
        exchange = ExchangeSearch(aim, finalists, self._worths)
        for pool in pools:
            exchange.run(pool)
        return finalists.masks or self._lowest(aim, pools)

    def exist(self, constraints: Constraints) -> bool:
        """Returns whether any set meets the constraints."""
        return bool(self._lowest(self._aim(constraints), self._pools(constraints)))

    def meets(self, mask: int, constraint: Constraint) -> bool:
        """Returns whether a set meets one of the constraints of the request."""
        match constraint:
            case Constraint.SAME_NUMA:
                return any(not mask & ~node for node in self.domains.numa.values())
            case Constraint.REQUIRE_NVLINK:
                return not any(mask & ~self.table.nvlinked[gpu] & ~(1 << gpu) for gpu in positions(mask))
            case Constraint.MIN_LEVEL:
                near = self._near(self._request.constraints)
                return not any(mask & ~near[gpu] & ~(1 << gpu) for gpu in positions(mask))
            case Constraint.MIN_BANDWIDTH:
                return self.table.weakest(mask) >= self._request.constraints.min_bandwidth

    def _lowest(self, aim: Aim, pools: list[int]) -> list[int]:
        """Returns the set with the lowest indices, alone in a list; empty if there is none."""
        found = []
        for pool in pools:
            search = LowestSearch(aim)
            found.append(search.run(pool))
            self.exact = self.exact and not search.gave_up
        return sorted(filter(None, found), key=positions)[:1]

    def _aim(self, constraints: Constraints) -> Aim:
        return Aim(
            table=self.table,
            scale=self.scale,
            order=self._order,
            free=self.free,
            count=self._request.count,
            partners=self._partners(constraints),
            least=constraints.min_bandwidth,
            before=self._before,
        )

    def _partners(self, constraints: Constraints) -> list[int]:
        """Returns for each GPU the GPUs with which it can be in a set, by the constraints on that pair alone."""
        partners = self.table.nvlinked if constraints.require_nvlink else self._near(constraints)
        if not constraints.min_bandwidth:
            return partners
        enough = [mask_of(most >= constraints.min_bandwidth for most in row) for row in self._helped]
        return [linked & fast for linked, fast in zip(partners, enough, strict=True)]

    def _near(self, constraints: Constraints) -> list[int]:
        """Returns for each GPU those that are no farther than the level allows."""
        return self.table.near(constraints.min_level) if constraints.min_level else [self.free] * len(self.table.gpus)

    def _pools(self, constraints: Constraints) -> list[int]:
        """Returns the parts of the free GPUs that can hold a set, without GPUs that have too few partners there."""
        partners = self._partners(constraints)
        parts = [node & self.free for node in self.domains.numa.values()] if constraints.same_numa else [self.free]
        pools = [pool for part in parts for pool in _with_partners(part, partners, self._request.count)]
        return sorted(pools, key=positions)


def _with_partners(part: int, partners: list[int], count: int) -> list[int]:
    """Returns the GPUs of a part that can be in a set of ``count``, in pieces without partners in other pieces."""
    lonely = -1
    while lonely:
        lonely = mask_of(
            bool(part >> gpu & 1) and (partners[gpu] & part & ~(1 << gpu)).bit_count() < count - 1
            for gpu in range(len(partners))
        )
        part &= ~lonely
    pieces = joined([mates & part if part >> gpu & 1 else 0 for gpu, mates in enumerate(partners)])
    return [piece for piece in pieces if piece & part and piece.bit_count() >= count]


def _order(request: Request, domains: Domains, free: int) -> Order:
    """Returns the order that the policy applies before the score."""
    kinds: list[tuple[int, ...]] = []
    if request.policy is Policy.PACK:
        kinds = [domains.any_numa, domains.switch, domains.nvlink]
    elif request.policy is Policy.SPREAD:
        kinds = [domains.any_numa, domains.switch]
    inside = [[part & free for part in kind] for kind in kinds]
    return Order(inside, request.count, spread=request.policy is Policy.SPREAD)
