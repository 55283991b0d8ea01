"""The volume at ``/dev/shm``: NCCL and PyTorch need far more than the 64 MiB that a pod gets.

NCCL drops P2P and shared memory between ranks whose ``/dev/shm`` are different devices, so peers must share one: the
same volume inside a pod, the node's between pods. Source: NCCL src/init.cc, src/graph/paths.cc.
"""

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.volumes import provide_empty_dir
from webhook.words import names
from webhook.words.catalogue.peers import DIFFERENT_SHM_DEVICES, TWO_SHM_VOLUMES
from webhook.words.choices import Profile
from webhook.words.outcome import Reason, Refused

PURPOSE = "give it enough shared memory"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds the volume, and a mount to each GPU container without one."""
    bare: list[PodContainer] = []
    found: dict[str, None] = {}
    for container in subject.gpu_containers:
        volume = container.mounts.get(names.SHARED_MEMORY_PATH)
        if volume is None:
            bare.append(container)
        else:
            found[volume] = None
    volumes = list(found)
    own = [name for name in volumes if not _is_of_node(subject, name)]
    if subject.profile is Profile.NODE_PEERS and subject.host.ipc and own:
        message = DIFFERENT_SHM_DEVICES.say(pod=subject.name, volume=own[0], profile=subject.profile)
        raise Refused(Reason.CONTRADICTS_PROFILE, message)
    if subject.host.ipc:
        return
    if subject.profile is Profile.POD_PEERS and volumes:
        if len(volumes) > 1:
            message = TWO_SHM_VOLUMES.say(
                pod=subject.name, first=volumes[0], second=volumes[1], profile=subject.profile
            )
            raise Refused(Reason.CONTRADICTS_PROFILE, message)
        _mount(patch, bare, volumes[0])
    elif bare:
        size = subject.options.shm_size
        added = provide_empty_dir(patch, subject.volumes, names.SHARED_MEMORY_VOLUME, size_limit=size, medium="Memory")
        _mount(patch, bare, added)


def _is_of_node(subject: Subject, name: str) -> bool:
    """Returns whether a volume is the node's ``/dev/shm``, which containers in the host's IPC namespace have anyway."""
    volume = subject.volumes.get(name)
    return volume is not None and volume.is_shared_memory_of_node


def _mount(patch: PodPatch, bare: list[PodContainer], volume: str) -> None:
    for container in bare:
        patch.add_mount(container, volume, names.SHARED_MEMORY_PATH)
