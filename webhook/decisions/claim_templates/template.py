"""The ResourceClaimTemplate, and its comment."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.decisions.claim_templates.alternatives import MAX_ALTERNATIVES, Alternative, Found
from webhook.decisions.claim_templates.selectors import OUTSIDE_PARTITIONS, ByProduct
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.choice import NoChoice, select
from webhook.hardware.topology.selection.request import Constraints, Request
from webhook.words.errors import GpuTopologyError
from webhook.words.listing import counted
from webhook.words.printable import printable
from webhook.words.version import Version

MAX_GPUS = 32
"""The most devices of one claim: k8s.io/api resource/v1, AllocationResultsMaxSize."""
FIRST_VERSION = Version(1, 34)
"""The first version that serves resource.k8s.io/v1 and knows ``firstAvailable``, both by default: kubernetes
pkg/features/kube_features.go and pkg/controlplane/instance.go."""
REQUEST = "gpus"
"""The name of the only request."""
PARTITION = "gpu.nvidia.com/partition{}"
"""The attribute with the number of the partition of this size that a GPU is in: dra-driver-nvidia-gpu 0.5.0."""
NUMA_NODE = "resource.kubernetes.io/numaNode"
"""The attribute with the NUMA node of a device, from Kubernetes 1.37 on: KEP-6072. NVIDIA's driver publishes it after
0.5.0: https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/1165."""
SAME_NUMA_COMMENT = f"Its GPUs are on one NUMA node. GPUs whose driver does not publish {NUMA_NODE} never satisfy it."
_LISTED = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateNames:
    """The names of the object, and the class of the devices that it asks for."""

    name: str
    namespace: str = ""
    """The namespace of the object; empty: the one that kubectl uses."""
    device_class: str = "gpu.nvidia.com"


def check_version(version: Version) -> None:
    """Raises GpuTopologyError if this version of Kubernetes cannot serve the template."""
    if version < FIRST_VERSION:
        said = f"{version.major}.{version.minor}"
        raise GpuTopologyError(
            f"Kubernetes {said}: expected 1.34 or later, whose API servers serve resource.k8s.io/v1 by default and know"
            " alternatives (firstAvailable). Ask for GPUs by their count there"
        )


def template(
    names: TemplateNames, count: int, alternatives: Sequence[Alternative], *, same_numa: bool = False
) -> dict[str, Any]:
    """Returns the ResourceClaimTemplate.

    Args:
        names: The names of the object.
        count: The number of GPUs of a claim.
        alternatives: The alternatives, best first, from one to ``MAX_ALTERNATIVES``.
        same_numa: Whether the GPUs have to be on one NUMA node.
    """
    asked = [_asked(names.device_class, count, alternative) for alternative in alternatives]
    # Without a name of an alternative a constraint is for all alternatives of the request.
    constraints = [{"requests": [REQUEST], "matchAttribute": NUMA_NODE}] if same_numa else []
    limited = [number for number, each in enumerate(alternatives, 1) if each.partition]
    if limited:
        every = len(limited) == len(alternatives)
        requests = [REQUEST] if every else [f"{REQUEST}/{_name(number)}" for number in limited]
        constraints.append({"requests": requests, "matchAttribute": PARTITION.format(count)})
    devices: dict[str, Any] = {"constraints": constraints} if constraints else {}
    if len(asked) == 1:
        request: dict[str, Any] = {"name": REQUEST, "exactly": asked[0]}
    else:
        numbered = [{"name": _name(number)} | each for number, each in enumerate(asked, 1)]
        request = {"name": REQUEST, "firstAvailable": numbered}
    metadata = {"name": names.name} | ({"namespace": names.namespace} if names.namespace else {})
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": {"devices": {"requests": [request]} | devices}},
    }


def _asked(device_class: str, count: int, alternative: Alternative) -> dict[str, Any]:
    expressions = [alternative.selector.expression, *([OUTSIDE_PARTITIONS] if alternative.outside_partitions else [])]
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, "selectors": selectors}


def _name(number: int) -> str:
    return f"island-{number}"


def comment(
    request: Request, found: Found, topologies: Mapping[str, NodeTopology], wanted: Collection[str] | None = None
) -> list[str]:
    """Returns the comment, line by line: the alternatives, and when to print them anew.

    Args:
        request: The request of the user.
        found: The alternatives that were found, at least one.
        topologies: The topologies of all nodes.
        wanted: The nodes whose GPUs the claim should get; None for all.
    """
    lines = [f"A claim of this template gets {request.count} GPUs of one node with {_phrase(request.constraints)}."]
    if len(found.alternatives) == 1:
        lines.append(_told(found.alternatives[0], topologies, wanted))
    else:
        lines.append("The scheduler takes the first of these alternatives that is free:")
        told = (_told(each, topologies, wanted) for each in found.alternatives)
        lines += [f"- {_name(number)}: {said}" for number, said in enumerate(told, 1)]
    if any(isinstance(each.selector, ByProduct) for each in found.alternatives):
        lines.append(
            "Keep its pods away from nodes that are not known here: GPUs of these products may be unlinked there."
        )
    return [*lines, *omissions(found, topologies, wanted), *_lasting(topologies)]


def omissions(found: Found, topologies: Mapping[str, NodeTopology], wanted: Collection[str] | None = None) -> list[str]:
    """Returns lines about linked sets that a claim never gets, and what to do about them; empty if there are none."""
    lines = []
    if found.left_out:
        more = len(found.left_out)
        lines.append(
            f"Left out: {counted(more, 'more alternative')}, because a claim has room for"
            f" {MAX_ALTERNATIVES}. Print one template for each pool of nodes (--node-pool), or raise --min-bandwidth:"
        )
        lines += [f"- {_told(each, topologies, wanted)}" for each in found.left_out[:_LISTED]]
        if more > _LISTED:
            lines.append(f"- and {more - _LISTED} more")
    if found.nameless:
        lines.append(
            f"Left out: {_listed(found.nameless)}, because neither UUIDs of their own nor products and PCI bus ids of"
            " GPUs there are known. Run the agent there."
        )
    return lines


def refusal(request: Request, topologies: Iterable[NodeTopology]) -> str:
    """Returns why there is no alternative, with the lack of each node."""
    known = list(topologies)
    reasons = [f"node {printable(each.node)}: {_lack(request, each)}" for each in known[:_LISTED]]
    if len(known) > _LISTED:
        reasons.append(f"{len(known) - _LISTED} more nodes have none either")
    asked = f"no node has {request.count} GPUs with {_phrase(request.constraints)} that a claim can name"
    return f"{asked}: {'; '.join(reasons)}" if reasons else f"{asked}: no node is known"


def _lack(request: Request, topology: NodeTopology) -> str:
    choice = select(topology, request)
    if isinstance(choice, NoChoice):
        return printable(choice.reason)
    if choice.doubt:
        return printable(choice.doubt)
    lacks = [printable(unmet.evidence) for unmet in choice.unmet]
    return "; ".join(lacks) or "neither UUIDs of their own nor products and PCI bus ids of its GPUs are known"


def _phrase(asked: Constraints) -> str:
    nvlink = "NVLink between every pair" if asked.require_nvlink else ""
    bandwidth = f"at least {asked.min_bandwidth:g} GB/s between every pair" if asked.min_bandwidth else ""
    return " and ".join(filter(None, (nvlink, bandwidth)))


def _told(alternative: Alternative, topologies: Mapping[str, NodeTopology], wanted: Collection[str] | None) -> str:
    nodes: dict[tuple[int, ...], list[str]] = {}
    for node, gpus in alternative.reach.items():
        if wanted is None or node in wanted:
            nodes.setdefault(gpus, []).append(node)
    parts = [f"{_gpus(gpus)} of {_listed(names)}" for gpus, names in list(nodes.items())[:_LISTED]]
    if len(nodes) > _LISTED:
        parts.append(f"others of {sum(map(len, list(nodes.values())[_LISTED:]))} more nodes")
    whole = "; exactly one partition of the NVSwitches" if alternative.partition else ""
    return f"{alternative.quality}: {'; '.join(parts)}{whole}{_exceptions(alternative, topologies)}"


def _exceptions(alternative: Alternative, topologies: Mapping[str, NodeTopology]) -> str:
    selector = alternative.selector
    if not isinstance(selector, ByProduct) or not selector.without:
        return ""
    cards = [
        f"{gpu.label} of {printable(node.node)}"
        for node in topologies.values()
        for gpu in node.gpus
        if gpu.uuid in selector.without
    ]
    return f"; without {_listed(cards)}, linked less"


def _gpus(gpus: Sequence[int]) -> str:
    return ", ".join(f"GPU{index}" for index in gpus)


def _listed(words: Sequence[str]) -> str:
    shown = [printable(word) for word in words[:_LISTED]]
    return ", ".join(shown) + (f" and {len(words) - _LISTED} more" if len(words) > _LISTED else "")


def _lasting(topologies: Mapping[str, NodeTopology]) -> Iterator[str]:
    number = len(topologies)
    yield f"Made from the topolog{'y' if number == 1 else 'ies'} of {counted(number, 'node')}."
    yield "Print it anew when nodes or GPUs are added or replaced, and when NVLinks fail or are repaired: it does not"
    yield "change by itself, and claims that exist keep what they have."
