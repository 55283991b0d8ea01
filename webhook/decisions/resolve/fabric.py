"""NVLink between nodes (MNNVL), and the settings with which a job of several nodes does not use it or fails.

NCCL uses a fabric of several nodes where its state is *completed*, its cluster has a UUID and cuMem is on. Memory
handles then need an IMEX channel, without which NCCL ends with an error. Source: NCCL src/mnnvl.cc, docs/nccl.md.
"""

from collections.abc import Collection
from dataclasses import dataclass

from webhook.hardware.topology.model import NodeTopology
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.links import FABRIC_FORCED, FABRIC_NOT_USED, NO_IMEX_CHANNEL


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricUse:
    """The settings of a pod for NVLink between nodes."""

    spans_nodes: bool = False
    """Whether its job is known to run on several nodes."""
    is_forced: bool = False
    """Whether a container without an IMEX channel has ``NCCL_MNNVL_ENABLE=1``, with which NCCL looks for a fabric on
    one node too: NCCL 2.30.7 src/init.cc:1073."""
    is_off: bool = False
    """Whether the pod itself switches NVLink between nodes off."""
    cumem_is_off: bool = False
    """Whether a container of the pod has ``NCCL_CUMEM_ENABLE=0``."""
    has_channel: bool = False
    """Whether something in the pod may give it an IMEX channel."""


def spans_nodes(labels: Collection[str], variables: Collection[str]) -> bool:
    """Returns whether labels or variables of a pod are those by which operators mark jobs of several nodes."""
    return not names.MULTINODE_LABELS.isdisjoint(labels) or any(name in variables for name in names.MULTINODE_VARIABLES)


def reaches_other_nodes(topology: NodeTopology) -> bool:
    """Returns whether NVLink connects this node with others."""
    fabric = topology.fabric
    return fabric is not None and fabric.state == "completed" and not fabric.is_faulty and bool(fabric.cluster_uuid)


def fabric_problem(use: FabricUse, topology: NodeTopology) -> Message | None:
    """Returns why the job does not use NVLink between nodes, or fails with it; ``None`` if no reason is known."""
    if use.is_off or not reaches_other_nodes(topology):
        return None
    if not use.spans_nodes:
        return FABRIC_FORCED.say() if use.is_forced else None
    if use.cumem_is_off:
        return FABRIC_NOT_USED.say()
    if not use.has_channel:
        return NO_IMEX_CHANNEL.say()
    return None
