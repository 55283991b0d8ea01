"""The injection of a pod as bind recognises it: the profile, and the remap container that verifies the values of bind.

Both follow from the containers, which cannot be changed once the pod exists. The annotation ``gpu.topology/injected``
tells people the profile; no decision depends on it.
"""

from collections.abc import Mapping, Sequence

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.resources import ContainerRequest, GpuRequest
from webhook.decisions.request.settings import disables_control
from webhook.objects.pod import EnvVar, Pod, PodSpec, annotation_reference
from webhook.objects.references import visible_devices_key
from webhook.words import names
from webhook.words.choices import Carrier, Profile

_NODE_TOPOLOGY = annotation_reference(names.NODE_TOPOLOGY)
_APPLIED = (Profile.EXCLUSIVE, Profile.POD_PEERS, Profile.NODE_PEERS)
_ARGUMENTS = [["--mode", str(carrier)] for carrier in (Carrier.INIT, Carrier.SIDECAR)]


def injected_profile(containers: Sequence[ContainerRequest]) -> Profile | None:
    """Returns the profile with which admission injected a pod; None if it did not inject it.

    Every injected pod has a container of whole GPUs with HAMi's control switched off and with NCCL's two variables. In
    the peer profiles that container reads its CUDA indices from an annotation of ours, or from our file. With GPUs by
    claims there is no control to switch off and there are no indices to read: a variable names the profile. If an
    author writes a pod in this form, it gets only the truth about its own GPUs.

    Args:
        containers: All containers of the pod.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    for container in containers:
        if container.request is None:
            continue
        env = container.spec.env or ()
        if not _is_whole(container.request):
            continue
        found = {variable.name: variable for variable in env}
        if names.ENV_NCCL_P2P_LEVEL not in found or names.ENV_NCCL_NVLS_ENABLE not in found:
            continue
        if container.request.family == CLAIM:
            named = found.get(names.REMAP_PROFILE)
            return next((profile for profile in _APPLIED if named and named.is_literal(profile)), None)
        if disables_control(env):
            return _profile_of(found)
    return None


def _is_whole(request: GpuRequest) -> bool:
    return request.is_whole or request.family == "koordinator"  # whose cores and memory are those of all its GPUs


def _profile_of(env: Mapping[str, EnvVar]) -> Profile:
    visible = env.get(names.ENV_NVIDIA_VISIBLE_DEVICES)
    if visible is None or visible_devices_key(env.get(names.ENV_CUDA_VISIBLE_DEVICES)) is None:
        return Profile.EXCLUSIVE
    return Profile.NODE_PEERS if visible.value == "all" else Profile.POD_PEERS


def has_remap_container(pod: Pod, policy: AdmitPolicy, profile: Profile) -> bool:
    """Returns whether an init container of the pod runs the remap program, as admission writes it, for this profile."""
    spec = pod.spec or PodSpec()
    return any(
        container.name.startswith(names.REMAP_CONTAINER)
        and _is_program(spec.init_container_document(index), policy.remap_image)
        and _has_its_inputs({variable.name: variable for variable in container.env or ()}, profile)
        for index, container in enumerate(spec.init_containers or ())
    )


def _is_program(document: Mapping[str, object], image: str) -> bool:
    """Returns whether a container with these fields runs the remap program."""
    found = document.get("image"), document.get("command"), document.get("args")
    return found[:2] == (image, list(names.REMAP_COMMAND)) and found[2] in _ARGUMENTS


def _has_its_inputs(env: Mapping[str, EnvVar], profile: Profile) -> bool:
    """Returns whether the program gets the profile, and the topology of the node to compare."""
    told, topology = env.get(names.REMAP_PROFILE), env.get(names.REMAP_NODE_TOPOLOGY)
    return bool(told and told.value == profile and topology and topology.reads(_NODE_TOPOLOGY))
