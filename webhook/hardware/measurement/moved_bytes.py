"""Bytes that went over the NVLinks of a card between two readings of its counters."""

from collections.abc import Iterable

from webhook.hardware.discovery.facts import CardCounters, Direction


def moved(before: Iterable[CardCounters], after: Iterable[CardCounters], uuid: str, way: Direction) -> int | None:
    """The sum over all links that both readings know; None where no link says anything.

    A counter that begins anew in between is taken to do so once.
    """
    first, last = (_of(uuid, reading) for reading in (before, after))
    if first is None or last is None:
        return None
    found = [
        (counter.bytes - first.nvlink[place].bytes) % counter.begins_anew_at
        for place, counter in last.nvlink.items()
        if place[0] is way and place in first.nvlink
    ]
    return sum(found) if found else None


def _of(uuid: str, reading: Iterable[CardCounters]) -> CardCounters | None:
    return next((card for card in reading if card.uuid == uuid), None)
