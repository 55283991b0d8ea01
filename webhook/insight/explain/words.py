"""How findings name things."""

from collections.abc import Iterable, Sequence

from webhook.admit.container import PodContainer
from webhook.topology.model import Gpu

HAVE = "Have the permission"
"""Begins a remedy for what may not be read."""


def listed(words: Iterable[str], most: int | None = None) -> str:
    """``a``, ``a and b``, ``a, b and c``; of more words than ``most`` ``a, b and 7 more``."""
    every = list(words)
    if most is not None and len(every) > most:
        every = [*every[:most], f"{len(every) - most} more"]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def containers(found: Sequence[PodContainer]) -> str:
    """``container train``, ``containers prefill and decode``."""
    return f"container{'s' if len(found) > 1 else ''} {listed(container.name for container in found)}"


def says(found: Sequence[PodContainer], singular: str, several: str) -> str:
    """``container train sets``, ``containers prefill and decode set``."""
    return f"{containers(found)} {several if len(found) > 1 else singular}"


def clause(sentence: str) -> str:
    """A sentence as a part of another one."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def gpus(found: Sequence[Gpu]) -> str:
    """As the matrix of the node calls them."""
    return listed(gpu.label for gpu in found)


def counted(number: int, noun: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
