"""Which GPUs of a node are ill, and why: for HAMi's cordon and for the taints of devices alike."""

from collections.abc import Collection, Mapping
from enum import StrEnum

from webhook.hardware.topology.health import has_absent_peers
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, NodeTopology
from webhook.programs.agent.look import Look, counterpart, vanished


class Cause(StrEnum):
    """Why nothing should be put on a GPU."""

    LINKS = "links"
    """It has fewer links up than it should."""
    LOST = "lost"
    """The driver cannot reach it."""


def ill_gpus(
    now: Look, before: NodeTopology | None, *, known: Mapping[str, Cause], kept: Collection[str]
) -> dict[str, Cause]:
    """The ill GPUs by UUID: those that were known to be ill first, in their order.

    Args:
        now: The new look, at a node whose driver answers.
        before: The last topology with GPUs, which knows those that the driver no longer lists; None if unknown.
        known: What was ill in earlier rounds. It stays so until something shows that it is well again.
        kept: UUIDs that stay ill although they are gone from the node.
    """
    return {**_still_ill(known, kept, now), **_ill(now, before)}


def _ill(now: Look, before: NodeTopology | None) -> dict[str, Cause]:
    """GPUs that are lost, or whose links are down, by themselves, compared with their peers or with before."""
    topology = now.topology
    gone = vanished(before, topology) if before else ()
    links = [gpu.uuid for gpu in topology.gpus if _has_lost_links(gpu, now, before, excused=bool(gone))]
    lost = [gpu.uuid or _uuid(_known(gpu, before)) for gpu in topology.lost]
    causes = dict.fromkeys(links, Cause.LINKS) | dict.fromkeys((*lost, *(gpu.uuid for gpu in gone)), Cause.LOST)
    return {uuid: cause for uuid, cause in causes.items() if uuid}


def _has_lost_links(gpu: Gpu, now: Look, before: NodeTopology | None, *, excused: bool) -> bool:
    """Whether links of a GPU are down that should be up.

    Where links were up and are all down, the GPU by itself looks like one that was never wired. Direct links to a GPU
    that is gone, lost or in MIG mode are excused, and so are links that cannot be read.
    """
    if gpu.links_problem:
        return False
    old = _known(gpu, before)
    on_switches = gpu.switch_links or (old and old.switch_links)
    if excused and not on_switches:
        return False
    if gpu.index in now.health.ailing:
        return True
    lost_all = bool(old and old.active_links) and _is_without_links(gpu, Cause.LINKS)
    return lost_all and bool(on_switches or not has_absent_peers(now.topology))


def _still_ill(known: Mapping[str, Cause], kept: Collection[str], now: Look) -> dict[str, Cause]:
    """Known GPUs for which nothing shows that they are well again; of those that are gone, the ones to be kept."""
    there = {gpu.uuid: gpu for gpu in now.topology.gpus}
    return {
        uuid: cause
        for uuid, cause in known.items()
        if (_is_not_seen_well(there[uuid], cause) if uuid in there else uuid in kept)
    }


def _is_not_seen_well(gpu: Gpu, cause: Cause) -> bool:
    return _is_without_links(gpu, cause) or (cause is Cause.LINKS and bool(gpu.links_problem))


def _is_without_links(gpu: Gpu, cause: Cause) -> bool:
    return cause is Cause.LINKS and gpu.mig_mode is not MigMode.ENABLED and bool(gpu.nvlinks) and not gpu.active_links


def _known(gpu: Gpu | LostGpu, before: NodeTopology | None) -> Gpu | None:
    """The same GPU as it was before."""
    return counterpart(gpu, before.gpus) if before else None


def _uuid(gpu: Gpu | None) -> str:
    return gpu.uuid if gpu else ""
