"""What somebody with a shell in the remap container can put in the place of one of its files."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

Plant = Callable[[Path, Path], None]
"""Puts something at a path; the second path is a file of somebody else's."""


def _socket(path: Path, _victim: Path) -> None:
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{directory}/{path.name}")  # paths of sockets are short: unix(7)
    os.close(directory)


def _foreign(path: Path, _victim: Path) -> None:
    path.write_text("theirs")
    path.chmod(0)


PLANTED: dict[str, Plant] = {
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a link": lambda path, victim: path.symlink_to(victim),
    "a link to nothing": lambda path, _: path.symlink_to("nothing"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
    "a link to a device": lambda path, _: path.symlink_to("/dev/tty"),
    "a hard link": lambda path, victim: path.hardlink_to(victim),
    "a socket": _socket,
    "a file that nobody may open": _foreign,
}
