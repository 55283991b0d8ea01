"""How many there are of what: the head of the page, which explains its signs at the same time."""

from collections import Counter

import msgspec

from webhook.overview.model import CardState, Health, Level, Overview
from webhook.page.findings import SIGNS
from webhook.page.picture import number_lost
from webhook.page.tree import Element, el
from webhook.page.words import Words

_ORDER = (CardState.HELD, CardState.SHARED, CardState.CHOSEN, CardState.FREE, CardState.UNKNOWN)
_ILL = (Health.BROKEN, Health.LINKS_DOWN, Health.CORDONED)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of an overview."""

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


def count(overview: Overview) -> Count:
    """Count what the head of the page tells."""
    cards = [card for node in overview.nodes for card in node.cards]
    states, healths = Counter(card.state for card in cards), Counter(card.health for card in cards)
    lost = [number_lost(node.links) for node in overview.nodes]
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
        healths=tuple((health, healths[health]) for health in _ILL if healths[health]),
        levels=tuple((level, levels[level]) for level in (Level.ERROR, Level.WARNING, Level.INFO, Level.HINT)),
    )


def summary(found: Count, words: Words) -> Element:
    """The numbers."""
    return el(
        "div",
        el(
            "dl",
            _number(words("column.node.plural"), str(found.nodes)),
            _number("GPU", str(found.cards)),
            _number(words("links.down"), str(found.links_lost), "bad" if found.links_lost else ""),
            _number(words("waiting"), str(found.waiting), "warn" if found.waiting else ""),
            *(
                _number(f"{SIGNS[level]} {words(f'level.{level}.plural')}", str(number), f"l-{level}" if number else "")
                for level, number in found.levels
            ),
            class_="numbers",
        ),
        _legend(found, words),
        data_sort="",
    )


def _number(name: str, value: str, class_: str = "") -> Element:
    return el("div", el("dt", name), el("dd", value), class_=f"stat {class_}".strip())


def _legend(found: Count, words: Words) -> Element:
    """What colours and signs mean, with how many cards are so."""
    parts = [
        *(_key(f"s-{state}", words(f"state.{state}"), number) for state, number in found.states),
        _key("k-up", words("links.up"), found.links - found.links_lost),
        _key("k-down", words("links.down"), found.links_lost),
        *(_key(f"c-{health}", words(f"health.{health}"), number) for health, number in found.healths),
    ]
    return el("ul", *parts, class_="legend", aria_label=words("legend"))


def _key(class_: str, text: str, number: int) -> Element:
    return el("li", el("span", class_=f"key {class_}", aria_hidden="true"), f"{text} ", el("b", str(number)))


def notes(of: tuple[tuple[str, ...], bool], words: Words) -> Element:
    """What could not be read, and whether findings are of this moment."""
    unread, are_judged = of
    return el(
        "div",
        el("p", words("not.judged"), class_="quiet") if not are_judged else None,
        el("p", words("unread")) if unread else None,
        el("ul", *(el("li", each, lang="en") for each in unread)) if unread else None,
        class_="notes",
        hidden=are_judged and not unread,
        data_sort="",
    )
