"""What CUDA makes of ``CUDA_VISIBLE_DEVICES``.

Entries are numbers among the GPUs that the container sees, or UUIDs, of which a beginning that fits one GPU will do.
With the first invalid entry the list ends; an empty list shows no GPU. What a GPU that is named twice does is not
documented. Source: CUDA C++ Programming Guide, environment variables.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhook.words.errors import shorten

UUID_PREFIX = "GPU-"
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a CUDA program sees of its GPUs."""

    used: int
    """How many."""
    end: str = ""
    """Why the list ends early, in a clause; empty if it does not."""
    twice: bool = False
    """Whether it names a GPU twice."""


def split_list(value: str) -> list[str]:
    """The entries of a list; none if it is empty."""
    return [part.strip() for part in value.split(",")] if value.strip() else []


def show(entries: Sequence[str], count: int, uuids: Sequence[str]) -> Shown:
    """What a list shows.

    Args:
        entries: Of the list.
        count: How many GPUs the container sees.
        uuids: Theirs, as far as they are known.
    """
    seen: set[int | str] = set()
    for entry in entries:
        gpu = _find(entry, count, uuids)
        if gpu is None:
            return Shown(len(seen), f"the list ends at {shorten(entry)}, {_why(entry, count)}")
        if gpu in seen:
            return Shown(len(seen), f"{shorten(entry)} names a GPU for the second time, which CUDA may refuse", True)
        seen.add(gpu)
    return Shown(len(seen))


def _find(entry: str, count: int, uuids: Sequence[str]) -> int | str | None:
    if _NUMBER.fullmatch(entry):
        return int(entry) if int(entry) < count else None
    found = [uuid for uuid in uuids if uuid.lower().startswith(entry.lower())] if entry.startswith(UUID_PREFIX) else []
    return found[0] if len(found) == 1 else None


def _why(entry: str, count: int) -> str:
    if entry.startswith(UUID_PREFIX):
        return "which is none of its GPUs, or stands for several"
    numbers = "0" if count == 1 else f"0 to {count - 1}"
    return f"which is no number of its GPUs ({numbers})"
