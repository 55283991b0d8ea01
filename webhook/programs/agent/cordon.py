"""Which GPUs HAMi should leave alone, and how that is written beside what administrators wrote.

HAMi allocates no GPU whose UUID stands in the node's annotation ``hami.io/device-cordon``, a comma list (HAMi 2.10,
pkg/device/nvidia/device.go). Administrators write it too. So the agent keeps in an annotation of its own which entries
it added and why, and takes back only those.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.illness import Cause, ill_gpus
from webhook.programs.agent.look import Look, is_readable
from webhook.words import names


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
    ill = ill_gpus(now, before, known=own, kept=listed) if enabled else {}
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
