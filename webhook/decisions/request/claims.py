"""Devices that a pod gets by resource claims (Dynamic Resource Allocation), and not from a device plugin.

Another object, the claim, names the DeviceClass and so the kind of devices. Only the pod itself is read here.
"""

from collections.abc import Mapping

import msgspec

from webhook.decisions.claims.pod import EXTENDED, used_entries
from webhook.decisions.claims.requests import NO_CLAIMS, ClaimedGpus, ClaimView, claimed_by_specs
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.resources import PodRequests
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Pod
from webhook.words import names

# The classes of NVIDIA's driver for channels and daemons of a ComputeDomain: its chart, templates/deviceclass-*.yaml.
_WITHOUT_GPUS = "compute-domain-"


class PodClaims(msgspec.Struct, frozen=True, gc=False):
    """The claims that containers of a pod refer to; the kind of their devices is not known."""

    names: tuple[str, ...]
    """Names of entries of ``spec.resourceClaims``, and of extended resources that are named after a DeviceClass."""
    of_hami: bool
    """Whether HAMi-DRA's webhook made the claims in place of limits."""


def read_claims(pod: Pod, requests: PodRequests) -> PodClaims | None:
    """Returns the claims of a pod; ``None`` if no container refers to one that may be for GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    of_hami = pod.labels.get(names.HAMI_DRA) == "true"
    referred = [entry for entry in used_entries(pod) if entry != EXTENDED] if pod.has_claims else []
    found = dict.fromkeys((*referred, *_class_resources(requests)))
    return PodClaims(tuple(found), of_hami) if found or of_hami else None


def _class_resources(requests: PodRequests) -> list[str]:
    """Returns the extended resources that are named after a DeviceClass and may be GPUs."""
    return [
        resource
        for container in requests.containers
        if container.spec.resources
        for section in (container.spec.resources.limits, container.spec.resources.requests)
        for resource in section or ()
        if resource.startswith(names.CLASS_RESOURCE_PREFIX)
        and not resource.removeprefix(names.CLASS_RESOURCE_PREFIX).startswith(_WITHOUT_GPUS)
    ]


def claim_view(
    pod: Pod, specs: Mapping[str, ClaimSpec | None], policy: AdmitPolicy, cluster: ClusterFacts
) -> ClaimView:
    """Returns the view of a pod's claims before they are allocated.

    Args:
        pod: The pod.
        specs: The specs of its claims or their templates, by entries of ``spec.resourceClaims``; ``None`` where one
            cannot be read.
        policy: The configuration.
        cluster: The facts about the cluster, overruled by the configuration.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if not policy.claims.enabled:
        return NO_CLAIMS
    containers = claimed_by_specs(pod, specs, policy.claims)
    if pod.labels.get(names.HAMI_DRA) == "true":
        containers = {name: _of_hami(claimed) for name, claimed in containers.items()}
    return ClaimView(
        settings=policy.claims,
        containers=containers,
        resources=cluster.claimed or frozenset(),
        preloading_driver=names.HAMI_DEVICE_CLASS if cluster.has_hami_dra else "",
    )


def _of_hami(claimed: ClaimedGpus) -> ClaimedGpus:
    """Marks a claim that cannot be read as HAMi's: HAMi-DRA's webhook may have made it in place of limits."""
    return claimed if claimed.is_known else msgspec.structs.replace(claimed, preloading_driver=names.HAMI_DEVICE_CLASS)
