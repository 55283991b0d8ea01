"""How much work something is, in function calls: time would tell of the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar
from zlib import crc32

T = TypeVar("T")
ALWAYS_FROM = 8 * 1024
"""Bytes of an input from which on its work is always counted; of smaller ones one in eight is."""


class TooMuchWork(AssertionError):
    """Work grows faster than the input."""


def count_calls(work: Callable[[], object]) -> int:
    """How many calls of functions ``work`` takes."""
    return _counted(work, sys.maxsize)[0]


def within(calls: int, work: Callable[[], T]) -> T:
    """The result of ``work``.

    Raises:
        TooMuchWork: it takes more than so many calls of functions, Python's own among them.
    """
    return _counted(work, calls)[1]


def sampled(data: bytes, *, fixed: int, each: float, work: Callable[[], T]) -> T:
    """The result of ``work``, whose calls are counted if ``data`` is large, and for one in eight small inputs.

    Args:
        data: The input.
        fixed: Calls that any input may take.
        each: Calls for each byte of the input.
        work: What is done with it.

    Raises:
        TooMuchWork: it takes more.
    """
    if len(data) < ALWAYS_FROM and crc32(data) % 8:
        return work()
    return within(fixed + int(each * len(data)), work)


def _counted(work: Callable[[], T], most: int) -> tuple[int, T]:
    made = 0

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal made
        # atheris puts calls of its own into each branch
        made += event == "call" or (event == "c_call" and called.__module__ != "atheris.native")
        if made > most:
            sys.setprofile(None)
            raise TooMuchWork(f"more than {most} calls, at {frame.f_code.co_filename}:{frame.f_lineno}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(before)
    return made, found
