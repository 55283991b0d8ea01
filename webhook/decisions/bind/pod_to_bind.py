"""A pod on its way to a node, with all that decides about its Binding, read from the pod itself."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from webhook.decisions.allocation.reader import read_allocation
from webhook.decisions.bind.fabric import read_fabric_use
from webhook.decisions.bind.injection import has_remap_container
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options
from webhook.decisions.request.demand import gpu_container, gpu_demand
from webhook.decisions.request.hami_counting import SIDECARS_COUNTED_SINCE, ahead_of_sidecar, counting, members
from webhook.decisions.request.resources import ContainerRequest, GpuRequest, PodRequests, family_of
from webhook.decisions.request.selection import select_containers
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand
from webhook.decisions.resolve.fabric import FabricUse
from webhook.objects.pod import Namespace, Pod
from webhook.objects.references import referred_annotations, visible_devices_key
from webhook.words import names
from webhook.words.catalogue.cards import REMAP_NOT_FIRST
from webhook.words.catalogue.entry import Message
from webhook.words.choices import Profile
from webhook.words.errors import FormatError


class PodToBind(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was injected, is observed, or requires something of links itself, on its way to a node."""

    holder: str
    """The name of the pod in messages."""
    uid: str
    """The uid of the pod; empty in a manifest that was written by hand."""
    node: str
    """The node to which it goes."""
    annotations: Mapping[str, str]
    """The annotations of the pod as the API server has it, and those of the Binding where it is trusted."""
    demand: GpuDemand
    referred: frozenset[str]
    """The annotations that its containers refer to."""
    verifies: bool
    """Whether a remap container compares the values of bind with the real GPUs."""
    fabric_use: FabricUse = FabricUse()
    """The pod's settings for NVLink between nodes."""
    is_observed: bool = False
    """Whether the pod is only observed: it is not injected, and its Binding is not changed."""
    is_prepared: bool = True
    """Whether admission injected or observes the pod. Of another pod only its own requirements are judged."""
    is_pending: bool = True
    """Whether the pod waits for a node."""
    given: GivenGpus = NOTHING_GIVEN
    """The GPUs that claims gave to the pod."""
    misread: Message | None = None
    """The reason why a later HAMi would give the GPUs of the pod to others; ``None`` if none is known."""

    @property
    def profile(self) -> Profile:
        """The profile of the pod; if it is ``observe``, the profile that would be applied instead."""
        return self.demand.profile

    @property
    def group(self) -> str | None:
        """The group whose other pods on the node matter: only a requirement of ``node-peers`` depends on them.

        They do not matter to pods that share a claim, which have the same GPUs.
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
    is_prepared: bool = True,
    given: GivenGpus = NOTHING_GIVEN,
) -> PodToBind:
    """Returns the pod with all that decides about its Binding.

    Args:
        pod: The pod.
        namespace: Its namespace.
        requests: The requests of its containers.
        options: The options of the pod.
        policy: The configuration.
        profile: The profile with which it was injected or, if it was not, with which it is compared.
        node: The node to which it goes.
        bound_annotations: The annotations of a trusted Binding: the API server will write them onto the pod.
        is_observed: Whether the pod is only observed.
        is_prepared: Whether admission injected or observes the pod.
        given: The GPUs that claims gave to the pod.

    Raises:
        Refused: the GPUs are those of two families, or the option ``containers`` names others.
        MalformedPod: a field has another type than in a pod.
    """
    family = family_of(requests.containers) or policy.resources[0].family
    containers = _gpu_containers(pod, namespace, requests, options)
    host_network = bool(pod.spec and pod.spec.host_network)
    annotations = {**pod.annotations, **bound_annotations} if bound_annotations else pod.annotations
    return PodToBind(
        holder=f"pod {namespace.name}/{pod.display_name}",
        uid=uid_of(pod),
        node=node,
        annotations=annotations,
        demand=gpu_demand(containers, family, options, policy, profile, host_network=host_network),
        referred=referred_annotations(pod),
        verifies=profile.shares_gpus and has_remap_container(pod, policy, profile),
        fabric_use=read_fabric_use(pod, requests.containers),
        is_observed=is_observed,
        is_prepared=is_prepared,
        is_pending=pod.is_pending,
        given=given,
        misread=_misread(annotations, requests, policy) if family == "hami" else None,
    )


def _misread(annotations: Mapping[str, str], requests: PodRequests, policy: AdmitPolicy) -> Message | None:
    """Returns a message if init containers stand ahead of our sidecar, and a later HAMi counts other GPUs so."""
    containers = members(requests.containers)
    ours, ahead = ahead_of_sidecar(containers)
    if not ahead:
        return None
    limits = policy.limits.allocation
    try:
        allocation = read_allocation(annotations, family="hami", holder="the pod", limits=limits)
    except FormatError:
        return None  # ``resolve`` says it
    found = counting(allocation, containers, SIDECARS_COUNTED_SINCE)
    return REMAP_NOT_FIRST.say(taken=ahead[0], remap=ours) if found and found.lost else None


def uid_of(pod: Pod) -> str:
    """Returns the uid of the pod; empty if it has none yet."""
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
        # The containers that admission chose count: the option of the namespace may have changed since.
        found = [replace(container, selected=bool(container.visible_key)) for container in found]
    return tuple(found)


def _gpu_container(container: ContainerRequest, request: GpuRequest, *, selected: bool) -> GpuContainer:
    spec = container.spec
    # Of several entries with one name the kubelet takes the last.
    own = [variable for variable in spec.env or () if variable.name == names.ENV_CUDA_VISIBLE_DEVICES]
    key = visible_devices_key(own[-1] if own else None) or ""
    return gpu_container(spec, request.count, visible_key=key, selected=selected)
