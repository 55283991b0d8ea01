"""The reader of a pod's settings for NVLink between nodes."""

from collections.abc import Mapping, Sequence

from webhook.decisions.request.resources import ContainerRequest
from webhook.decisions.resolve.fabric import FabricUse, spans_nodes
from webhook.objects.pod import Container, EnvVar, Pod, PodSpec, has_entries
from webhook.words import names

_CHANNEL_PLACES = ("/var/run/nvidia-container-devices/imex", "/dev/nvidia-caps-imex-channels")
"""Paths of IMEX channels. NVIDIA's container toolkit takes mounts at the first as requests for devices
(internal/config/image/cuda_image.go)."""
_OFF = "0"


def read_fabric_use(pod: Pod, containers: Sequence[ContainerRequest]) -> FabricUse:
    """Returns the pod's settings for NVLink between nodes; the defaults if its job is not known to span nodes.

    Args:
        pod: The pod.
        containers: All containers of the pod.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    asking = [container.spec for container in containers if container.request]
    settings = [{variable.name: variable for variable in container.env or ()} for container in asking]
    if not spans_nodes(pod.labels, {name for env in settings for name in env}):
        return FabricUse()
    return FabricUse(
        spans_nodes=True,
        is_off=all(_is_off(env, names.ENV_NCCL_MNNVL_ENABLE) for env in settings),
        cumem_is_off=any(_is_off(env, names.ENV_NCCL_CUMEM_ENABLE) for env in settings),
        # A channel of a ComputeDomain may be one of the devices that it claims.
        has_channel=has_entries((pod.spec or PodSpec()).resource_claims_json)
        or all(map(_may_have_channel, asking, settings)),
    )


def _is_off(env: Mapping[str, EnvVar], name: str) -> bool:
    variable = env.get(name)
    return variable is not None and variable.is_literal(_OFF)


def _may_have_channel(container: Container, env: Mapping[str, EnvVar]) -> bool:
    if container.is_privileged or names.ENV_IMEX_CHANNELS in env:
        return True
    return any(mount.mount_path.startswith(_CHANNEL_PLACES) for mount in container.volume_mounts or ())
