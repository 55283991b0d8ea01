"""Runs the command line in a terminal, as a person does."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.cli.command import ROOT

ESCAPE = "\x1b"


def on_terminal(*arguments: str | Path, width: int = 80, **environment: str) -> tuple[int, str]:
    """Exit code, and what a terminal with colours and as many columns gets from ``gpu-topology``."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    command = [sys.executable, "-m", "webhook", *map(str, arguments)]
    settings = {"TERM": "xterm-256color", "PATH": "/usr/bin:/bin"} | environment
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=ROOT, env=settings
    ) as process:
        os.close(theirs)
        printed = _read(ours)
        os.close(ours)
        return process.wait(), printed.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    """Everything until the other end is closed."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: Linux says so when nothing holds the other end any more
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)
