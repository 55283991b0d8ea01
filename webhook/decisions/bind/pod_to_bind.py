"""A pod on its way to a node: all that its Binding is decided by, read from the pod itself."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from webhook.decisions.bind.fabric import read_fabric_use
from webhook.decisions.bind.injection import has_remap_container
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options
from webhook.decisions.request.demand import gpu_container, gpu_demand
from webhook.decisions.request.resources import ContainerRequest, GpuRequest, PodRequests, family_of
from webhook.decisions.request.selection import select_containers
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand
from webhook.decisions.resolve.fabric import FabricUse
from webhook.objects.pod import Namespace, Pod
from webhook.objects.references import referred_annotations, visible_devices_key
from webhook.words import names
from webhook.words.choices import Profile


class PodToBind(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was injected, or is observed, on its way to a node."""

    holder: str
    """How messages call the pod."""
    uid: str
    """Of the pod; empty in a manifest that was written by hand."""
    node: str
    """The node to which it goes."""
    annotations: Mapping[str, str]
    """Of the pod as the API server has it, and of the Binding where that is believed."""
    demand: GpuDemand
    referred: frozenset[str]
    """The annotations that its containers refer to."""
    verifies: bool
    """Whether a remap container compares what the pod is told with what is there."""
    fabric_use: FabricUse = FabricUse()
    """What it says about NVLink between nodes."""
    is_observed: bool = False
    """Whether the pod is only observed: it is not injected, and its Binding is not changed."""
    is_pending: bool = True
    """Whether the pod waits for a node."""
    given: GivenGpus = NOTHING_GIVEN
    """What it was given by claims."""

    @property
    def profile(self) -> Profile:
        """The profile, or the one that would be applied were it not ``observe``."""
        return self.demand.profile

    @property
    def group(self) -> str | None:
        """The group whose pods on the node matter: only a requirement of ``node-peers`` depends on them.

        Pods that share a claim have the same GPUs.
        """
        matters = self.demand.sees_node and not self.is_observed
        return self.demand.group if self.demand.requirements and matters else None


def pod_to_bind(  # noqa: PLR0913 - a pod on its way to a node is made of all of them
    pod: Pod,
    namespace: Namespace,
    requests: PodRequests,
    options: Options,
    policy: AdmitPolicy,
    profile: Profile,
    *,
    node: str,
    bound_annotations: Mapping[str, str] | None = None,
    is_observed: bool = False,
    given: GivenGpus = NOTHING_GIVEN,
) -> PodToBind:
    """What the Binding of a pod is decided by.

    Args:
        pod: The pod.
        namespace: Its namespace.
        requests: What its containers request.
        options: Of the pod.
        policy: The configuration.
        profile: With which it was injected or, if it is observed, with which it is compared.
        node: To which it goes.
        bound_annotations: Of the Binding, where they are believed: the API server will write them onto the pod.
        is_observed: Whether the pod is only observed.
        given: What it was given by claims.

    Raises:
        Refused: the GPUs are those of two families, or the option ``containers`` names others.
        MalformedPod: a field has another type than in a pod.
    """
    family = family_of(requests.containers) or policy.resources[0].family
    containers = _gpu_containers(pod, namespace, requests, options)
    host_network = bool(pod.spec and pod.spec.host_network)
    return PodToBind(
        holder=f"pod {namespace.name}/{pod.display_name}",
        uid=uid_of(pod),
        node=node,
        annotations={**pod.annotations, **bound_annotations} if bound_annotations else pod.annotations,
        demand=gpu_demand(containers, family, options, policy, profile, host_network=host_network),
        referred=referred_annotations(pod),
        verifies=profile.shares_gpus and has_remap_container(pod, policy, profile),
        fabric_use=read_fabric_use(pod, requests.containers),
        is_observed=is_observed,
        is_pending=pod.is_pending,
        given=given,
    )


def uid_of(pod: Pod) -> str:
    """The uid of the pod; empty if it has none yet."""
    return (pod.metadata.uid if pod.metadata else None) or ""


def _gpu_containers(
    pod: Pod, namespace: Namespace, requests: PodRequests, options: Options
) -> tuple[GpuContainer, ...]:
    selected = select_containers(requests.containers, options, pod, namespace)
    found = [
        _gpu_container(container, container.request, selected=container.name in selected)
        for container in requests.containers
        if container.request
    ]
    if any(container.visible_key for container in found):
        # What admission chose: the option of the namespace may have changed since.
        found = [replace(container, selected=bool(container.visible_key)) for container in found]
    return tuple(found)


def _gpu_container(container: ContainerRequest, request: GpuRequest, *, selected: bool) -> GpuContainer:
    spec = container.spec
    # Of several entries with one name the kubelet takes the last.
    own = [variable for variable in spec.env or () if variable.name == names.ENV_CUDA_VISIBLE_DEVICES]
    key = visible_devices_key(own[-1] if own else None) or ""
    return gpu_container(spec, request.count, visible_key=key, selected=selected)
