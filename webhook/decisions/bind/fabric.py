"""The reader of a pod's settings for NVLink between nodes."""

from collections.abc import Mapping, Sequence

from webhook.decisions.request.resources import ContainerRequest
from webhook.decisions.resolve.fabric import FabricUse, spans_nodes
from webhook.objects.pod import Container, EnvVar, Pod, PodSpec, has_entries
from webhook.words import names

_CHANNEL_PLACES = ("/var/run/nvidia-container-devices/imex", "/dev/nvidia-caps-imex-channels")
"""Paths of IMEX channels. NVIDIA's container toolkit takes mounts at the first as requests for devices
(internal/config/image/cuda_image.go)."""
_OFF, _ON = "0", "1"


def read_fabric_use(pod: Pod, containers: Sequence[ContainerRequest]) -> FabricUse:
    """Returns the pod's settings for NVLink between nodes; the defaults if its NCCL does not look for a fabric.

    It looks where the job is known to span nodes, and where a container makes it look on one node too.

    Args:
        pod: The pod.
        containers: All containers of the pod.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    asking = [container.spec for container in containers if container.request]
    settings = [{variable.name: variable for variable in container.env or ()} for container in asking]
    is_job = spans_nodes(pod.labels, {name for env in settings for name in env})
    # A channel of a ComputeDomain may be one of the devices that the pod claims.
    has_claims = has_entries((pod.spec or PodSpec()).resource_claims_json)
    is_forced = not has_claims and any(map(_is_forced, asking, settings))
    if not is_job and not is_forced:
        return FabricUse()
    return FabricUse(
        spans_nodes=is_job,
        is_forced=is_forced,
        is_off=all(_is(env, names.ENV_NCCL_MNNVL_ENABLE, _OFF) for env in settings),
        cumem_is_off=any(_is(env, names.ENV_NCCL_CUMEM_ENABLE, _OFF) for env in settings),
        has_channel=has_claims or all(map(_may_have_channel, asking, settings)),
    )


def _is_forced(container: Container, env: Mapping[str, EnvVar]) -> bool:
    # Without cuMem NCCL does not look, and within the node the job loses nothing by that.
    looks = _is(env, names.ENV_NCCL_MNNVL_ENABLE, _ON) and not _is(env, names.ENV_NCCL_CUMEM_ENABLE, _OFF)
    return looks and not _may_have_channel(container, env)


def _is(env: Mapping[str, EnvVar], name: str, value: str) -> bool:
    variable = env.get(name)
    return variable is not None and variable.is_literal(value)


def _may_have_channel(container: Container, env: Mapping[str, EnvVar]) -> bool:
    if container.is_privileged or names.ENV_IMEX_CHANNELS in env:
        return True
    return any(mount.mount_path.startswith(_CHANNEL_PLACES) for mount in container.volume_mounts or ())
