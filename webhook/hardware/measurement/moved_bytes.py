"""Bytes that went over the NVLinks of a card between two readings of its counters."""

from collections.abc import Iterable

from webhook.hardware.discovery.facts import CardCounters, Direction


def moved(before: Iterable[CardCounters], after: Iterable[CardCounters], uuid: str, way: Direction) -> int | None:
    """Returns the bytes of one card in one direction, summed over all links in both readings; None if there are none.

    A counter with a lower value in the later reading is assumed to have overflowed once.
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
