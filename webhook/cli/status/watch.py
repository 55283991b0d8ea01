"""The repeated reading of the picture, drawn in place."""

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
"""The least pause between two reads, in seconds and as a multiple of a read's duration, to spare the API server."""
_STEP = 0.5
"""The seconds between two checks of the terminal's size."""
Draw = Callable[[Overview, int], Sequence[RenderableType]]
"""A function that returns the lines of a picture for a number of columns."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The last successful read, and the failure since."""

    found: Overview
    problem: str = ""
    """The reason why later reads failed; empty if they succeeded."""
    failed_at: str = ""
    """The time of the failure, in RFC 3339."""
    pause: float
    """The seconds until the next read."""


def readings(read: Callable[[], Overview], sleep: Callable[[float], object]) -> Iterator[Reading]:
    """Yield one reading after the other, without end. The last successful read stays while others fail.

    Args:
        read: A function that reads the picture.
        sleep: A function that waits for a number of seconds.

    Raises:
        GpuTopologyError: the first read fails.
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
    """Return the time of the data, and the failure if the cluster cannot be reached."""
    text = Text(f"as of {fitted(reading.found.at)}, read again after {reading.pause:.0f} s; Ctrl-C ends", style="dim")
    if reading.problem:
        text.append(f"\nnot reached at {reading.failed_at}: ", style="bold red not dim")
        text.append(fitted(reading.problem), style="not dim")
    return text


def watch_terminal(console: Console, read: Callable[[], Overview], draw: Draw) -> None:
    """Draw in place until Ctrl-C. Lines beyond the terminal are cut off.

    Raises:
        GpuTopologyError: the first read fails.
    """
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        sleeping = _Sleep(console)
        for reading in readings(read, sleeping):
            sleeping.redraw = partial(_refresh, live, reading, draw)
            sleeping.redraw()


def _refresh(live: Live, reading: Reading, draw: Draw) -> None:
    live.update(_whole(reading, draw, live.console), refresh=True)


class _Sleep:
    """The pause between two reads. The picture is drawn again when the terminal changes its size."""

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
    """Print the picture again whenever it changes, one below the other.

    Raises:
        GpuTopologyError: the first read fails.
    """
    before: tuple[object, ...] = ()
    for reading in readings(read, time.sleep):
        now = (msgspec.structs.replace(reading.found, at=""), reading.problem)
        if now != before:
            console.print(_whole(reading, draw, console), Text())
        before = now
