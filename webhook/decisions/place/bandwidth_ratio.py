"""The bandwidth that a pod's cards have, as a ratio of the best that as many cards of its node can have.

All cards of the node count for the best, also those that pods hold, so the ratio of a pod changes only when links of
its node do. It tells how well pods were placed on the machines that they run on: docs/observability.md.
"""

from collections.abc import Sequence

from webhook.decisions.place.occupancy import Occupied, sets_of
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.model import MigMode
from webhook.hardware.topology.planning.fleet import Build


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
    usable = {gpu.uuid: gpu.index for gpu in node.topology.gpus if gpu.mig_mode is not MigMode.ENABLED}
    if not usable.keys() >= set(uuids):
        return None
    given = node.gpu_set([usable[uuid] for uuid in uuids])
    if node.doubt(given):
        return None
    best = build.choice(frozenset(usable.values()), len(given.gpus)).chosen.bandwidth
    # The best set is chosen by the class of its links first, so a set of a lesser class may have more bandwidth.
    return min(1.0, round(given.bandwidth / best, 4)) if best else None
