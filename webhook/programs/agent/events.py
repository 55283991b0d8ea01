"""The Events of a node: changes of its GPUs and links between two looks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import Fabric, Gpu, LostGpu, MigMode, NodeTopology
from webhook.programs.agent.look import Look, counterpart, is_readable, vanished
from webhook.words.catalogue import nodes
from webhook.words.catalogue.entry import Entry

NOTE_LIMIT = 1024
"""The longest note of an Event, in bytes (kubernetes pkg/apis/core/validation/events.go, NoteLengthLimit)."""


class EventReason(StrEnum):
    """The reason of an Event, a word by which people and programs find it."""

    NVLINK_DOWN = "NVLinkDown"
    NVLINK_RESTORED = "NVLinkRestored"
    GPU_LOST = "GpuLost"
    GPU_RETURNED = "GpuReturned"
    FABRIC_STATE_CHANGED = "FabricStateChanged"
    TOPOLOGY_UNREADABLE = "TopologyUnreadable"
    TOPOLOGY_READABLE = "TopologyReadable"
    BANDWIDTH_BELOW_EXPECTED = "BandwidthBelowExpected"
    GPU_CORDONED = "GpuCordoned"
    GPU_UNCORDONED = "GpuUncordoned"
    GPU_TAINTED = "GpuTainted"
    GPU_UNTAINTED = "GpuUntainted"


ENTRIES: Mapping[EventReason, Entry] = MappingProxyType(
    {
        EventReason.NVLINK_DOWN: nodes.NVLINK_DOWN,
        EventReason.NVLINK_RESTORED: nodes.NVLINK_RESTORED,
        EventReason.GPU_LOST: nodes.GPU_LOST,
        EventReason.GPU_RETURNED: nodes.GPU_RETURNED,
        EventReason.FABRIC_STATE_CHANGED: nodes.FABRIC_STATE_CHANGED,
        EventReason.TOPOLOGY_UNREADABLE: nodes.TOPOLOGY_UNREADABLE,
        EventReason.TOPOLOGY_READABLE: nodes.TOPOLOGY_READABLE,
        EventReason.BANDWIDTH_BELOW_EXPECTED: nodes.BANDWIDTH_BELOW_EXPECTED,
        EventReason.GPU_CORDONED: nodes.GPU_CORDONED,
        EventReason.GPU_UNCORDONED: nodes.GPU_UNCORDONED,
        EventReason.GPU_TAINTED: nodes.GPU_TAINTED,
        EventReason.GPU_UNTAINTED: nodes.GPU_UNTAINTED,
    }
)
"""The catalogue entry with the text of each reason."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One Event on a Node, without its time and place."""

    reason: EventReason
    note: str
    """At most 1024 bytes."""
    warning: bool


def changes(now: Look, *, before: NodeTopology | None, readable: NodeTopology | None) -> tuple[NodeEvent, ...]:
    """Returns the events of a new look at a node: at most one for each reason, whatever the number of GPUs.

    Args:
        now: The new look.
        before: The topology that was published last. If it is None, all present faults are reported.
        readable: The last topology with GPUs, to compare with after the driver was away; None if unknown.
    """
    if before is None:
        return tuple(_faults(now))
    if is_readable(before) and is_readable(now.topology):
        return tuple(_differences(before, now))
    if is_readable(before):
        return tuple(_events(EventReason.TOPOLOGY_UNREADABLE, [now.topology.problem], warning=True))
    if not is_readable(now.topology):
        return ()
    count = str(len(now.topology.gpus))
    found = _differences(readable, now) if readable else _faults(now)
    return (*_events(EventReason.TOPOLOGY_READABLE, [count], warning=False), *found)


def cordon_events(cordoned: Sequence[str], uncordoned: Sequence[str]) -> tuple[NodeEvent, ...]:
    """Returns the events about GPUs, by UUID, that were added to or removed from HAMi's cordon."""
    return (
        *_events(EventReason.GPU_CORDONED, cordoned, warning=True),
        *_events(EventReason.GPU_UNCORDONED, uncordoned, warning=False),
    )


def taint_events(tainted: Sequence[str], untainted: Sequence[str]) -> tuple[NodeEvent, ...]:
    """Returns the events about GPUs, by UUID, whose taints were created or deleted."""
    return (
        *_events(EventReason.GPU_TAINTED, tainted, warning=True),
        *_events(EventReason.GPU_UNTAINTED, untainted, warning=False),
    )


