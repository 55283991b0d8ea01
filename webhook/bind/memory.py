"""Under what the wish of a pod is remembered: the 512 pods of a Job have different GPUs, and want the same of them."""

from collections.abc import Hashable

from webhook.model import names
from webhook.model.pod import Pod, PodSpec

MAX_BYTES = 64 * 1024
"""Of the containers of a pod that is worth remembering; users can make them as large as they like."""


def key_of(pod: Pod) -> Hashable | None:
    """All that its :class:`~webhook.bind.wanted.Wish` depends on, beside namespace and policy; ``None``: too large."""
    spec = pod.spec or PodSpec()
    init_containers = bytes(spec.init_containers_json)
    size = len(init_containers)
    parts: list[Hashable] = []
    for one in spec.containers or ():
        resources, env = one.resources, bytes(one.env_json)
        size += len(env)
        limits = tuple((resources.limits or {}).items()) if resources else ()
        requests = tuple((resources.requests or {}).items()) if resources else ()
        parts.append((one.name, env, limits, requests))
    if size > MAX_BYTES:
        return None
    ours = [(key, value) for key, value in pod.annotations.items() if key.startswith(names.PREFIX)]
    return (init_containers, *parts, *ours)
