"""The output annotations of a pod."""

from collections.abc import Collection, Iterable

from webhook.decisions.resolve.resolve import Resolution
from webhook.words import names

NODE_TOPOLOGY_LIMIT = 96 * 1024
"""In bytes. The topology becomes an environment variable, which may have 128 KiB in Linux (execve(2), MAX_ARG_STRLEN),
and an annotation; all together may have 256 KiB (apimachinery pkg/api/validation/objectmeta.go)."""

FOR_PEOPLE = (names.LINK, names.BANDWIDTH, names.RING_ORDER, names.NUMA, names.SATISFIED)
"""The annotations that no container refers to."""
UNKNOWN = "unknown"
"""The value of ``satisfied`` while it is not known whether the requirements are met."""

_BY_VARIABLE = {
    names.ENV_NCCL_P2P_LEVEL: names.NCCL_P2P_LEVEL,
    names.ENV_NCCL_NVLS_ENABLE: names.NCCL_NVLS,
}


def annotations(resolution: Resolution, referred: Collection[str]) -> dict[str, str]:
    """Returns the annotations of a pod.

    Args:
        resolution: The resolution of its GPUs.
        referred: The annotations that its containers refer to. Of the annotations for containers, only these are
            written.
    """
    wanted = {key: value for key, value in _for_containers(resolution).items() if key in referred}
    if names.VISIBLE_UUIDS in referred:
        wanted[names.VISIBLE_UUIDS] = resolution.visible_uuids
    if names.NODE_TOPOLOGY in referred and len(resolution.node.document) <= NODE_TOPOLOGY_LIMIT:
        wanted[names.NODE_TOPOLOGY] = resolution.node.document
    return wanted | _for_people(resolution)


def all_annotations(resolution: Resolution) -> dict[str, str]:
    """Returns all annotations that a pod may have, whatever its containers refer to."""
    return annotations(resolution, {names.VISIBLE_UUIDS, names.NODE_TOPOLOGY, *_for_containers(resolution)})


def _for_containers(resolution: Resolution) -> dict[str, str]:
    found = {
        given.container.visible_key: given.cuda_visible_devices for given in resolution.containers if given.cuda_indices
    }
    return found | nccl_annotations(resolution.nccl)


def nccl_annotations(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the annotations from which containers take these variables of NCCL."""
    return {_BY_VARIABLE.get(name, names.NCCL_ENV_PREFIX + name): value for name, value in values}


def _for_people(resolution: Resolution) -> dict[str, str]:
    numa = sorted({node for gpu_set in resolution.sets for node in gpu_set.numa_nodes})
    worst = None if resolution.doubt else resolution.worst
    return {
        names.LINK: worst.link.value if worst else "",
        names.BANDWIDTH: worst.bandwidth_text if worst else "",
        names.RING_ORDER: ";".join([gpu_set.ring_text for gpu_set in resolution.sets]) if worst else "",
        names.NUMA: ",".join(map(str, numa)),
        names.SATISFIED: satisfied_text(resolution),
    }


def satisfied_text(resolution: Resolution) -> str:
    """Returns whether the requirements are met: ``true``, ``false`` or ``unknown``."""
    if resolution.unmet:
        return "false"
    return UNKNOWN if resolution.undecided else "true"
