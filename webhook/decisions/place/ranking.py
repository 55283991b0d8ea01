"""The rank of the best cards of one stock for a pod, by which nodes are compared."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.world import Stock
from webhook.hardware.topology.planning.fleet import Build, Grade
from webhook.hardware.topology.planning.packing import SIZES
from webhook.hardware.topology.selection.choice import Choice, Rated
from webhook.hardware.topology.selection.request import Constraint, Constraints, Policy
from webhook.hardware.topology.selection.score import LINK_VALUES
from webhook.words.choices import NodePolicy, Objective

SINGLE_GRADE: Grade = 1.0, inf
"""The grade of cards whose links do not matter."""
_DIGITS = 3
"""Digits of GB/s, so that sums of the same numbers in another order are equal."""
_SAME_SCORE = 6
"""Digits of a score."""
_BOARD = max(SIZES)
"""The cards of the largest job that most machines can take. Such a job needs all of them, whatever joins them."""
_RINGS_COMPARED = 4
"""The most equally good sets whose rings are compared."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best cards of one stock for a pod."""

    rank: tuple[float, ...]
    """The greater, the better."""
    stock: Stock
    choice: Choice


def rank_of(stock: Stock, asked: CardsAsked) -> Ranked | None:
    """Returns the best cards of a stock for a request; None if the stock has too few."""
    usable = _usable(stock, asked)
    if len(usable) < asked.count:
        return None
    best = stock.build.choice(usable, asked.count, _constraints(asked), asked.policy)
    if asked.one_numa_node and any(unmet.constraint is Constraint.SAME_NUMA for unmet in best.unmet):
        return None
    choice = _of_shared(stock, usable, best, asked) or _least_harmful(stock, usable, best, asked)
    lost, left = harm(stock, choice.gpus), len(stock.free.difference(choice.gpus))
    found = rank(not choice.unmet, grade(choice, asked), asked, lost=lost, free=len(stock.free), left=left)
    return Ranked(found, stock, choice)


def rank(is_met: bool, found: Grade, asked: CardsAsked, *, lost: float, free: int, left: int) -> tuple[float, ...]:
    """Returns the rank of a set; the greater, the better.

    Args:
        is_met: Whether the set meets all that the pod requires.
        found: The grade of the set.
        asked: The request.
        lost: GB/s that other pods lose.
        free: Cards of the node that are free without the set.
        left: Cards that stay free.
    """
    rest: tuple[float, ...]
    match asked.node_policy:
        case NodePolicy.PACK:
            rest = (-left, -lost)
        case NodePolicy.SPREAD:
            rest = (left, -lost)
        case _:
            rest = (left // _BOARD - free // _BOARD, -lost, -left)
    link, bandwidth = found
    if asked.objective is Objective.LINKED:
        return (float(is_met), link, *rest, bandwidth)
    return (float(is_met), link, bandwidth, *rest)


def grade(choice: Choice, asked: CardsAsked) -> Grade:
    """Returns the class and bandwidth of a set, as far as they matter to the pod."""
    if not asked.linked:
        return SINGLE_GRADE
    return LINK_VALUES[choice.chosen.link], round(choice.chosen.bandwidth, _DIGITS)


def wanted_of(found: Grade, asked: CardsAsked) -> tuple[float, ...]:
    """Returns the part of a grade that the objective compares: class and bandwidth, or the class alone."""
    return found[:1] if asked.objective is Objective.LINKED else found


def harm(stock: Stock, gpus: tuple[int, ...]) -> float:
    """Returns the GB/s that pods which come later lose with these cards."""
    build, free = stock.build, stock.free
    return round(build.worth(free) - build.worth(free.difference(gpus)), _DIGITS)


def _of_shared(stock: Stock, usable: frozenset[int], best: Choice, asked: CardsAsked) -> Choice | None:
    """Returns a set of cards that other pods use already, if it is as good for the pod as the best one; else None.

    It takes nothing from pods that ask for whole cards.
    """
    shared = usable - stock.free
    if len(shared) < asked.count or asked.policy is not Policy.BEST_FIT:
        return None
    found = stock.build.choice(shared, asked.count, _constraints(asked), asked.policy)
    is_worse = len(found.unmet) > len(best.unmet)
    return None if is_worse or wanted_of(grade(found, asked), asked) < wanted_of(grade(best, asked), asked) else found


def _least_harmful(stock: Stock, usable: frozenset[int], best: Choice, asked: CardsAsked) -> Choice:
    """Returns the set that costs others least among those that are as good for the pod as the best one.

    Args:
        stock: The free cards.
        usable: Those that the request allows.
        best: The best set of these.
        asked: The request.
    """
    if best.unmet or asked.policy is not Policy.BEST_FIT:
        return best
    some_free = asked.part is not None and not usable <= stock.free
    rated = {each.gpus: each for each in stock.build.rated(usable, asked.count, are_alike=not some_free)}
    if best.gpus not in rated:
        return best
    least = _aim(rated[best.gpus], asked)
    order = {
        gpus: _order(each, stock, asked)
        for gpus, each in rated.items()
        if all(its >= of_best for its, of_best in zip(_aim(each, asked), least, strict=True))
    }
    for value in sorted(set(order.values()), reverse=True):
        if order[best.gpus] == value:
            return best
        sets = [gpus for gpus in order if order[gpus] == value][:_RINGS_COMPARED]
        choices = [stock.build.choice(frozenset(gpus), asked.count, _constraints(asked)) for gpus in sets]
        found = max((each for each in choices if _will_do(each, best, asked)), key=_ring, default=None)
        if found:
            return found
    return best


def _aim(rated: Rated, asked: CardsAsked) -> tuple[float, ...]:
    """Returns the values of a set that may not fall for the sake of other pods."""
    if not asked.linked:
        return ()
    if asked.objective is Objective.LINKED:
        return (rated.link,)
    return rated.link, round(rated.weakest, _DIGITS), round(rated.narrowest, _DIGITS)


def _will_do(choice: Choice, best: Choice, asked: CardsAsked) -> bool:
    keeps_ring = not asked.linked or asked.objective is Objective.LINKED or _ring(choice) >= _ring(best)
    return keeps_ring and not choice.unmet


def _ring(choice: Choice) -> float:
    return round(choice.chosen.ring_bandwidth, _DIGITS)


def _order(rated: Rated, stock: Stock, asked: CardsAsked) -> tuple[float, ...]:
    """Returns the sort key of equally good sets; the greater, the better."""
    bandwidth = round(rated.weakest, _DIGITS) if asked.linked else 0.0
    return -harm(stock, rated.gpus), bandwidth, round(rated.score, _SAME_SCORE)


def _constraints(asked: CardsAsked) -> Constraints:
    if not asked.one_numa_node or asked.constraints.same_numa:
        return asked.constraints
    return replace(asked.constraints, same_numa=True)


def _usable(stock: Stock, asked: CardsAsked) -> frozenset[int]:
    """Returns the cards that can be had and whose names the request allows."""
    if not asked.types and not asked.not_types:
        return stock.usable
    return stock.usable & _named(stock.build, asked)


@lru_cache(128)
def _named(build: Build, asked: CardsAsked) -> frozenset[int]:
    return frozenset(gpu.index for gpu in build.topology.gpus if asked.takes(gpu.name))
