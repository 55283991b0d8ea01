"""What an injected pod wants to know of its GPUs, read from the pod itself.

Whether a pod was injected, and with which profile, follows from its containers, which cannot be changed once the pod
is there. The annotation ``gpu.topology/injected`` says the same to people; nothing is decided by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from webhook.admit.allocated import wanted_of
from webhook.admit.request import ContainerRequest, GpuRequest, PodRequests, family_of
from webhook.admit.steps.disable_control import disables_control
from webhook.admit.subject import select_containers
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.choices import Carrier, Profile
from webhook.model.options import Options
from webhook.model.pod import EnvVar, InitContainer, Namespace, Pod, PodSpec, annotation_reference
from webhook.model.references import visible_devices_key
from webhook.resolve.fabric import FabricUse
from webhook.resolve.wanted import GpuContainer, Wanted

_NODE_TOPOLOGY = annotation_reference(names.NODE_TOPOLOGY)
_ARGUMENTS = [["--mode", str(carrier)] for carrier in (Carrier.INIT, Carrier.SIDECAR)]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """All that a pod says about its GPUs."""

    options: Options
    wanted: Wanted
    family: str
    """Of its GPU resources."""
    referred: frozenset[str]
    """The annotations that its containers refer to."""
    verifies: bool
    """Whether a remap container compares what the pod is told with what is there."""
    fabric_use: FabricUse = FabricUse()
    """What it says about NVLink between nodes."""
    is_observed: bool = False
    """Whether the pod is only looked at."""

    @property
    def profile(self) -> Profile:
        """The profile, or the one that would be applied were it not ``observe``."""
        return self.wanted.profile

    @property
    def group(self) -> str | None:
        """The group whose pods on the node matter: only a requirement of ``node-peers`` depends on them."""
        matters = self.profile is Profile.NODE_PEERS and not self.is_observed
        return self.options.group if self.wanted.requirements and matters else None


def injected_profile(containers: Sequence[ContainerRequest]) -> Profile | None:
    """The profile with which admission injected a pod; None if it did not.

    Every injected pod has a container of whole GPUs with HAMi's control switched off and with NCCL's two variables; in
    the peer profiles that container reads its CUDA indices from an annotation of ours, or from our file. A pod that
    its author wrote like that is told no more than the truth about its own GPUs.

    Args:
        containers: All of the pod.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    for one in containers:
        if one.request is None:
            continue
        env = one.container.env or ()
        if not _is_whole(one.request) or not disables_control(env):
            continue
        found = {variable.name: variable for variable in env}
        if names.ENV_NCCL_P2P_LEVEL in found and names.ENV_NCCL_NVLS_ENABLE in found:
            return _profile_of(found)
    return None


def _is_whole(request: GpuRequest) -> bool:
    return request.is_whole or request.names.family == "koordinator"  # whose cores and memory are those of all its GPUs


def _profile_of(env: Mapping[str, EnvVar]) -> Profile:
    visible = env.get(names.ENV_NVIDIA_VISIBLE_DEVICES)
    if visible is None or visible_devices_key(env.get(names.ENV_CUDA_VISIBLE_DEVICES)) is None:
        return Profile.EXCLUSIVE
    return Profile.NODE_PEERS if visible.value == "all" else Profile.POD_PEERS


def read_wanted(
    pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy, options: Options, profile: Profile
) -> tuple[Wanted, str]:
    """What the pod wants, and the family of its GPU resources.

    Args:
        pod: The pod.
        namespace: Its namespace.
        requests: What its containers ask for.
        policy: The configuration.
        options: Of the pod.
        profile: Of the pod.

    Raises:
        Refused: its GPUs are those of two families, or the option ``containers`` names others.
        MalformedPod: a field has another type than in a pod.
    """
    asking = [(one, one.request) for one in requests.containers if one.request]
    selected = select_containers(requests.containers, options, pod, namespace)
    found = [_container(one, request, selected=one.name in selected) for one, request in asking]
    if any(one.visible_key for one in found):  # what admission chose; the namespace may have changed its mind since
        found = [replace(one, selected=bool(one.visible_key)) for one in found]
    containers = tuple(found)
    family = family_of(requests.containers) or policy.resources[0].family
    host_network = bool(pod.spec and pod.spec.host_network)
    return wanted_of(containers, policy, options, profile, host_network=host_network), family


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
        keeps_gpus=not isinstance(container, InitContainer) or container.restart_policy == "Always",
    )


def has_remap_container(pod: Pod, policy: AdmitPolicy, profile: Profile) -> bool:
    """Whether one of its init containers is the remap program as admission writes it, for this profile."""
    spec = pod.spec or PodSpec()
    return any(
        one.name.startswith(names.REMAP_CONTAINER)
        and _is_program(spec.init_container_document(index), policy.remap_image)
        and _tells_all({variable.name: variable for variable in one.env or ()}, profile)
        for index, one in enumerate(spec.init_containers or ())
    )


def _is_program(document: Mapping[str, object], image: str) -> bool:
    """Whether a container with these fields runs the remap program."""
    found = document.get("image"), document.get("command"), document.get("args")
    return found[:2] == (image, list(names.REMAP_COMMAND)) and found[2] in _ARGUMENTS


def _tells_all(env: Mapping[str, EnvVar], profile: Profile) -> bool:
    """Whether the program is told the profile, and the topology of the node to compare."""
    told, topology = env.get(names.REMAP_PROFILE), env.get(names.REMAP_NODE_TOPOLOGY)
    return bool(told and told.value == profile and topology and topology.reads(_NODE_TOPOLOGY))
