"""How findings name things."""

from collections.abc import Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.hardware.topology.model import Gpu
from webhook.words.listing import listed

HAVE = "Have the permission"
"""Begins a remedy for what may not be read."""


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
