"""What an injected pod wants to know of its GPUs, read from the pod itself."""

from dataclasses import replace

import msgspec

from webhook.admit.allocated import wanted_of
from webhook.admit.request import ContainerRequest, GpuRequest, family_of, read_requests
from webhook.admit.subject import select_containers
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.choices import Profile
from webhook.model.mark import Mark
from webhook.model.options import Options
from webhook.model.pod import EnvVar, InitContainer, Namespace, Pod, PodSpec, annotation_reference
from webhook.model.references import visible_devices_key
from webhook.resolve.wanted import GpuContainer, Wanted


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """All that a pod says about its GPUs."""

    mark: Mark
    options: Options
    wanted: Wanted
    family: str
    """Of its GPU resources."""
    referred: frozenset[str]
    """The annotations that its containers refer to."""
    verifies: bool
    """Whether a remap container compares what the pod is told with what is there."""

    @property
    def profile(self) -> Profile:
        """The profile, or the one that would be applied were it not ``observe``."""
        return self.wanted.profile

    @property
    def group(self) -> str | None:
        """The group whose pods on the node matter: only a requirement of ``node-peers`` depends on them."""
        return self.options.group if self.wanted.requirements and self.mark.profile is Profile.NODE_PEERS else None


def read_wanted(
    pod: Pod, namespace: Namespace, policy: AdmitPolicy, options: Options, profile: Profile
) -> tuple[Wanted, str]:
    """What the pod wants, and the family of its GPU resources.

    Raises:
        Refused: a GPU resource or the option ``containers`` cannot be read.
        MalformedPod: a field has another type than in a pod.
    """
    requests = read_requests(pod, policy.resources, policy.default_count)
    asking = [(one, one.request) for one in requests.containers if one.request]
    selected = select_containers(requests.containers, options, pod, namespace)
    found = [_container(one, request, selected=one.name in selected) for one, request in asking]
    if any(one.visible_key for one in found):  # what admission chose; the namespace may have changed its mind since
        found = [replace(one, selected=bool(one.visible_key)) for one in found]
    containers = tuple(found)
    family = family_of(requests.containers) or policy.resources[0].family
    return wanted_of(containers, policy, options, profile), family


def _container(one: ContainerRequest, request: GpuRequest, *, selected: bool) -> GpuContainer:
    container = one.container
    # Of several entries with one name the kubelet takes the last.
    own = [variable for variable in container.env or () if variable.name == names.ENV_CUDA_VISIBLE_DEVICES]
    return GpuContainer(
        name=container.name,
        count=request.count,
        is_init=isinstance(container, InitContainer),
        visible_key=visible_devices_key(own[-1] if own else None) or "",
        selected=selected,
    )


def has_remap_container(pod: Pod) -> bool:
    """Whether one of its init containers is the remap program, with the topology of the node to compare."""
    spec = pod.spec or PodSpec()
    return any(
        one.name.startswith(names.REMAP_CONTAINER) and any(map(_tells_topology, one.env or ()))
        for one in spec.init_containers or ()
    )


def _tells_topology(variable: EnvVar) -> bool:
    return variable.name == names.REMAP_NODE_TOPOLOGY and variable.reads(annotation_reference(names.NODE_TOPOLOGY))
