"""The words with which findings name containers and GPUs."""

from collections.abc import Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.hardware.topology.model import Gpu
from webhook.words.listing import listed

HAVE = "Have the permission"
"""The beginning of a remedy where a permission to read is missing."""


def containers(found: Sequence[PodContainer]) -> str:
    """Returns the containers in words: ``container train``, ``containers prefill and decode``."""
    return f"container{'s' if len(found) > 1 else ''} {listed(container.name for container in found)}"


def says(found: Sequence[PodContainer], singular: str, several: str) -> str:
    """Returns containers with a verb: ``container train sets``, ``containers prefill and decode set``."""
    return f"{containers(found)} {several if len(found) > 1 else singular}"


def gpus(found: Sequence[Gpu]) -> str:
    """Returns the names of GPUs in the matrix of their node."""
    return listed(gpu.label for gpu in found)
