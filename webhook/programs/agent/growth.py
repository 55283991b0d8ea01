"""From counters of the driver, which begin anew at times, to totals that only grow; and what GPUs did lately."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.traffic.model import BUSY, Traffic, Window

MOST_CARDS = 64
MOST_BYTES_PER_SECOND = 400e9
"""What one counter can grow by: PCIe 7 with 16 lanes carries 256 GB/s each way, a link of NVLink 5 50 GB/s."""
LONGEST_STEP = 60.0
"""Seconds that one sample of utilisation can stand for."""
LENGTHS = (60, 300, 600, 1200, 3600, 10800, 43200, 86400)
"""Seconds of the windows that are told, at least: an older reading stands for one that is not kept."""
_KEPT = ((400.0, 1.0), (1260.0, 60.0), (15000.0, 600.0), (91000.0, 3600.0))
"""Of readings that are so old at most, in seconds, one is kept in each span of so many seconds."""
_Key = tuple[str, Direction, int]
"""Carrier, direction and link of a counter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTotals:
    """What one GPU did since the agent has watched it. What its driver does not tell is absent."""

    index: int
    nvlink: Mapping[Direction, int] = field(default_factory=dict)
    """Bytes."""
    pcie: Mapping[Direction, int] = field(default_factory=dict)
    utilization: float | None = None
    """In the last sample."""
    busy: float | None = None
    """Seconds of samples in which it was at least :data:`BUSY`."""
    used: float | None = None
    """Seconds, each weighed with the utilisation in its sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """The last sample: one value that is replaced as a whole, so that other threads see no half of it."""

    at: float
    """Seconds of a clock that never goes back."""
    cards: Mapping[str, CardTotals] = field(default_factory=dict)
    """By UUID."""
    traffic: Traffic | None = None
    seconds: float = 0.0
    """How long it took."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """The totals of all cards at one moment."""

    at: float
    cards: Mapping[str, CardTotals]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """One card as it was read last, and all that was added up before."""

    at: float
    counters: Mapping[_Key, ByteCounter]
    """Each as it was told last."""
    sums: Mapping[_Key, int]
    """By how much each has grown."""
    busy: float = 0.0
    used: float = 0.0


class Growth:
    """Totals of all cards, and how they were at earlier moments. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._marks: list[_Mark] = []
        """The oldest first."""

    def add(self, cards: Sequence[CardCounters], at: float) -> Mapping[str, CardTotals]:
        """Take a reading; returns the totals by UUID, of the cards that are in it."""
        found = {card.uuid: self._add_card(card, at) for card in cards[:MOST_CARDS] if card.uuid}
        if len(self._seen) > 2 * MOST_CARDS:  # cards were changed again and again
            self._seen = {uuid: seen for uuid, seen in self._seen.items() if uuid in found}
        self._marks = [*_thinned(self._marks, at), _Mark(at, found)]
        return found

    @property
    def kept(self) -> int:
        """How many readings are kept."""
        return len(self._marks)

    def traffic(self, now: datetime) -> Traffic:
        """What the cards of the last reading did until then.

        Args:
            now: When that reading was, by the clock on the wall; how long windows are does not depend on it.
        """
        if not self._marks:
            return Traffic(at=now)
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
        """Its counters began anew, and nobody knows how much was lost: no window reaches back behind that."""
        self._marks = [
            _Mark(each.at, {key: card for key, card in each.cards.items() if key != uuid}) for each in self._marks
        ]


def _counters(card: CardCounters) -> dict[_Key, ByteCounter]:
    nvlink = {("nvlink", way, link): counter for (way, link), counter in card.nvlink.items()}
    return {**nvlink, **{("pcie", way, 0): counter for way, counter in card.pcie.items()}}


def _grown(seen: _Seen, counters: Mapping[_Key, ByteCounter], at: float) -> dict[_Key, int] | None:
    """By how much each counter has grown; None if one of them began anew, for then the driver was loaded anew.

    A counter of 32 bits that is less than before has gone round once, if so much can have moved meanwhile.
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
    """A counter that is not told this time goes on where it was, unless others began anew."""
    step = min(at - before.at, LONGEST_STEP)
    return _Seen(
        at=at,
        counters=dict(counters) if grown is None else {**before.counters, **counters},
        sums={**before.sums, **{key: before.sums.get(key, 0) + (grown or {}).get(key, 0) for key in counters}},
        busy=before.busy + (step if (utilization or 0.0) >= BUSY else 0.0),
        used=before.used + step * (utilization or 0.0),
    )


def _told(card: CardCounters, seen: _Seen) -> CardTotals:
    """The totals of what the driver told this time."""
    is_told = card.utilization is not None
    return CardTotals(
        index=card.index,
        nvlink={way: _sum(seen, "nvlink", way) for way in Direction if any(told is way for told, _ in card.nvlink)},
        pcie={way: _sum(seen, "pcie", way) for way in card.pcie},
        utilization=card.utilization,
        busy=seen.busy if is_told else None,
        used=seen.used if is_told else None,
    )


def _sum(seen: _Seen, carrier: str, way: Direction) -> int:
    return sum(total for key, total in seen.sums.items() if key[:2] == (carrier, way))


def _thinned(marks: Sequence[_Mark], now: float) -> list[_Mark]:
    """The first mark in each span. Longer spans hold whole shorter ones, so that no mark is missed later."""
    kept: dict[tuple[float, int], _Mark] = {}
    for mark in marks:
        span = next((span for age, span in _KEPT if now - mark.at <= age), None)
        if span is not None:
            kept.setdefault((span, int(mark.at // span)), mark)
    return list(kept.values())


def _chosen(marks: Sequence[_Mark], now: float) -> list[_Mark]:
    """For each length the youngest mark that is old enough, and the oldest of all; the youngest first."""
    found: dict[int, _Mark] = {}
    for length in LENGTHS:
        old_enough = next((mark for mark in reversed(marks) if now - mark.at >= length), None)
        if old_enough:
            found[round(now - old_enough.at)] = old_enough
    if marks and now - marks[0].at >= LENGTHS[0]:
        found[round(now - marks[0].at)] = marks[0]
    return list(found.values())


def _windows(uuid: str, last: _Mark, marks: Sequence[_Mark]) -> tuple[Window, ...]:
    return tuple(_window(mark.cards[uuid], last.cards[uuid], last.at - mark.at) for mark in marks if uuid in mark.cards)


def _window(before: CardTotals, now: CardTotals, seconds: float) -> Window:
    return Window(
        seconds=round(seconds),
        nvlink=_between(before.nvlink, now.nvlink),
        pcie=_between(before.pcie, now.pcie),
        busy=None if before.busy is None or now.busy is None else min(round(now.busy - before.busy), round(seconds)),
        utilization=None
        if before.used is None or now.used is None
        else min(1.0, max(0.0, round((now.used - before.used) / seconds, 3))),
    )


def _between(before: Mapping[Direction, int], now: Mapping[Direction, int]) -> int | None:
    """In both directions; None if the driver does not tell both."""
    if before.keys() != set(Direction) or now.keys() != set(Direction):
        return None
    return sum(now.values()) - sum(before.values())
