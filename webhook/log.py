"""What our programs that run on log: one JSON line for each thing, with its time and how bad it is."""

import contextlib
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec

Level = Literal["debug", "info", "warning", "error"]
_utc_now = partial(datetime.now, UTC)


class Log:
    """Writes lines to the file descriptor ``descriptor``, each with one write so that lines never mix.

    Args:
        descriptor: Open for writing. A reader that is gone is no error: nothing waits for whoever reads the log.
        now: The time, with its zone.
        always: Fields of every line.
    """

    def __init__(self, descriptor: int, *, now: Callable[[], datetime] = _utc_now, **always: str) -> None:
        self._descriptor = descriptor
        self._encode = msgspec.json.Encoder().encode
        self._always = always
        self.now = now

    def say(self, level: Level, message: str, **fields: object) -> None:
        """Write a line; of ``fields`` those that hold something.

        Args:
            level: ``info`` for what is as it should be, ``warning`` for what mends itself or can wait, ``error`` for
                what somebody has to look at.
            message: A word or two that never change, so that one can search for them.
            fields: Named in camelCase. Neither values of the user's variables nor keys or tokens.
        """
        line: dict[str, object] = {"time": self.now(), "level": level, "message": message, **self._always}
        line.update((key, value) for key, value in fields.items() if value not in (None, "", [], ()))
        self.write(line)

    def write(self, line: Any) -> None:
        """Write something that has ``time``, ``level`` and ``message``."""
        try:  # noqa: SIM105 - suppress() costs as much as the write
            os.write(self._descriptor, self._encode(line) + b"\n")
        except OSError:
            pass


def take_over_logging(log: Log) -> None:
    """Send warnings and errors of all libraries of this process to ``log``, instead of to stderr as text."""
    logging.captureWarnings(capture=True)
    root = logging.getLogger()
    root.handlers = [_Handler(log)]
    root.setLevel(logging.WARNING)


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._plain = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        with contextlib.suppress(Exception):  # a record that cannot be formatted must not end what was logged about
            traceback = self._plain.formatException(record.exc_info) if record.exc_info else ""
            self._log.say(level, "library", logger=record.name, text=record.getMessage(), error=traceback)
