"""The comparison of the driver's topology with the published one."""

from collections.abc import Collection, Iterator, Mapping

from webhook.hardware.topology.model import Gpu, LostGpu, NodeTopology
from webhook.programs.remap.difference import named

NVML = "nvml"
"""The source of topologies with exact links. Topologies of other sources are approximations."""


def unseen(published: NodeTopology, real: NodeTopology) -> tuple[Gpu, ...]:
    """Returns the published GPUs that the driver does not list here, not even as lost."""
    uuids = {gpu.uuid for gpu in real.gpus} | {gpu.uuid for gpu in real.lost}
    lost = {gpu.index for gpu in real.lost}
    return tuple(gpu for gpu in published.gpus if gpu.uuid and gpu.uuid not in uuids and gpu.index not in lost)


def disagreements(published: NodeTopology, real: NodeTopology) -> Iterator[str]:
    """Yields a sentence for each difference between the published and the driver's data of a GPU.

    If GPUs are hidden, NVML numbers the others from 0 again, so numbers are not compared. Links to hidden GPUs are not
    compared either, because their targets are not known here.
    """
    hidden = unseen(published, real)
    labels = _labels_here(published, real, hidden)
    for gpu in real.gpus:
        other = published.gpu(gpu.uuid) if gpu.uuid else None
        if other is None:
            yield f"{named(gpu)} was not published"
        elif other.index != gpu.index and not hidden:
            yield f"{named(gpu)} was published as {other.label}"
        elif published.source == NVML:
            yield from _links_differ(_links(other, labels), _links(gpu, {}), of=named(gpu) if hidden else gpu.label)


def _labels_here(published: NodeTopology, real: NodeTopology, hidden: Collection[Gpu]) -> dict[str, str]:
    """Returns the labels here of the published GPUs, by their published labels; hidden GPUs have an empty label."""
    listed: tuple[Gpu | LostGpu, ...] = (*real.gpus, *real.lost)
    here = {gpu.uuid: gpu.label for gpu in listed if gpu.uuid}
    labels = {gpu.label: here.get(gpu.uuid, gpu.label) for gpu in published.gpus}
    return labels | {gpu.label: "" for gpu in hidden}


def _links_differ(before: Mapping[str, int], now: Mapping[str, int], *, of: str) -> Iterator[str]:
    for target in dict.fromkeys((*before, *now)):
        if before.get(target, 0) != now.get(target, 0):
            yield f"{of} has {now.get(target, 0)} NVLinks to {target}, published were {before.get(target, 0)}"


def _links(gpu: Gpu, labels: Mapping[str, str]) -> dict[str, int]:
    """Returns the numbers of active links by target, without the links to targets without a name."""
    found = {labels.get(link.target, link.target): link.active for link in gpu.nvlinks if link.active}
    found.pop("", None)
    return found
