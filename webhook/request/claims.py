"""Devices that a pod gets by resource claims (Dynamic Resource Allocation), and not from a device plugin.

What a claim is for says its DeviceClass, which is named in another object. Only what the pod itself says is read here.
"""

import msgspec

from webhook.model import names
from webhook.model.pod import Container, Pod, PodSpec, is_present
from webhook.request.resources import PodRequests

# The classes of NVIDIA's driver for channels and daemons of a ComputeDomain: its chart, templates/deviceclass-*.yaml.
_WITHOUT_GPUS = "compute-domain-"


class PodClaims(msgspec.Struct, frozen=True, gc=False):
    """The claims that containers of a pod refer to; of what kind the devices are is not known."""

    names: tuple[str, ...]
    """Of entries of ``spec.resourceClaims``, and of extended resources that are named after a DeviceClass."""
    of_hami: bool
    """Whether HAMi-DRA's webhook made them in the place of limits."""


def read_claims(pod: Pod, requests: PodRequests) -> PodClaims | None:
    """The claims of a pod; ``None`` if no container refers to one that may be for GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    of_hami = pod.labels.get(names.HAMI_DRA) == "true"
    found = dict.fromkeys((*_referred_claims(pod.spec or PodSpec()), *_class_resources(requests)))
    return PodClaims(tuple(found), of_hami) if found or of_hami else None


def _referred_claims(spec: PodSpec) -> list[str]:
    if not is_present(spec.resource_claims_json):
        return []
    declared = set(spec.resource_claims)
    containers: list[Container] = [*(spec.init_containers or ()), *(spec.containers or ())]
    return [
        name
        for container in containers
        if container.resources
        for name in container.resources.claims
        if name in declared
    ]


def _class_resources(requests: PodRequests) -> list[str]:
    """Extended resources that are named after a DeviceClass."""
    return [
        resource
        for container in requests.containers
        if container.spec.resources
        for section in (container.spec.resources.limits, container.spec.resources.requests)
        for resource in section or ()
        if resource.startswith(names.CLASS_RESOURCE_PREFIX)
        and not resource.removeprefix(names.CLASS_RESOURCE_PREFIX).startswith(_WITHOUT_GPUS)
    ]
