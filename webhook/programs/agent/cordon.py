"""The cordon of ill GPUs in HAMi's annotation of a node, beside the entries of administrators.

HAMi allocates no GPU whose UUID stands in the node's annotation ``hami.io/device-cordon``, a comma-separated list
(HAMi 2.10, pkg/device/nvidia/device.go). Administrators write this annotation too. So the agent records the entries
that it added, with their causes, in an annotation of its own, and removes only those.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.illness import Cause, ill_gpus
from webhook.programs.agent.look import Look, is_readable
from webhook.words import names


@dataclass(frozen=True, slots=True)
class CordonChange:
    """The new values of both annotations; None removes an annotation. ``added`` and ``removed`` are UUIDs."""

    device_cordon: str | None
    cordoned: str | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def cordon_change(
    annotations: Mapping[str, str], now: Look, *, before: NodeTopology | None, enabled: bool
) -> CordonChange | None:
    """Returns the change of a node's annotations, or None if there is nothing to change.

    An entry of the agent that a person removed from HAMi's list stays out for as long as the GPU is ill.

    Args:
        annotations: The annotations that the node has now.
        now: The new look at the node. While its driver does not answer, nothing changes.
        before: The last topology with GPUs; it has the GPUs that the driver no longer lists. None if unknown.
        enabled: Whether the agent may cordon GPUs. If not, it removes its own entries.
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
    """Parses the agent's own record, entries ``UUID=cause``. A record that was edited is read as far as possible."""
    found = {}
    for entry in _entries(text):
        uuid, _, cause = entry.partition("=")
        found[uuid] = Cause.LOST if cause == Cause.LOST else Cause.LINKS
    return found
