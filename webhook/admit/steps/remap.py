"""The remap container, which verifies the binding's values on the node and writes the topology file.

HAMi up to 2.9 and fixed 2.10 releases get an init container; HAMi 2.10.0, which gives a pod's cards away once its init
containers finish, gets a restartable one, which never finishes.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.admit.variables import offer_value
from webhook.admit.volumes import own_volume
from webhook.config import RemapSettings
from webhook.model import names
from webhook.model.options import Carrier, Profile
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import InitContainer, Volume, annotation_path
from webhook.model.quantity import parse_quantity

PURPOSE = "verify the GPUs and write the NCCL topology file when it starts"

_FILES_SIZE = "8Mi"
_FILES_BYTES = parse_quantity(_FILES_SIZE, source="our volume")
UNKNOWN_TOPOLOGY = "{}"
# Equal requests and limits, so that a Guaranteed pod stays one. An init container adds nothing to what the pod needs
# (the maximum counts), a sidecar adds all of it.
_RESOURCES = {
    Carrier.INIT: {"cpu": "500m", "memory": "64Mi"},
    Carrier.SIDECAR: {"cpu": "100m", "memory": "64Mi"},
}
_SIDECAR = {
    "restartPolicy": "Always",
    "startupProbe": {
        "exec": {"command": [*names.REMAP_COMMAND, "--mode", "probe"]},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": 60,
    },
}
_SECURITY_CONTEXT = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_ALLOCATIONS = {"hami": names.HAMI_DEVICES_ALLOCATED, "volcano": names.VOLCANO_DEVICES_ALLOCATED}


class RemapContainer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the container depends on; pods of one workload share it."""

    name: str
    volume: str
    image: str
    settings: RemapSettings
    carrier: Carrier
    profile: Profile
    require_nvlink: bool
    containers: str
    """``name:count:k`` for each container that asks for GPUs, in the order in which the device plugin serves them."""
    allocation_key: str
    visible_device_keys: tuple[str, ...]

    def build(self) -> dict[str, Any]:
        """The container as it stands in ``spec.initContainers``."""
        container: dict[str, Any] = {"name": self.name, "image": self.image}
        if self.settings.image_pull_policy:
            container["imagePullPolicy"] = self.settings.image_pull_policy
        container["command"] = list(names.REMAP_COMMAND)
        container["args"] = ["--mode", str(self.carrier)]
        if self.carrier is Carrier.SIDECAR:
            container |= _SIDECAR
        container["env"] = list(self.environment())
        container["volumeMounts"] = [{"name": self.volume, "mountPath": names.FILES_PATH}]
        container["resources"] = {"requests": _RESOURCES[self.carrier], "limits": _RESOURCES[self.carrier]}
        container["securityContext"] = _SECURITY_CONTEXT
        return container

    def environment(self) -> Iterator[dict[str, Any]]:
        """Its ``env``."""
        yield _literal(names.ENV_DISABLE_CONTROL, "true")
        if self.settings.sees_all_gpus:
            yield _literal(names.ENV_NVIDIA_VISIBLE_DEVICES, "all")
            yield _literal(names.ENV_NVIDIA_DRIVER_CAPABILITIES, "utility")
        yield _literal(names.REMAP_PROFILE, self.profile)
        yield _literal(names.REMAP_REQUIRE_NVLINK, "true" if self.require_nvlink else "false")
        yield _literal(names.REMAP_CONTAINERS, self.containers)
        yield _reference(names.REMAP_NODE_NAME, "spec.nodeName")
        yield _reference(names.REMAP_ALLOCATION, annotation_path(self.allocation_key))
        yield _reference(names.REMAP_NODE_TOPOLOGY, annotation_path(names.NODE_TOPOLOGY))
        for key in self.visible_device_keys:
            number = key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)
            yield _reference(names.REMAP_CUDA_VISIBLE_DEVICES_PREFIX + number, annotation_path(key))
        if self.profile is Profile.POD_PEERS:
            yield _reference(names.REMAP_VISIBLE_UUIDS, annotation_path(names.VISIBLE_UUIDS))


@lru_cache(maxsize=256)
def encode_container(container: RemapContainer) -> msgspec.Raw:
    """The container as JSON, which is the larger half of every patch."""
    return msgspec.Raw(msgspec.json.encode(container.build()))


