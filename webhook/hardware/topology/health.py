"""The health of the NVLinks of a node."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import UNKNOWN, Gpu, MigMode, NodeTopology


class HealthState(StrEnum):
    """The values of the node label ``gpu.topology/nvlink``."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    ABSENT = "absent"
    """The node has no NVLink: no GPU has links, all GPUs are in MIG mode, or there is no GPU or no driver."""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The state of a node's NVLinks, with the reasons."""

    state: HealthState
    findings: tuple[str, ...]
    """One sentence for each fault."""
    ailing: tuple[int, ...]
    """Indices of the GPUs that have fewer links than they should, lost ones included."""
    slower: tuple[str, ...] = ()
    """The pairs whose measured bandwidth is less than that of their NVLinks, each with its slower direction."""


def node_health(topology: NodeTopology) -> NodeHealth:
    """Judges the links of a node, each GPU by itself and in comparison with the others.

    NVML cannot distinguish a broken link from one that was never wired: an H100 NVL uses 12 of its 18 links. So a link
    that is not up counts as down only if its other end is known, or if GPUs of the same product have more links up. A
    GPU with no link up is not compared where there are no NVSwitches: it has no bridge. Direct links to GPUs that are
    lost or in MIG mode are down without a fault. Links that cannot be read are not counted as down.
    """
    ailing = {gpu.index: finding for gpu in topology.gpus if (finding := _finding(gpu, topology))}
    lost = {gpu.index: f"{gpu.label} cannot be reached: {gpu.problem}" for gpu in topology.lost}
    findings = (*ailing.values(), *lost.values(), *_unread_findings(topology), *_fabric_findings(topology))
    slower = tuple(_slower_pairs(topology))
    return NodeHealth(_state(topology, (*findings, *slower)), findings, tuple(sorted(ailing | lost)), slower)


def has_absent_peers(topology: NodeTopology) -> bool:
    """Returns whether any GPU is lost or in MIG mode, so that direct links to it are down at the other end too."""
    return bool(topology.lost or any(gpu.mig_mode is MigMode.ENABLED for gpu in topology.gpus))


def _state(topology: NodeTopology, findings: Sequence[str]) -> HealthState:
    usable = _usable(topology)
    if any(gpu.active_links for gpu in usable):
        return HealthState.DEGRADED if findings else HealthState.HEALTHY
    wired = any(gpu.links_problem or any(link.target != UNKNOWN for link in gpu.nvlinks) for gpu in usable)
    fabric = topology.fabric is not None and topology.fabric.is_supported
    return HealthState.DEGRADED if usable and (wired or fabric) else HealthState.ABSENT


def _usable(topology: NodeTopology) -> list[Gpu]:
    return [gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]


def _finding(gpu: Gpu, topology: NodeTopology) -> str:
    if gpu.mig_mode is MigMode.ENABLED or gpu.links_problem:
        return ""
    excused = {UNKNOWN, *(peer.label for peer in topology.gpus if peer.mig_mode is MigMode.ENABLED)}
    down = [link for link in gpu.nvlinks if link.active < link.count and link.target not in excused]
    if down:
        targets = ", ".join(f"{link.count - link.active} of {link.count} to {link.target}" for link in down)
        return f"{gpu.label} has links down: {targets}"
    usual = _usual_links(gpu, topology)
    on_switches = any(peer.switch_links for peer in topology.gpus if peer.name == gpu.name)
    is_bridged = gpu.active_links and not has_absent_peers(topology)
    if (on_switches or is_bridged) and gpu.active_links < usual:
        return f"{gpu.label} has {gpu.active_links} links up, other {gpu.name or 'GPUs'} here have {usual}"
    return ""


def _usual_links(gpu: Gpu, topology: NodeTopology) -> int:
    """Returns the number of links that most GPUs of the same product have up.

    Of two equally frequent numbers the lesser one counts: of four cards two may share a bridge and two have none.
    """
    peers = [peer for peer in topology.gpus if peer.name == gpu.name and not peer.links_problem]
    same = [peer.active_links for peer in peers if peer.mig_mode is gpu.mig_mode]
    links, _ = max(Counter(same).items(), key=lambda entry: (entry[1], -entry[0]))
    return links


def _unread_findings(topology: NodeTopology) -> Iterator[str]:
    unread = [gpu for gpu in _usable(topology) if gpu.links_problem]
    for said in dict.fromkeys(gpu.links_problem for gpu in unread):
        labels = ", ".join(gpu.label for gpu in unread if gpu.links_problem == said)
        yield f"The NVLinks of {labels} cannot be read: {said}"


def _fabric_findings(topology: NodeTopology) -> Iterator[str]:
    fabric = topology.fabric
    if fabric and not fabric.is_settled:
        yield f"The NVLink fabric is {fabric.state}: is the fabric manager running?"
    elif fabric and fabric.is_faulty:
        yield f"The NVLink fabric reports {fabric.status}"
    elif fabric and fabric.ailments:
        yield f"The NVLink fabric reports {' and '.join(fabric.ailments)}"


def _slower_pairs(topology: NodeTopology) -> Iterator[str]:
    if not any(gpu.slower for gpu in topology.gpus):
        return
    connections = Connections(topology)
    for one, other in combinations([gpu.index for gpu in topology.gpus], 2):
        way = min(connections.direct(one, other), connections.direct(other, one), key=lambda way: way.share)
        if way.type is PathType.NVL and way.share < 1:
            expected = way.bandwidth / way.share
            yield f"GPU{one}-GPU{other}, {way.bandwidth:.1f} of {expected:.1f} GB/s"
