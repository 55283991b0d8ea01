"""The ill GPUs of a node and the causes, for both HAMi's cordon and the taints of devices."""

from collections.abc import Collection, Mapping
from enum import StrEnum

from webhook.hardware.topology.health import has_absent_peers
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, NodeTopology
from webhook.programs.agent.look import Look, counterpart, vanished


class Cause(StrEnum):
    """The cause for which a GPU should get no pods."""

    LINKS = "links"
    """The GPU has fewer links up than it should."""
    LOST = "lost"
    """The driver cannot reach the GPU."""


def ill_gpus(
    now: Look, before: NodeTopology | None, *, known: Mapping[str, Cause], kept: Collection[str]
) -> dict[str, Cause]:
    """Returns the ill GPUs by UUID. GPUs that were known to be ill come first, in their order.

    Args:
        now: The new look, at a node whose driver answers.
        before: The last topology with GPUs; it has the GPUs that the driver no longer lists. None if unknown.
        known: The GPUs that were ill in earlier rounds. They stay ill until a look shows that they are well again.
        kept: UUIDs of GPUs that stay ill although they are gone from the node.
    """
    return {**_still_ill(known, kept, now), **_ill(now, before)}


def _ill(now: Look, before: NodeTopology | None) -> dict[str, Cause]:
    """Returns the lost GPUs, and those with links down: by themselves, or compared with their peers or with before."""
    topology = now.topology
    gone = vanished(before, topology) if before else ()
    links = [gpu.uuid for gpu in topology.gpus if _has_lost_links(gpu, now, before, excused=bool(gone))]
    lost = [gpu.uuid or _uuid(_known(gpu, before)) for gpu in topology.lost]
    causes = dict.fromkeys(links, Cause.LINKS) | dict.fromkeys((*lost, *(gpu.uuid for gpu in gone)), Cause.LOST)
    return {uuid: cause for uuid, cause in causes.items() if uuid}


def _has_lost_links(gpu: Gpu, now: Look, before: NodeTopology | None, *, excused: bool) -> bool:
    """Returns whether a GPU has links down that should be up.

    A GPU whose links are all down looks like one that was never wired, so it is compared with before. Direct links to
    a GPU that is gone, lost or in MIG mode may be down. Links that cannot be read do not count as down.
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
    """Returns the known GPUs that this look does not show to be well. GPUs that are gone stay only if in ``kept``."""
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
    """Returns the state of a GPU in the earlier topology."""
    return counterpart(gpu, before.gpus) if before else None


def _uuid(gpu: Gpu | None) -> str:
    return gpu.uuid if gpu else ""
