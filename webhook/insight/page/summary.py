"""The numbers in the head of the page, which also explains the signs of the page."""

from collections import Counter

import msgspec

from webhook.insight.explain.findings import Nvlink
from webhook.insight.explain.nvlink import numbers
from webhook.insight.overview.model import CardState, Health, Level, Overview

_ORDER = (CardState.HELD, CardState.SHARED, CardState.CHOSEN, CardState.FREE, CardState.UNKNOWN)
_REMARKABLE = (Health.BROKEN, Health.LINKS_DOWN, Health.CORDONED, Health.UNKNOWN)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of an overview."""

    nodes: int
    cards: int
    pods: int
    waiting: int
    links: int
    links_lost: int
    nodes_losing: int
    states: tuple[tuple[CardState, int], ...]
    healths: tuple[tuple[Health, int], ...]
    levels: tuple[tuple[Level, int], ...]
    words: tuple[tuple[Nvlink, int], ...]
    """The numbers of pods that really have NVLink, have not, and so on."""


def count(overview: Overview) -> Count:
    """Returns the numbers that the head of the page shows."""
    cards = [card for node in overview.nodes for card in node.cards]
    states, healths = Counter(card.state for card in cards), Counter(card.health for card in cards)
    lost = [node.lost_links for node in overview.nodes]
    found = [*overview.findings, *(each for node in overview.nodes for each in node.findings)]
    levels = Counter(each.level for each in [*found, *(each for pod in overview.pods for each in pod.findings)])
    return Count(
        nodes=len(overview.nodes),
        cards=len(cards),
        pods=len(overview.pods),
        waiting=sum(pod.is_waiting for pod in overview.pods),
        links=sum(link.count for node in overview.nodes for link in node.links),
        links_lost=sum(lost),
        nodes_losing=sum(map(bool, lost)),
        states=tuple((state, states[state]) for state in _ORDER if states[state]),
        healths=tuple((health, healths[health]) for health in _REMARKABLE if healths[health]),
        levels=tuple((level, levels[level]) for level in (Level.ERROR, Level.WARNING, Level.INFO, Level.HINT)),
        words=tuple((word, number) for word, number in numbers(pod.nvlink for pod in overview.pods).items() if number),
    )
