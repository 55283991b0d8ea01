"""The written form of traffic: an annotation of the Lease that an agent renews, in compact JSON of limited length.

``seconds`` has the lengths of the windows, the shortest first. Each card has lists with one number for each window, or
fewer if the agent has watched the card for a shorter time. Values without a list are unknown::

    {"at":"2026-11-23T03:20:10Z","seconds":[60,315],
     "cards":{"GPU-...":{"nvlink":[0,0],"pcie":[1048576,9437184],"utilization":[0.97,0.95]}}}

Everyone who may write Leases can write any text there, so a text is accepted only if it does not contradict itself.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from webhook.hardware.traffic.model import Traffic, Window
from webhook.words.errors import FormatError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem
from webhook.words.timestamp import format_timestamp, parse_timestamp

MOST_CHARACTERS = 16 * 1024
"""The most characters of the annotation. Sixty-four cards with two windows, at full speed, have 11 KiB."""
MOST_CARDS, MOST_WINDOWS, LONGEST_UUID = 64, 16, 80
LONGEST_SECONDS = 7 * 86400
MOST_BYTES_PER_SECOND = 10**14
"""The most bytes per second of one card: fifty times the bandwidth of NVLink 5 in both directions."""
_NAMES = ("nvlink", "pcie", "utilization")


class _Card(msgspec.Struct, omit_defaults=True):
    nvlink: list[int] | None = None
    pcie: list[int] | None = None
    utilization: list[float] | None = None


class _Document(msgspec.Struct):
    at: str
    seconds: list[int]
    cards: dict[str, _Card]


_DECODER = msgspec.json.Decoder(_Document)


def format_traffic(traffic: Traffic) -> str:
    """Writes one line."""
    lengths = sorted({window.seconds for windows in traffic.cards.values() for window in windows})
    cards = {uuid: _card(windows) for uuid, windows in sorted(traffic.cards.items())}
    return msgspec.json.encode(_Document(format_timestamp(traffic.at), lengths, cards)).decode()


def parse_traffic(text: str, source: str) -> Traffic:
    """Reads written traffic.

    Args:
        text: The value of the annotation.
        source: Its place, for errors.

    Raises:
        FormatError: the text is no traffic, is too long, or contradicts itself.
    """
    _check(len(text) <= MOST_CHARACTERS, source, f"at most {MOST_CHARACTERS} characters", len(text))
    try:
        found = decode(_DECODER, text)
    except msgspec.DecodeError as error:
        raise FormatError(source, expected="traffic of GPUs in JSON", found=shape_problem(error)) from None
    at = parse_timestamp(found.at)
    _check(at is not None, source, "at: a time of RFC 3339", found.at)
    _check_seconds(found.seconds, f"{source}: seconds")
    _check(len(found.cards) <= MOST_CARDS, f"{source}: cards", f"at most {MOST_CARDS}", len(found.cards))
    cards = {uuid: _windows(uuid, card, found.seconds, source) for uuid, card in found.cards.items()}
    if at is None:
        raise TypeError("a time that was checked")
    return Traffic(at=at, cards=cards)


def _card(windows: Sequence[Window]) -> _Card:
    """Returns the lists of a card. Each list ends before the first window without its number."""
    lists: dict[str, Any] = {name: list(_known(windows, name)) or None for name in _NAMES}
    return _Card(**lists)


def _known(windows: Sequence[Window], name: str) -> Iterator[int | float]:
    for window in windows:
        number = getattr(window, name)
        if number is None:
            return
        yield number


def _windows(uuid: str, card: _Card, seconds: Sequence[int], source: str) -> tuple[Window, ...]:
    where = f"{source}: cards"
    _check(uuid.isprintable() and 0 < len(uuid) <= LONGEST_UUID, where, "UUIDs", uuid)
    lists: dict[str, list[Any]] = {}
    for name in _NAMES:
        numbers = getattr(card, name) or []
        _check(len(numbers) <= len(seconds), where, f"{name} of at most {len(seconds)} windows", len(numbers))
        lists[name] = numbers
    for name in ("nvlink", "pcie"):
        _check_growing(lists[name], [MOST_BYTES_PER_SECOND * each for each in seconds], f"{where}: {name}")
    _check(all(0 <= each <= 1 for each in lists["utilization"]), where, "utilization from 0 to 1", "another")
    longest = max(map(len, lists.values()))
    return tuple(
        Window(seconds=length, **{name: numbers[at] for name, numbers in lists.items() if at < len(numbers)})
        for at, length in enumerate(seconds[:longest])
    )


def _check_seconds(seconds: Sequence[int], where: str) -> None:
    _check(len(seconds) <= MOST_WINDOWS, where, f"at most {MOST_WINDOWS}", len(seconds))
    _check(all(0 < each <= LONGEST_SECONDS for each in seconds), where, f"1 to {LONGEST_SECONDS}", "others")
    _check(all(one < next_ for one, next_ in pairwise(seconds)), where, "ascending numbers", "others")


def _check_growing(numbers: Sequence[float], most: Sequence[float], where: str) -> None:
    """Raises if a number is impossibly large, or smaller than that of a shorter window."""
    _check(all(0 <= each <= limit for each, limit in zip(numbers, most, strict=False)), where, "what can be", "another")
    _check(all(one <= next_ for one, next_ in pairwise(numbers)), where, "at least what shorter windows have", "less")


def _check(is_right: bool, where: str, expected: str, found: object) -> None:
    if not is_right:
        raise FormatError(where, expected=expected, found=str(found)[:80])
