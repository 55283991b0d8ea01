"""Under what the wish of a pod is remembered: the 512 pods of a Job have different GPUs, and want the same of them."""

from collections.abc import Hashable, Iterable

from webhook.model import names
from webhook.model.pod import Pod, PodSpec, Quantity

MAX_BYTES = 64 * 1024
"""Of the parts of a pod that is worth remembering; users can make its containers and annotations as large as they like
(256 KiB of annotations: apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB)."""


def key_of(pod: Pod) -> Hashable | None:
    """All that its :class:`~webhook.bind.wanted.Wish` depends on, beside namespace and policy; ``None``: too large."""
    spec = pod.spec or PodSpec()
    init_containers = bytes(spec.init_containers_json)
    ours = [(key, value) for key, value in pod.annotations.items() if key.startswith(names.PREFIX)]
    size = len(init_containers) + _size(ours)
    parts: list[Hashable] = []
    for one in spec.containers or ():
        resources, env = one.resources, bytes(one.env_json)
        limits = tuple((resources.limits or {}).items()) if resources else ()
        requests = tuple((resources.requests or {}).items()) if resources else ()
        size += len(env) + _size(limits) + _size(requests)
        parts.append((one.name, env, limits, requests))
    if size > MAX_BYTES:
        return None
    return (init_containers, *parts, *ours)


def _size(pairs: Iterable[tuple[str, Quantity]]) -> int:
    """In characters; of what is not ASCII it is less than there are bytes, but no less than a quarter of them."""
    return sum([len(key) + (len(value) if isinstance(value, str) else 1) for key, value in pairs])
