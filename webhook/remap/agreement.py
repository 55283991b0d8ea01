"""Whether the driver and what was published of a node agree."""

from collections.abc import Iterator

from webhook.remap.difference import named
from webhook.topology.model import Gpu, NodeTopology

NVML = "nvml"
"""Source of topologies that hold links; those of other sources are approximations."""


def unseen(published: NodeTopology, real: NodeTopology) -> tuple[Gpu, ...]:
    """GPUs that were published and that the driver does not show here, not even as lost."""
    uuids = {gpu.uuid for gpu in real.gpus} | {gpu.uuid for gpu in real.lost}
    lost = {gpu.index for gpu in real.lost}
    return tuple(gpu for gpu in published.gpus if gpu.uuid and gpu.uuid not in uuids and gpu.index not in lost)


def disagreements(published: NodeTopology, real: NodeTopology) -> Iterator[str]:
    """A sentence for each GPU of which both tell, and not the same."""
    for gpu in real.gpus:
        other = published.gpu(gpu.uuid) if gpu.uuid else None
        if other is None:
            yield f"{named(gpu)} was not published"
        elif other.index != gpu.index:
            yield f"{named(gpu)} was published as {other.label}"
        elif published.source == NVML:
            yield from _links_differ(other, gpu)


def _links_differ(published: Gpu, real: Gpu) -> Iterator[str]:
    before, now = _links(published), _links(real)
    for target in dict.fromkeys((*before, *now)):
        if before.get(target, 0) != now.get(target, 0):
            yield f"{real.label} has {now.get(target, 0)} NVLinks to {target}, published were {before.get(target, 0)}"


def _links(gpu: Gpu) -> dict[str, int]:
    return {link.target: link.active for link in gpu.nvlinks if link.active}
