"""``/dev/shm``: NCCL and PyTorch need far more than the 64 MiB that a pod gets.

NCCL drops P2P and shared memory between ranks whose ``/dev/shm`` are different devices, so peers must share one: the same
volume inside a pod, the host's between pods. Source: NCCL src/init.cc, src/graph/paths.cc.
"""

from collections.abc import Iterator

from webhook.admit.edits import AddMount, AddVolume, Finding
from webhook.admit.request import PodContainer
from webhook.admit.subject import Subject
from webhook.admit.volumes import own_volume
from webhook.model import names
from webhook.model.options import Profile
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import Volume
from webhook.model.quantity import parse_quantity

PURPOSE = "give it enough shared memory"


def plan(subject: Subject) -> Iterator[Finding]:
    """A mount for each GPU container without one, and the volume."""
    mounts = {one.name: one.container.mount_at(names.SHARED_MEMORY_PATH) for one in subject.gpu_containers}
    bare = [one for one in subject.gpu_containers if not mounts[one.name]]
    volumes = list(dict.fromkeys(mount.name for mount in mounts.values() if mount))
    if subject.profile is Profile.NODE_PEERS and subject.host.ipc and volumes:
        raise _refused(subject, f"volume {volumes[0]}", "pods then have different devices there, and NCCL drops P2P")
    if subject.host.ipc:
        return
    if subject.profile is Profile.POD_PEERS and volumes:
        if len(volumes) > 1:
            raise _refused(subject, f"volumes {' and '.join(volumes)}", "peers need one and the same")
        yield from _mounts(bare, volumes[0])
    elif bare:
        yield from _with_own_volume(subject, bare)


def _with_own_volume(subject: Subject, bare: list[PodContainer]) -> Iterator[Finding]:
    size = subject.options.shm_size

    def is_ours(volume: Volume) -> bool:
        source = volume.empty_dir
        if source is None or source.medium != "Memory" or source.size_limit is None:
            return False
        return parse_quantity(source.size_limit, source=volume.name) == parse_quantity(size, source="shm-size")

    volume, exists = own_volume(subject.spec.volumes, names.SHARED_MEMORY_VOLUME, is_ours)
    if not exists:
        yield AddVolume(volume, {"medium": "Memory", "sizeLimit": size})
    yield from _mounts(bare, volume)


def _mounts(bare: list[PodContainer], volume: str) -> Iterator[Finding]:
    return (AddMount(one, volume, names.SHARED_MEMORY_PATH) for one in bare)


def _refused(subject: Subject, what: str, why: str) -> Refused:
    return Refused(
        Reason.CONTRADICTS_PROFILE,
        f"pod {subject.name} mounts {what} at {names.SHARED_MEMORY_PATH}, but in profile {subject.profile} {why}. "
        f"Remove the mount",
    )
