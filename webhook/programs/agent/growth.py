"""Totals that only grow, made of the driver's counters, which restart at times; and the recent traffic of GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.traffic.model import MOST_CARDS, Traffic, Window

MOST_BYTES_PER_SECOND = 400e9
"""The fastest growth of one counter: PCIe 7 with 16 lanes carries 256 GB/s each way, a link of NVLink 5 50 GB/s."""
LONGEST_STEP = 60.0
"""The longest time, in seconds, for which one sample of utilisation counts."""
LENGTHS = (60, 300)
"""The shortest lengths of the reported windows, in seconds."""
_Key = tuple[str, Direction, int]
"""The carrier, direction and link of a counter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTotals:
    """The totals of one GPU since the agent first read it. A value that its driver does not report is absent."""

    index: int
    nvlink: Mapping[Direction, int] = field(default_factory=dict)
    """Bytes."""
    pcie: Mapping[Direction, int] = field(default_factory=dict)
    """Bytes."""
    utilization: float | None = None
    """The utilisation in the last sample."""
    used: float | None = None
    """Seconds, each weighted with the utilisation in its sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """The last sample. It is replaced as one value, so that other threads never see half of a sample."""

    at: float
    """Seconds of a clock that never goes back."""
    cards: Mapping[str, CardTotals] = field(default_factory=dict)
    """By UUID."""
    traffic: Traffic | None = None
    seconds: float = 0.0
    """The seconds that the sample took."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The totals of all cards at one moment."""

    at: float
    cards: Mapping[str, CardTotals]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """The last reading of one card, and its sums so far."""

    at: float
    counters: Mapping[_Key, ByteCounter]
    """The last known value of each counter."""
    sums: Mapping[_Key, int]
    """The total growth of each counter."""
    used: float = 0.0


class Growth:
    """The totals of all cards, now and at earlier moments. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._marks: list[_Mark] = []
        """The oldest first."""

    def add(self, cards: Sequence[CardCounters], at: float) -> Mapping[str, CardTotals]:
        """Adds a reading; returns the totals of its cards by UUID."""
        found = {card.uuid: self._add_card(card, at) for card in cards[:MOST_CARDS] if card.uuid}
        if len(self._seen) > 2 * MOST_CARDS:  # cards were changed again and again
            self._seen = {uuid: seen for uuid, seen in self._seen.items() if uuid in found}
        while len(self._marks) > 1 and at - self._marks[1].at >= LENGTHS[-1]:
            self._marks.pop(0)
        self._marks.append(_Mark(at, found))
        return found

    @property
    def kept(self) -> int:
        """The number of readings that are kept."""
        return len(self._marks)

    def traffic(self, now: datetime) -> Traffic:
        """Returns the traffic of the cards of the last reading, up to that reading.

        Args:
            now: The wall-clock time of that reading. The lengths of windows do not depend on it.
        """
        if not self._marks:
            return Traffic(at=now, cards={})
        last = self._marks[-1]
        marks = _chosen(self._marks[:-1], last.at)
        return Traffic(at=now, cards={uuid: _windows(uuid, last, marks) for uuid in last.cards})

    def _add_card(self, card: CardCounters, at: float) -> CardTotals:
        counters, before = _counters(card), self._seen.get(card.uuid)
        now = _Seen(at=at, counters=counters, sums=dict.fromkeys(counters, 0))
        if before:
            grown = _grown(before, counters, at)
            if grown is None:
                self._forget(card.uuid)
            now = _after(before, counters, grown, card.utilization, at)
        self._seen[card.uuid] = now
        return _told(card, now)

    def _forget(self, uuid: str) -> None:
        """Removes a card whose counters restarted from all marks.

        The growth before the restart is unknown, so no window may reach back past it.
        """
        self._marks = [
            _Mark(each.at, {key: card for key, card in each.cards.items() if key != uuid}) for each in self._marks
        ]


def _counters(card: CardCounters) -> dict[_Key, ByteCounter]:
    nvlink = {("nvlink", way, link): counter for (way, link), counter in card.nvlink.items()}
    return {**nvlink, **{("pcie", way, 0): counter for way, counter in card.pcie.items()}}


def _grown(seen: _Seen, counters: Mapping[_Key, ByteCounter], at: float) -> dict[_Key, int] | None:
    """Returns the growth of each counter, or None if one of them restarted, because the driver was loaded again.

    A 32-bit counter with a smaller value has overflowed once, if that many bytes can have moved in the time between.
    """
    most = MOST_BYTES_PER_SECOND * max(1.0, at - seen.at)
    grown = {}
    for key, now in counters.items():
        before = seen.counters.get(key)
        if before is None:
            continue
        if before.begins_anew_at != now.begins_anew_at:
            return None
        grown[key] = (now.bytes - before.bytes) % now.begins_anew_at
        if grown[key] > most:
            return None
    return grown


def _after(
    before: _Seen,
    counters: Mapping[_Key, ByteCounter],
    grown: Mapping[_Key, int] | None,
    utilization: float | None,
    at: float,
) -> _Seen:
    """Returns the state after a reading. A counter that is not in it keeps its last value, unless others restarted."""
    step = min(at - before.at, LONGEST_STEP)
    return _Seen(
        at=at,
        counters=dict(counters) if grown is None else {**before.counters, **counters},
        sums={**before.sums, **{key: before.sums.get(key, 0) + (grown or {}).get(key, 0) for key in counters}},
        used=before.used + step * (utilization or 0.0),
    )


def _told(card: CardCounters, seen: _Seen) -> CardTotals:
    """Returns the totals of the values that the driver reported in this reading."""
    return CardTotals(
        index=card.index,
        nvlink={way: _sum(seen, "nvlink", way) for way in Direction if any(told is way for told, _ in card.nvlink)},
        pcie={way: _sum(seen, "pcie", way) for way in card.pcie},
        utilization=card.utilization,
        used=None if card.utilization is None else seen.used,
    )


def _sum(seen: _Seen, carrier: str, way: Direction) -> int:
    return sum(total for key, total in seen.sums.items() if key[:2] == (carrier, way))


def _chosen(marks: Sequence[_Mark], now: float) -> list[_Mark]:
    """Returns the youngest mark that is old enough for each length; the youngest first."""
    old_enough = [next((mark for mark in reversed(marks) if now - mark.at >= length), None) for length in LENGTHS]
    return list({round(now - mark.at): mark for mark in old_enough if mark}.values())


def _windows(uuid: str, last: _Mark, marks: Sequence[_Mark]) -> tuple[Window, ...]:
    return tuple(_window(mark.cards[uuid], last.cards[uuid], last.at - mark.at) for mark in marks if uuid in mark.cards)


def _window(before: CardTotals, now: CardTotals, seconds: float) -> Window:
    return Window(
        seconds=round(seconds),
        nvlink=_between(before.nvlink, now.nvlink),
        pcie=_between(before.pcie, now.pcie),
        utilization=None
        if before.used is None or now.used is None
        else min(1.0, max(0.0, round((now.used - before.used) / seconds, 3))),
    )


def _between(before: Mapping[Direction, int], now: Mapping[Direction, int]) -> int | None:
    """Returns the bytes of both directions together, or None if the driver does not report both."""
    if before.keys() != set(Direction) or now.keys() != set(Direction):
        return None
    return sum(now.values()) - sum(before.values())
