"""Bytes that went over the NVLinks of a card between two readings of its counters."""

from collections.abc import Collection, Iterable, Mapping

from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction

_Counters = Mapping[tuple[Direction, int], ByteCounter]


def moved(before: Iterable[CardCounters], after: Iterable[CardCounters], uuid: str, way: Direction) -> int | None:
    """Returns the bytes of one card in one direction, summed over all links in both readings; None if there are none.

    Of the forms in which the driver counts, the one that moved most counts: some drivers answer 0 in one of them. A
    counter with a lower value in the later reading is assumed to have overflowed once.
    """
    first, last = (_of(uuid, reading) for reading in (before, after))
    if first is None or last is None:
        return None
    forms = zip(_forms(first), _forms(last), strict=False)
    sums = [_risen(earlier, later, way) for earlier, later in forms]
    return max((found for found in sums if found is not None), default=None)


def are_at_rest(
    before: Iterable[CardCounters], after: Iterable[CardCounters], uuids: Collection[str], since_us: int
) -> bool:
    """Returns whether two readings show the final counters of work that ended before both.

    They do if they are equal, and NVML read the counters anew for each of them after the work. Cards without counters
    are at rest.

    Args:
        before: The earlier reading.
        after: The later reading.
        uuids: The cards.
        since_us: When the work had ended, in microseconds since 1970.
    """
    ends = ((_of(uuid, before), _of(uuid, after)) for uuid in uuids)
    return all(first is None or last is None or _is_at_rest(first, last, since_us) for first, last in ends)


def _is_at_rest(first: CardCounters, last: CardCounters, since_us: int) -> bool:
    is_read_anew = not first.nvlink_read_us or since_us <= first.nvlink_read_us < last.nvlink_read_us
    return is_read_anew and _forms(first) == _forms(last)


def _forms(card: CardCounters) -> tuple[_Counters, ...]:
    return card.nvlink_forms or (card.nvlink,)


def _risen(before: _Counters, after: _Counters, way: Direction) -> int | None:
    found = [
        (counter.bytes - before[place].bytes) % counter.begins_anew_at
        for place, counter in after.items()
        if place[0] is way and place in before
    ]
    return sum(found) if found else None


def _of(uuid: str, reading: Iterable[CardCounters]) -> CardCounters | None:
    return next((card for card in reading if card.uuid == uuid), None)
