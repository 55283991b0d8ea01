"""Under what the wish of a pod is remembered: the 512 pods of a Job have different GPUs, and want the same of them."""

from collections.abc import Hashable

from webhook.model import names
from webhook.model.pod import Pod, PodSpec


def key_of(pod: Pod) -> Hashable:
    """All that its :class:`~webhook.bind.wanted.Wish` depends on, beside namespace and policy."""
    spec = pod.spec or PodSpec()
    parts: list[Hashable] = [bytes(spec.init_containers_json)]
    for one in spec.containers or ():
        resources = one.resources
        limits = (resources.limits if resources else None) or {}
        requests = (resources.requests if resources else None) or {}
        parts += one.name, bytes(one.env_json), tuple(limits.items()), tuple(requests.items())
    parts += [entry for entry in pod.annotations.items() if entry[0].startswith(names.PREFIX)]
    return tuple(parts)
