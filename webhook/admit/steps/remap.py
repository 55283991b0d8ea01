"""The remap container, which verifies the binding's values on the node and writes the topology file.

HAMi up to 2.9 and fixed 2.10 releases get an init container; HAMi 2.10.0, which gives a pod's cards away once its init
containers finish, gets a restartable one, which never finishes.
"""

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.admit.remap_container import RemapContainer, encode_container, last_visible_devices
from webhook.admit.subject import Subject
from webhook.admit.variables import offer_value
from webhook.admit.volumes import numbered, provide_empty_dir
from webhook.model import names
from webhook.model.choices import Carrier
from webhook.model.outcome import Reason, Refused

PURPOSE = "verify the GPUs and write the NCCL topology file when it starts"

_FILES_SIZE = "8Mi"
UNKNOWN_TOPOLOGY = "{}"
_ALLOCATIONS = {"hami": names.HAMI_DEVICES_ALLOCATED, "volcano": names.VOLCANO_DEVICES_ALLOCATED}


def plan(subject: Subject, patch: PodPatch) -> None:
    """Volume, mounts, container and the variable that names the file; nothing with carrier ``binding``."""
    options = subject.options
    if subject.carrier is Carrier.BINDING:
        if options.topology_file and names.TOPOLOGY_FILE_OPTION in subject.pod.annotations:
            text = "no topology file: this HAMi and Kubernetes allow no remap container"
            patch.warn(text, Reason.NO_TOPOLOGY_FILE)
        return
    volume = provide_empty_dir(patch, subject.volumes, names.FILES_VOLUME, size_limit=_FILES_SIZE)
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
    present = subject.remap_container
    wanted = _container(subject, present.name if present else _free_name(subject.containers), volume)
    if present is None:
        patch.insert_init_container(encode_container(wanted))
    else:
        _mend(patch, subject, present, wanted)


def _container(subject: Subject, name: str, volume: str) -> RemapContainer:
    settings = subject.policy.remap
    keys = subject.visible_device_keys
    return RemapContainer(
        name=name,
        volume=volume,
        image=subject.policy.remap_image,
        image_pull_policy=settings.image_pull_policy,
        sees_all_gpus=settings.sees_all_gpus,
        carrier=subject.carrier,
        profile=subject.profile,
        require_nvlink=subject.options.require_nvlink,
        containers=",".join([_entry(one, keys) for one in subject.containers if one.request]),
        allocation_key=_ALLOCATIONS[subject.family],
        visible_device_keys=tuple(keys.values()),
    )


def _entry(one: PodContainer, keys: dict[str, str]) -> str:
    number = keys[one.name].removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX) if one.name in keys else ""
    return f"{one.name}:{one.request.count if one.request else 0}:{number}"


def _mend(patch: PodPatch, subject: Subject, present: PodContainer, wanted: RemapContainer) -> None:
    """Bring the container of an earlier admission up to date."""
    document = subject.remap_document
    if not wanted.is_form_of(document):
        patch.replace_container(present, encode_container(wanted))
    elif wanted.sees_all_gpus and last_visible_devices(document) != "all":
        # HAMi's overwriteEnv appended "none". The last entry counts: ours follows.
        patch.add_variable(present, names.ENV_NVIDIA_VISIBLE_DEVICES, "all")


def _free_name(containers: list[PodContainer]) -> str:
    taken = {one.name for one in containers}
    return next(name for name in numbered(names.REMAP_CONTAINER) if name not in taken)