def _events(reason: EventReason, found: Sequence[str], *, warning: bool) -> Iterator[NodeEvent]:
    """Yields one event for all findings, or none if there are no findings. A note over the limit is cut off."""
    if found:
        message = ENTRIES[reason].say(found="; ".join(found))
        note = str(message).encode("ascii", "replace").decode()
        yield NodeEvent(reason, note if len(note) <= NOTE_LIMIT else note[: NOTE_LIMIT - 3] + "...", warning)


def _faults(now: Look) -> Iterator[NodeEvent]:
    """Yields the events of a first look, without an earlier topology to compare with."""
    ailing = [_links_up(gpu) for gpu in now.topology.gpus if gpu.index in now.health.ailing]
    yield from _events(EventReason.NVLINK_DOWN, ailing, warning=True)
    yield from _events(EventReason.GPU_LOST, [_loss(gpu) for gpu in now.topology.lost], warning=True)
    fabric = now.topology.fabric
    if fabric and not fabric.is_well:
        yield from _fabric_change(None, fabric)
    yield from _events(EventReason.BANDWIDTH_BELOW_EXPECTED, now.health.slower, warning=True)


def _differences(before: NodeTopology, look: Look) -> Iterator[NodeEvent]:
    now = look.topology
    yield from _link_changes(before, look)
    lost = [_loss(gpu) for gpu in now.lost if counterpart(gpu, before.lost) is None]
    gone = [f"{_named(gpu)}: the driver no longer lists it" for gpu in vanished(before, now)]
    yield from _events(EventReason.GPU_LOST, lost + gone, warning=True)
    returned = [_named(gpu) for gpu in now.gpus if counterpart(gpu, before.gpus) is None]
    yield from _events(EventReason.GPU_RETURNED, returned, warning=False)
    if now.fabric:
        yield from _fabric_change(before.fabric, now.fabric)
    known = node_health(before).slower
    slower = [pair for pair in look.health.slower if pair not in known]
    yield from _events(EventReason.BANDWIDTH_BELOW_EXPECTED, slower, warning=True)


def _link_changes(before: NodeTopology, look: Look) -> Iterator[NodeEvent]:
    now = look.topology
    ailing = [gpu for gpu in now.gpus if gpu.index in look.health.ailing]
    down = [_links_up(gpu) for gpu in ailing if (old := counterpart(gpu, before.gpus)) and old.links_problem]
    restored = []
    for gpu, old in _comparable(now, before):
        said = f"{_links_up(gpu)}, {old.active_links} before"
        if gpu.active_links < old.active_links:
            down.append(said)
        elif gpu.active_links > old.active_links:
            restored.append(said)
    yield from _events(EventReason.NVLINK_DOWN, down, warning=True)
    yield from _events(EventReason.NVLINK_RESTORED, restored, warning=False)


def _comparable(now: NodeTopology, before: NodeTopology) -> Iterator[tuple[Gpu, Gpu]]:
    """Yields each GPU whose links can be compared, with the same GPU before.

    Left out are GPUs in MIG mode, and GPUs whose links cannot be read, now or before. To switch MIG mode also takes
    down the other ends of direct links. So when a GPU was switched, all GPUs without links to switches are left out.
    """
    switched_over = _in_mig_mode(now) != _in_mig_mode(before)
    for gpu in now.gpus:
        other = counterpart(gpu, before.gpus)
        if not other or MigMode.ENABLED in (gpu.mig_mode, other.mig_mode):
            continue
        if gpu.links_problem or other.links_problem:
            continue
        if gpu.switch_links or other.switch_links or not switched_over:
            yield gpu, other


def _in_mig_mode(topology: NodeTopology) -> set[str]:
    return {gpu.uuid for gpu in topology.gpus if gpu.mig_mode is MigMode.ENABLED}


def _fabric_change(before: Fabric | None, now: Fabric) -> Iterator[NodeEvent]:
    if now != before:
        note = _said(now) + (f", before {_said(before)}" if before else "")
        yield from _events(EventReason.FABRIC_STATE_CHANGED, [note], warning=not now.is_well)


def _said(fabric: Fabric) -> str:
    told = ", ".join(filter(None, (fabric.status, *fabric.ailments)))
    status = f" ({told})" if told else ""
    clique = f" in clique {fabric.clique_id} of cluster {fabric.cluster_uuid}" if fabric.cluster_uuid else ""
    return fabric.state + status + clique


def _links_up(gpu: Gpu) -> str:
    return f"{_named(gpu)}: {gpu.active_links} of {sum(link.count for link in gpu.nvlinks)} links up"


def _loss(gpu: LostGpu) -> str:
    return f"{_named(gpu)}: {gpu.problem}"


def _named(gpu: Gpu | LostGpu) -> str:
    return f"{gpu.label} {gpu.uuid}".rstrip()
