"""The log of our long-running programs: one JSON line for each event, with its time and level."""

import contextlib
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec

from webhook.words.printable import TEXT_LIMIT, fitted, printable

Level = Literal["debug", "info", "warning", "error"]
LINE_LIMIT = 16 * 1024
"""Longest line, in bytes. Container runtimes split longer ones (containerd, ``max_container_log_line_size``)."""
TRACEBACK_LIMIT = 8 * 1024
"""Longest traceback in a line, in characters."""
_ENTRIES = 32
_FIELDS = ("time", "level", "message")
_utc_now = partial(datetime.now, UTC)


class Log:
    """A log that writes each line to a file descriptor with one write, so that lines never mix.

    A line is JSON of visible characters and at most :data:`LINE_LIMIT` bytes, whatever its texts hold. All texts, also
    those in lists, go through :func:`webhook.words.printable.fitted`, so that a program that decodes the line shows no
    control character either.

    Args:
        descriptor: The file descriptor, open for writing. That its reader has gone is no error: the program goes on.
        now: Returns the time, with its zone.
        always: Fields of every line.
    """

    def __init__(self, descriptor: int, *, now: Callable[[], datetime] = _utc_now, **always: str) -> None:
        self._descriptor = descriptor
        self._encode = msgspec.json.Encoder().encode
        self._always = always
        self.now = now

    def say(self, level: Level, message: str, *, traceback: str = "", **fields: object) -> None:
        """Write a line, without the ``fields`` that are empty.

        Args:
            level: ``info`` for what is as it should be, ``warning`` for what mends itself or can wait, ``error`` for
                what an operator has to look at.
            message: A word or two that never change, so that people can search for them.
            traceback: The field ``error``. Of a long traceback only the end is written.
            fields: Further fields, named in camelCase. They hold no values of the user's variables, keys or tokens.
        """
        line: dict[str, object] = {"time": self.now(), "level": level, "message": message, **self._always}
        line.update((key, value) for key, value in fields.items() if value not in (None, "", [], ()))
        written = self._written(line)
        if traceback:
            written = written[:-1] + b',"error":' + msgspec.json.encode(_shown_traceback(traceback)) + b"}"
        self._put(written)

    def write(self, line: Any) -> None:
        """Write a value with the fields ``time``, ``level`` and ``message``."""
        self._put(self._written(line))

    def _written(self, line: Any) -> bytes:
        written = self._encode(line)
        is_plain = written.isascii() and b"\\" not in written and b"\x7f" not in written
        if len(written) <= TEXT_LIMIT and is_plain:
            return written
        fields: dict[str, Any] = msgspec.to_builtins(line)
        for limit in (TEXT_LIMIT, TEXT_LIMIT // 4, TEXT_LIMIT // 16):
            written = self._encode(_fitted(fields, limit))
            if len(written) <= LINE_LIMIT:
                return written
        return self._encode({key: fields[key] for key in _FIELDS} | {"cut": True})

    def _put(self, written: bytes) -> None:
        try:  # noqa: SIM105 - suppress() costs as much as the write
            os.write(self._descriptor, written + b"\n")
        except OSError:
            pass


def _fitted(value: Any, limit: int) -> Any:
    """Return ``value``, which consists of JSON types, with all texts in it fitted and long lists cut."""
    if isinstance(value, str):
        return fitted(value, limit)
    if isinstance(value, dict):
        return {fitted(str(key), limit): _fitted(item, limit) for key, item in list(value.items())[:_ENTRIES]}
    if isinstance(value, list | tuple):
        shown = [_fitted(entry, limit) for entry in value[:_ENTRIES]]
        return shown if len(value) <= _ENTRIES else [*shown, f"{len(value) - _ENTRIES} more"]
    return value


def _shown_traceback(text: str) -> str:
    """Return the end of a traceback, which names the error. Invisible characters except line breaks are escaped."""
    return "\n".join(map(printable, text[-TRACEBACK_LIMIT:].split("\n")))[-TRACEBACK_LIMIT:]


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
        with contextlib.suppress(Exception):  # a record that cannot be formatted must not end the work that it is about
            traceback = self._plain.formatException(record.exc_info) if record.exc_info else ""
            self._log.say(level, "library", traceback=traceback, logger=record.name, text=record.getMessage())
