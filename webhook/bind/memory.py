"""Under what the wish of a pod is remembered: the 512 pods of a Job have different GPUs, and want the same of them."""

from collections.abc import Hashable, Mapping

from webhook.model import names
from webhook.model.pod import Pod, PodSpec, Quantity

MAX_BYTES = 64 * 1024
"""Of the parts of a pod that is worth remembering; users can make its containers and annotations as large as they like
(256 KiB of annotations: apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB)."""
QUANTITY_LENGTH = 24
"""Characters of the longest quantity, and some more: 19 digits, a sign and a suffix."""


def key_of(pod: Pod) -> Hashable | None:
    """All that its :class:`~webhook.bind.wanted.Wish` depends on, beside namespace and policy; ``None``: too large."""
    spec = pod.spec or PodSpec()
    init_containers = bytes(spec.init_containers_json)
    ours = {key: value for key, value in pod.annotations.items() if key.startswith(names.PREFIX)}
    size = len(init_containers) + sum(map(len, ours)) + sum(map(len, ours.values()))
    parts: list[Hashable] = []
    for one in spec.containers or ():
        resources, env = one.resources, bytes(one.env_json)
        limits = (resources.limits if resources else None) or {}
        requests = (resources.requests if resources else None) or {}
        size += len(env) + _size(limits) + _size(requests)
        parts.append((one.name, env, tuple(limits.items()), tuple(requests.items())))
    if size > MAX_BYTES:
        return None
    return (init_containers, *parts, *ours.items())


def _size(resources: Mapping[str, Quantity]) -> int:
    """In characters. The API server has made all quantities canonical (apimachinery pkg/api/resource/quantity.go)."""
    return sum(map(len, resources)) + QUANTITY_LENGTH * len(resources)
