"""The rank of the best cards of one stock for a pod, by which nodes are compared."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.world import Stock
from webhook.hardware.topology.planning.fleet import Build, Grade
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.selection.packing import SIZES
from webhook.hardware.topology.selection.request import Constraint, Request
from webhook.hardware.topology.sets import LINK_VALUES
from webhook.words.choices import NodePolicy, Objective

SINGLE_GRADE: Grade = 1.0, inf
"""The grade of cards whose links do not matter."""
_DIGITS = 3
"""Digits of GB/s, so that sums of the same numbers in another order are equal."""
_BOARD = max(SIZES)
"""The cards of the largest job that most machines can take. Such a job needs all of them, whatever joins them."""


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
    whole = None if usable == stock.free else stock.free
    choice = stock.build.choice(usable, replace(request_of(asked), whole=whole))
    if asked.one_numa_node and any(unmet.constraint is Constraint.SAME_NUMA for unmet in choice.unmet):
        return None
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


def request_of(asked: CardsAsked) -> Request:
    """Returns the request to the cards of one node."""
    constraints = asked.constraints
    return Request(
        count=asked.count,
        policy=asked.policy,
        constraints=replace(constraints, same_numa=True) if asked.one_numa_node else constraints,
        linked=asked.linked,
        objective=asked.objective,
    )


def _usable(stock: Stock, asked: CardsAsked) -> frozenset[int]:
    """Returns the cards that can be had and whose names the request allows."""
    if not asked.types and not asked.not_types:
        return stock.usable
    return stock.usable & _named(stock.build, asked)


@lru_cache(128)
def _named(build: Build, asked: CardsAsked) -> frozenset[int]:
    return frozenset(gpu.index for gpu in build.topology.gpus if asked.takes(gpu.name))
