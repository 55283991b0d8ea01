"""The meaning of ``CUDA_VISIBLE_DEVICES`` to CUDA, and of ``NVIDIA_VISIBLE_DEVICES`` to the container runtime.

Entries are numbers among the GPUs that the container sees, or UUIDs. The beginning of a UUID is enough if it fits one
GPU only. The list ends at the first invalid entry. An empty list shows no GPU. The effect of a GPU that is named twice
is not documented. Source: CUDA C++ Programming Guide, environment variables.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.model import Gpu
from webhook.words.errors import shorten

UUID_PREFIX = "GPU-"
SHOWS_NOTHING = frozenset({"", "none", "void"})
"""Values of ``NVIDIA_VISIBLE_DEVICES`` that show no GPU; HAMi's overwriteEnv also gives "none" to containers without a
request."""
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shown:
    """The GPUs that a CUDA program sees with a list."""

    used: int
    """The number of GPUs that it sees."""
    end: str = ""
    """The reason why the list ends early, in a clause; empty if it does not."""
    twice: bool = False
    """Whether the list names a GPU twice."""


def split_list(value: str) -> list[str]:
    """Returns the entries of a list; none if it is empty."""
    return [part.strip() for part in value.split(",")] if value.strip() else []


def show(entries: Sequence[str], count: int, uuids: Sequence[str]) -> Shown:
    """Returns the GPUs that a CUDA program sees with a list.

    Args:
        entries: The entries of the list.
        count: Number of GPUs that the container sees.
        uuids: UUIDs of these GPUs, as far as they are known.
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


def listed_gpus(value: str, gpus: Sequence[Gpu]) -> list[Gpu] | None:
    """Returns the GPUs of a node that the container runtime shows for a list; ``None`` where that is not known.

    Entries are numbers among the GPUs of the node, as NVML counts them, or UUIDs. Source: libnvidia-container
    src/cli/common.c.
    """
    if value == "all":
        return list(gpus)
    named = {name: gpu for gpu in gpus for name in (str(gpu.index), gpu.uuid)}
    found: dict[str, Gpu] = {}
    for entry in split_list(value):
        gpu = named.get(entry)
        if gpu is None:
            return None
        found[gpu.uuid] = gpu
    return list(found.values())


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
