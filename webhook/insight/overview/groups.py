"""Groups of cards of a node that NVLink joins: pairs, islands, and cards behind switches."""

import enum
from collections.abc import Iterator, Mapping

import msgspec

from webhook.insight.overview.model import Health, Node


class Joined(enum.StrEnum):
    """The way in which the cards of a group are joined."""

    ALL = "all"
    """Every pair has NVLink."""
    PARTLY = "partly"
    """Every card has NVLink to some other card of the group."""
    NOT = "not"
    """No card has NVLink."""
    UNKNOWN = "unknown"
    """It is not known whether the cards have NVLink."""


class Group(msgspec.Struct, frozen=True):
    """Cards of a node that belong together."""

    joined: Joined
    indices: tuple[int, ...]
    """Indices of the cards, ascending."""


def groups(node: Node) -> tuple[Group, ...]:
    """Returns the groups by their first cards, each card in one group; cards without NVLink are the last groups.

    Only links that are up join cards.
    """
    partners = _partners(node)
    alone, found, seen = [], [], set[int]()
    for index in sorted(partners):
        if not partners[index]:
            alone.append(index)
        elif index not in seen:
            members = tuple(sorted(_reached(index, partners)))
            seen.update(members)
            is_whole = all(len(partners[member]) == len(members) - 1 for member in members)
            found.append(Group(Joined.ALL if is_whole else Joined.PARTLY, members))
    unknown = {card.index for card in node.cards if card.health is Health.UNKNOWN}
    last = (
        (Joined.NOT, [index for index in alone if index not in unknown]),
        (Joined.UNKNOWN, [index for index in alone if index in unknown]),
    )
    return (*found, *(Group(joined, tuple(members)) for joined, members in last if members))


def _partners(node: Node) -> Mapping[int, set[int]]:
    found: dict[int, set[int]] = {card.index: set() for card in node.cards}
    up = [link for link in node.links if link.active]
    switched = {link.one for link in up if link.other is None}
    for index in switched:
        found[index] |= switched - {index}
    for link in up:
        if link.other is not None:
            found[link.one].add(link.other)
            found[link.other].add(link.one)
    return found


def _reached(start: int, partners: Mapping[int, set[int]]) -> Iterator[int]:
    seen, waiting = {start}, [start]
    while waiting:
        index = waiting.pop()
        yield index
        new = partners[index] - seen
        seen |= new
        waiting += new
