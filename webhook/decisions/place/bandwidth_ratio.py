"""The bandwidth that a pod's cards have, as a ratio of the best that as many cards of its node can have.

All cards of the node count for the best, also those that pods hold, so the ratio of a pod changes only when links of
its node do. It tells how well pods were placed on the machines that they run on: docs/observability.md.
"""

from collections.abc import Sequence
from functools import lru_cache

from webhook.decisions.place.occupancy import Occupied, sets_of
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.model import MigMode
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.sets import assess

_RATIOS_KEPT = 4096
"""Nodes of one build mostly have the same sets: pairs, quads and all cards."""


def bandwidth_ratio(found: Occupied, node: KnownNode, build: Build) -> float | None:
    """Returns the ratio of a pod, from 0 to 1; the least one if its containers have sets of their own.

    It is None for a pod whose cards have no pairs, or are not all known with their links.

    Args:
        found: The pod with its cards.
        node: The node of the pod.
        build: The build of the node.
    """
    ratios = [_ratio(uuids, node, build) for uuids in sets_of(found)]
    known = [ratio for ratio in ratios if ratio is not None]
    return min(known) if known and len(known) == len(ratios) else None


def _ratio(uuids: Sequence[str], node: KnownNode, build: Build) -> float | None:
    gpus = [gpu for uuid in uuids if (gpu := node.gpu(uuid, None)) and gpu.mig_mode is not MigMode.ENABLED]
    indices = tuple(sorted({gpu.index for gpu in gpus}))
    if len(indices) < len(uuids) or (node.unread and node.doubt(node.gpu_set(indices))):
        return None
    return _ratio_of(build, indices)


@lru_cache(_RATIOS_KEPT)
def _ratio_of(build: Build, indices: tuple[int, ...]) -> float | None:
    given = assess(build.topology, indices, build.connections)
    usable = frozenset(gpu.index for gpu in build.topology.gpus if gpu.mig_mode is not MigMode.ENABLED)
    best = build.choice(usable, Request(count=len(indices))).chosen.bandwidth
    # The best set is chosen by the class of its links first, so a set of a lesser class may have more bandwidth.
    return min(1.0, round(given.bandwidth / best, 4)) if best else None
