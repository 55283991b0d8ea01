"""Which GPUs HAMi should leave alone, and how that is written beside what administrators wrote.

HAMi allocates no GPU whose UUID stands in the node's annotation ``hami.io/device-cordon``, a comma list (HAMi 2.10,
pkg/device/nvidia/device.go). Administrators write it too. So the agent keeps in an annotation of its own which entries
it added and why, and takes back only those.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.agent.look import Look, counterpart, is_readable, vanished
from webhook.model import names
from webhook.topology.health import has_absent_peers
from webhook.topology.model import Gpu, LostGpu, MigMode, NodeTopology


class Cause(StrEnum):
    """Why the agent cordoned a GPU."""

    LINKS = "links"
    """It has fewer links up than it should."""
    LOST = "lost"
    """The driver cannot reach it."""


@dataclass(frozen=True, slots=True)
class CordonChange:
    """New values of both annotations; None removes one. ``added`` and ``removed`` are UUIDs."""

    device_cordon: str | None
    cordoned: str | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def cordon_change(
    annotations: Mapping[str, str], now: Look, *, before: NodeTopology | None, enabled: bool
) -> CordonChange | None:
    """What to change at the annotations of a node, or None.

    An entry of the agent that a person took out of HAMi's list stays out for as long as the GPU is ill.

    Args:
        annotations: Of the node, as they are.
        now: The new look at it. As long as the driver is away, nothing is known and nothing changes.
        before: The last topology with GPUs, which knows those that the driver no longer lists; None if unknown.
        enabled: Whether the agent may cordon. If not, it takes its own entries back.
    """
    if enabled and not is_readable(now.topology):
        return None
    listed = _entries(annotations.get(names.HAMI_DEVICE_CORDON, ""))
    own = _causes(annotations.get(names.CORDONED, ""))
    ill = {**_still_ill(own, listed, now), **_ill(now, before)} if enabled else {}
    added = tuple(uuid for uuid in ill if uuid not in listed and uuid not in own)
    removed = tuple(uuid for uuid in own if uuid not in ill and uuid in listed)
    kept = {uuid: ill[uuid] for uuid in own if uuid in ill} | {uuid: ill[uuid] for uuid in added}
    if not added and not removed and kept == own:
        return None
    remaining = [uuid for uuid in listed if uuid not in removed]
    return CordonChange(
        device_cordon=",".join([*remaining, *added]) or None,
        cordoned=",".join(f"{uuid}={cause}" for uuid, cause in kept.items()) or None,
        added=added,
        removed=removed,
    )


def _entries(text: str) -> list[str]:
    return list(dict.fromkeys(entry.strip() for entry in text.split(",") if entry.strip()))


def _causes(text: str) -> dict[str, Cause]:
    """The agent's own record, ``UUID=cause`` each; what others may have made of it is read as far as possible."""
    found = {}
    for entry in _entries(text):
        uuid, _, cause = entry.partition("=")
        found[uuid] = Cause.LOST if cause == Cause.LOST else Cause.LINKS
    return found


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


def _still_ill(own: Mapping[str, Cause], listed: Collection[str], now: Look) -> dict[str, Cause]:
    """Own entries for which nothing shows that they are well again; of cards that are gone, those still cordoned."""
    there = {gpu.uuid: gpu for gpu in now.topology.gpus}
    return {
        uuid: cause
        for uuid, cause in own.items()
        if (_is_not_seen_well(there[uuid], cause) if uuid in there else uuid in listed)
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
