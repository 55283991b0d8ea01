"""Reads the picture again and again, and draws it in place."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from webhook.insight.overview.model import Overview
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import fitted

LEAST_SECONDS, PATIENCE = 2.0, 10.0
"""Between two reads, and as a multiple of the time that a read took: the API server has other work than to be read."""
_STEP = 0.5
"""Seconds between two looks at the size of the terminal."""
Draw = Callable[[Overview, int], Sequence[RenderableType]]
"""The lines of a picture for so many columns."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read last, and how it went."""

    found: Overview
    problem: str = ""
    """Why it could not be read since; empty if it could."""
    failed_at: str = ""
    """When that was, in RFC 3339."""
    pause: float
    """Seconds until it is read again."""


def readings(read: Callable[[], Overview], sleep: Callable[[float], object]) -> Iterator[Reading]:
    """One after the other, for ever. What was read last stays while nothing can be read.

    Args:
        read: Reads the picture.
        sleep: Waits so many seconds.

    Raises:
        GpuTopologyError: it cannot be read for the first time.
    """
    last: Reading | None = None
    while True:
        begun = time.monotonic()
        try:
            last = Reading(found=read(), pause=_pause(begun))
        except GpuTopologyError as error:
            if last is None:
                raise
            at = datetime.now(UTC).isoformat(timespec="seconds")
            last = Reading(found=last.found, problem=str(error), failed_at=at, pause=_pause(begun))
        yield last
        sleep(last.pause)


def _pause(begun: float) -> float:
    return max(LEAST_SECONDS, PATIENCE * (time.monotonic() - begun))


def heading(reading: Reading) -> Text:
    """The time of the data, and whether the cluster can be reached."""
    text = Text(f"as of {fitted(reading.found.at)}, read again after {reading.pause:.0f} s; Ctrl-C ends", style="dim")
    if reading.problem:
        text.append(f"\nnot reached at {reading.failed_at}: ", style="bold red not dim")
        text.append(fitted(reading.problem), style="not dim")
    return text


def watch_terminal(console: Console, read: Callable[[], Overview], draw: Draw) -> None:
    """Draw in place until Ctrl-C. What is longer than the terminal is cut off at its end.

    Raises:
        GpuTopologyError: it cannot be read for the first time.
    """
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        sleeping = _Sleep(console)
        for reading in readings(read, sleeping):
            sleeping.redraw = partial(_refresh, live, reading, draw)
            sleeping.redraw()


def _refresh(live: Live, reading: Reading, draw: Draw) -> None:
    live.update(_whole(reading, draw, live.console), refresh=True)


class _Sleep:
    """Waits, and draws again when the terminal gets another size."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.redraw: Callable[[], None] | None = None

    def __call__(self, seconds: float) -> None:
        end, size = time.monotonic() + seconds, self._console.size
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_STEP, left))
            if self._console.size != size:
                size = self._console.size
                if self.redraw:
                    self.redraw()


def _whole(reading: Reading, draw: Draw, console: Console) -> RenderableType:
    return Group(heading(reading), Text(), *draw(reading.found, console.width))


def watch_file(console: Console, read: Callable[[], Overview], draw: Draw) -> None:
    """Print the picture again whenever it changed, one below the other.

    Raises:
        GpuTopologyError: it cannot be read for the first time.
    """
    before: tuple[object, ...] = ()
    for reading in readings(read, time.sleep):
        now = (msgspec.structs.replace(reading.found, at=""), reading.problem)
        if now != before:
            console.print(_whole(reading, draw, console), Text())
        before = now
