"""Counts work: the bytecode instructions that a call takes, which are the same on every machine.

What one instruction does in C is not seen. The parts written in C that a review reaches (msgspec, json, re, dict, set,
sort) take time with the length of what they are given; a search in a list would not be noticed.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(call: Callable[[], object]) -> int:
    """How many instructions ``call`` takes, those of all functions below it included."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
