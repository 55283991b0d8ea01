"""A choice of GPUs as JSON, for programs. Bandwidths are GB/s per direction."""

from typing import Any

from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.planning.plan import NodeShare, Plan
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.sets import models_of


def choice_document(topology: NodeTopology, choice: Choice) -> dict[str, Any]:
    """Return the choice on one node as a document."""
    chosen = choice.chosen
    gpus = {gpu.index: gpu for gpu in topology.gpus}
    unknown = {"link": "unknown"} | dict.fromkeys(("bandwidth", "meanBandwidth", "ringBandwidth", "allReduce"))
    return {
        "node": topology.node,
        "gpus": list(chosen.gpus),
        "uuids": [gpus[index].uuid for index in chosen.gpus],
        "models": sorted(models_of(topology, chosen.gpus)),
        "link": chosen.link.value,
        "bandwidth": round(chosen.bandwidth, 3),
        "weakestPair": list(chosen.weakest.gpus) if chosen.weakest else [],
        "meanBandwidth": round(chosen.mean_bandwidth, 3),
        "ring": list(chosen.ring),
        "ringBandwidth": round(chosen.ring_bandwidth, 3),
        "ncclFindsRing": chosen.nccl_finds_ring,
        "allReduce": round(chosen.all_reduce, 3),
        "numaNodes": list(chosen.numa_nodes),
        "nics": [{"name": nic.name, "path": nic.path.value, "gpus": list(nic.gpus)} for nic in chosen.nics],
        "loss": round(choice.loss, 4),
        "exact": choice.exact,
        "unmet": [{"constraint": unmet.constraint.value, "evidence": unmet.evidence} for unmet in choice.unmet],
    } | (unknown | {"linksProblem": choice.doubt} if choice.doubt else {})


def plan_document(topologies: dict[str, NodeTopology], found: Plan) -> dict[str, Any]:
    """Return the choice on several nodes as a document, in the order of the ring over them."""
    return {
        "count": found.count,
        "ringBandwidth": round(found.ring_bandwidth, 3),
        "allReduce": round(found.all_reduce, 3),
        "met": found.meets_constraints,
        "models": list(found.models),
        "nodes": [_share_document(topologies[share.node], share) for share in found.shares],
    }


def _share_document(topology: NodeTopology, share: NodeShare) -> dict[str, Any]:
    path = share.path
    return choice_document(topology, share.choice) | {
        "networkBandwidth": round(share.network, 3),
        "path": {"gpus": list(path.gpus), "entryNic": path.entry_nic, "exitNic": path.exit_nic},
    }
