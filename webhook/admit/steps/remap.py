"""The remap container, which verifies the binding's values on the node and writes the topology file.

HAMi up to 2.9 and fixed 2.10 releases get an init container; HAMi 2.10.0, which gives a pod's cards away once its init
containers finish, gets a restartable one, which never finishes.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from webhook.admit.edits import (
    AddInitContainer,
    AddMount,
    AddVariable,
    AddVolume,
    Annotate,
    Finding,
    ReplaceContainer,
)
from webhook.admit.request import PodContainer
from webhook.admit.subject import Subject
from webhook.admit.variables import offer_value
from webhook.admit.volumes import own_volume
from webhook.model import names
from webhook.model.options import Carrier, Profile
from webhook.model.outcome import Reason, Refused, Warning
from webhook.model.pod import Volume, annotation_path
from webhook.model.quantity import parse_quantity

PURPOSE = "verify the GPUs and write the NCCL topology file when it starts"

VOLUME_SIZE = "8Mi"
UNKNOWN_TOPOLOGY = "{}"
# Equal requests and limits, so that a Guaranteed pod stays one. An init container adds nothing to what the pod needs (the
# maximum counts), a sidecar adds all of it.
_RESOURCES = {
    Carrier.INIT: {"cpu": "500m", "memory": "64Mi"},
    Carrier.SIDECAR: {"cpu": "100m", "memory": "64Mi"},
}
_ALLOCATIONS = {"hami": names.HAMI_DEVICES_ALLOCATED, "volcano": names.VOLCANO_DEVICES_ALLOCATED}


def plan(subject: Subject) -> Iterator[Finding]:
    """Volume, mounts, container and the variable that names the file; nothing with carrier ``binding``."""
    options = subject.options
    if subject.carrier is Carrier.BINDING:
        if options.topology_file and names.TOPOLOGY_FILE_OPTION in subject.pod.annotations:
            text = "no topology file: this HAMi and Kubernetes allow no remap container"
            yield Warning(text, Reason.NO_TOPOLOGY_FILE)
        return
    volume, exists = own_volume(subject.spec.volumes, names.FILES_VOLUME, _is_files_volume)
    if not exists:
        yield AddVolume(volume, {"sizeLimit": VOLUME_SIZE})
    for one in subject.gpu_containers:
        mount = one.container.mount_at(names.FILES_PATH)
        if mount is None:
            yield AddMount(one, volume, names.FILES_PATH, read_only=True)
        elif mount.name != volume:
            raise Refused(
                Reason.MOUNT_PATH_TAKEN,
                f"container {one.name} mounts volume {mount.name} at {names.FILES_PATH}, where the topology file has to "
                f'be. Mount it elsewhere, or set {names.REMAP}: "binding"',
            )
        if options.topology_file:
            yield from offer_value(one, names.ENV_NCCL_TOPO_FILE, names.TOPOLOGY_FILE)
    yield Annotate(names.NODE_TOPOLOGY, UNKNOWN_TOPOLOGY)
    yield from _container(subject, volume)


def _container(subject: Subject, volume: str) -> Iterator[Finding]:
    present = next((one for one in subject.containers if one.is_ours), None)
    if present is None:
        yield AddInitContainer(build_container(subject, _free_name(subject), volume))
        return
    wanted = build_container(subject, present.name, volume)
    stale = _stale_variables(present, wanted["env"])
    if _differs(present, wanted) or stale - {names.ENV_NVIDIA_VISIBLE_DEVICES}:
        yield ReplaceContainer(present, wanted)
    elif stale:
        # HAMi's overwriteEnv appends "none" to containers without a GPU request; the last entry counts, so ours follows.
        yield AddVariable(present, names.ENV_NVIDIA_VISIBLE_DEVICES, "all")


def build_container(subject: Subject, name: str, volume: str) -> dict[str, Any]:
    """The container as it stands in ``spec.initContainers``."""
    settings = subject.policy.remap
    container: dict[str, Any] = {"name": name, "image": subject.policy.remap_image}
    if settings.image_pull_policy:
        container["imagePullPolicy"] = settings.image_pull_policy
    container["command"] = list(names.REMAP_COMMAND)
    container["args"] = ["--mode", str(subject.carrier)]
    if subject.carrier is Carrier.SIDECAR:
        container["restartPolicy"] = "Always"
        container["startupProbe"] = {
            "exec": {"command": [*names.REMAP_COMMAND, "--mode", "probe"]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 60,
        }
    container["env"] = list(_environment(subject))
    container["volumeMounts"] = [{"name": volume, "mountPath": names.FILES_PATH}]
    container["resources"] = {"requests": _RESOURCES[subject.carrier], "limits": _RESOURCES[subject.carrier]}
    container["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return container


def _environment(subject: Subject) -> Iterator[dict[str, Any]]:
    peers = subject.profile.shares_gpus
    keys = subject.visible_device_keys if peers else {}
    yield _literal(names.ENV_DISABLE_CONTROL, "true")
    if subject.policy.remap.sees_all_gpus:
        yield _literal(names.ENV_NVIDIA_VISIBLE_DEVICES, "all")
        yield _literal(names.ENV_NVIDIA_DRIVER_CAPABILITIES, "utility")
    yield _literal(names.REMAP_PROFILE, subject.profile)
    yield _literal(names.REMAP_REQUIRE_NVLINK, "true" if subject.options.require_nvlink else "false")
    yield _literal(names.REMAP_CONTAINERS, _container_list(subject, keys))
    yield _reference(names.REMAP_NODE_NAME, "spec.nodeName")
    family = subject.gpu_request(subject.gpu_containers[0]).names.family
    yield _reference(names.REMAP_ALLOCATION, annotation_path(_ALLOCATIONS[family]))
    yield _reference(names.REMAP_NODE_TOPOLOGY, annotation_path(names.NODE_TOPOLOGY))
    for key in keys.values():
        number = key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)
        yield _reference(names.REMAP_CUDA_VISIBLE_DEVICES_PREFIX + number, annotation_path(key))
    if subject.profile is Profile.POD_PEERS:
        yield _reference(names.REMAP_VISIBLE_UUIDS, annotation_path(names.VISIBLE_UUIDS))


def _container_list(subject: Subject, keys: dict[str, str]) -> str:
    """``name:count:k`` for each container that asks for GPUs, in the order in which the device plugin serves them."""
    asking = [one for one in subject.containers if one.request]
    return ",".join(
        f"{one.name}:{subject.gpu_request(one).count}:"
        f"{keys.get(one.name, '').removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)}"
        for one in asking
    )


def _literal(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": str(value)}


def _reference(name: str, field_path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def _stale_variables(present: PodContainer, wanted: list[dict[str, Any]]) -> set[str]:
    """Variables whose effective value is not the wanted one."""
    stale = set()
    for entry in wanted:
        own = present.env.get(entry["name"])
        if own is None:
            stale.add(entry["name"])
        elif "value" in entry:
            if own.value != entry["value"]:
                stale.add(entry["name"])
        elif not own.reads(entry["valueFrom"]["fieldRef"]["fieldPath"]):
            stale.add(entry["name"])
    return stale


def _differs(present: PodContainer, wanted: dict[str, Any]) -> bool:
    container = present.container
    return (
        container.image != wanted["image"]
        or container.args != wanted["args"]
        or container.restart_policy != wanted.get("restartPolicy")
        or container.mount_at(names.FILES_PATH) is None
    )


def _free_name(subject: Subject) -> str:
    taken = {one.name for one in subject.containers}
    candidates = (names.REMAP_CONTAINER if n == 1 else f"{names.REMAP_CONTAINER}-{n}" for n in count(1))
    return next(name for name in candidates if name not in taken)


def _is_files_volume(volume: Volume) -> bool:
    source = volume.empty_dir
    if source is None or source.medium or source.size_limit is None:
        return False
    return parse_quantity(source.size_limit, source=volume.name) == parse_quantity(VOLUME_SIZE, source="our volume")