def plan(subject: Subject, patch: PodPatch) -> None:
    """Volume, mounts, container and the variable that names the file; nothing with carrier ``binding``."""
    options = subject.options
    if subject.carrier is Carrier.BINDING:
        if options.topology_file and names.TOPOLOGY_FILE_OPTION in subject.pod.annotations:
            text = "no topology file: this HAMi and Kubernetes allow no remap container"
            patch.warn(text, Reason.NO_TOPOLOGY_FILE)
        return
    volume, exists = own_volume(subject.volumes, names.FILES_VOLUME, _is_files_volume)
    if not exists:
        patch.add_empty_dir(volume, size_limit=_FILES_SIZE)
    for one in subject.gpu_containers:
        mounted = one.mounts.get(names.FILES_PATH)
        if mounted is None:
            patch.add_mount(one, volume, names.FILES_PATH, read_only=True)
        elif mounted != volume:
            raise Refused(
                Reason.MOUNT_PATH_TAKEN,
                f"container {one.name} mounts volume {mounted} at {names.FILES_PATH}, where the topology file has to "
                f'be. Mount it elsewhere, or set {names.REMAP}: "binding"',
            )
        if options.topology_file:
            offer_value(patch, one, names.ENV_NCCL_TOPO_FILE, names.TOPOLOGY_FILE)
    patch.annotate(names.NODE_TOPOLOGY, UNKNOWN_TOPOLOGY)
    present = next((one for one in subject.containers if one.is_ours), None)
    wanted = _container(subject, present.name if present else _free_name(subject), volume)
    if present is None:
        patch.insert_init_container(encode_container(wanted))
    else:
        _mend(patch, present, wanted)


def _container(subject: Subject, name: str, volume: str) -> RemapContainer:
    keys = subject.visible_device_keys
    return RemapContainer(
        name=name,
        volume=volume,
        image=subject.policy.remap_image,
        settings=subject.policy.remap,
        carrier=subject.carrier,
        profile=subject.profile,
        require_nvlink=subject.options.require_nvlink,
        containers=",".join(
            f"{one.name}:{one.request.count}:{keys.get(one.name, '').removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)}"
            for one in subject.containers
            if one.request
        ),
        allocation_key=_ALLOCATIONS[subject.gpu_request(subject.gpu_containers[0]).names.family],
        visible_device_keys=tuple(keys.values()),
    )


def _mend(patch: PodPatch, present: PodContainer, wanted: RemapContainer) -> None:
    """Bring the container of an earlier admission up to date."""
    container = wanted.build()
    stale = {entry["name"] for entry in container["env"] if not _has(present, entry)}
    if _differs(present, container) or stale - {names.ENV_NVIDIA_VISIBLE_DEVICES}:
        patch.replace_container(present, encode_container(wanted))
    elif stale:
        # HAMi's overwriteEnv appends "none" to containers without a GPU request. The last entry counts: ours follows.
        patch.add_variable(present, names.ENV_NVIDIA_VISIBLE_DEVICES, "all")


def _has(present: PodContainer, entry: dict[str, Any]) -> bool:
    """Whether the variable of ``entry`` has its value in effect."""
    own = present.own_env.get(entry["name"])
    if own is None:
        return False
    if "value" in entry:
        return bool(own.value == entry["value"])
    return own.reads(entry["valueFrom"]["fieldRef"]["fieldPath"])


def _differs(present: PodContainer, wanted: dict[str, Any]) -> bool:
    container = present.container
    return not isinstance(container, InitContainer) or (
        container.image != wanted["image"]
        or container.args != wanted["args"]
        or container.restart_policy != wanted.get("restartPolicy")
        or names.FILES_PATH not in present.mounts
    )


def _literal(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": str(value)}


def _reference(name: str, field_path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def _free_name(subject: Subject) -> str:
    taken = {one.name for one in subject.containers}
    candidates = (names.REMAP_CONTAINER if n == 1 else f"{names.REMAP_CONTAINER}-{n}" for n in count(1))
    return next(name for name in candidates if name not in taken)


def _is_files_volume(volume: Volume) -> bool:
    source = volume.empty_dir
    if source is None or source.medium or source.size_limit is None:
        return False
    return parse_quantity(source.size_limit, source=volume.name) == _FILES_BYTES
