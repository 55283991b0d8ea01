"""The GPUs of a pod that a version of HAMi counts as used once the init containers of the pod are done.

HAMi's scheduler keeps no record: it reads the allocation of each pod anew when it starts. Since 2.10 it reads it a
second time, at the first update of the pod after its init containers have ended, and then takes segments for those of
containers by their position, init containers first. But HAMi before 2.9 writes no segment for an init container, and
2.10.0 none for a container without a GPU. Of such an allocation it takes GPUs of running containers for those of init
containers that have ended, and offers them to other pods while the pod runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.request.resources import ContainerRequest
from webhook.objects.pod import InitContainer
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.version import Version

# AppContainersOnlyDeviceUsage in pkg/device/initContainer.go of 2.10.0: once every init container has ended
# (AllInitContainersSucceeded in pkg/util/util.go), the segments of all of them are dropped. Up to 2.9 all devices of
# the allocation count (DecodePodDevices in pkg/device/devices.go). The release branch of 2.10 stays so: what it got of
# #2723 pads new allocations only (https://github.com/Project-HAMi/HAMi/pull/2900).
_INIT_CONTAINERS_RELEASED_SINCE = Version(2, 10)
# SteadyStateDeviceUsage, of https://github.com/Project-HAMi/HAMi/pull/2723: merged after 2.10.0, for 2.11. Restartable
# init containers are not waited for, and their segments stay.
SIDECARS_COUNTED_SINCE = Version(2, 11)
# Resourcereqs in pkg/device/devices.go has rows for init containers.
_INIT_CONTAINERS_WRITTEN_SINCE = Version(2, 9)
# pkg/scheduler/score.go pads by the model of the card, and the allocation is kept by the word NVIDIA.
_WRITES_NO_EMPTY_SEGMENT = Version(2, 10, 0)


@dataclass(frozen=True, slots=True)
class Member:
    """A container of the pod."""

    name: str
    count: int
    """The number of GPUs that the container asks for."""
    is_init: bool = False
    """True if the container is an init container, restartable or not."""
    is_restartable: bool = False
    """True if the container is an init container that runs as long as the pod does."""

    @property
    def ends(self) -> bool:
        """True if the container ends before the containers of the pod start."""
        return self.is_init and not self.is_restartable


class Counting(msgspec.Struct, frozen=True):
    """The GPUs that containers of a running pod were given, and those of them that HAMi does not count."""

    given: tuple[Device, ...]
    """The GPUs of the containers that run as long as the pod does; one that two containers share stands here twice."""
    lost: tuple[Device, ...]
    """The GPUs among them that HAMi offers to other pods."""
    taken_for: tuple[str, ...]
    """The names of the init containers for whose GPUs HAMi takes those, in their order."""


def members(containers: Sequence[ContainerRequest]) -> tuple[Member, ...]:
    """Returns the containers of a pod, init containers first.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    return tuple([_member(container) for container in containers])


def counting(allocation: Allocation, containers: Sequence[Member], hami: Version) -> Counting | None:
    """Returns how a version of HAMi counts the GPUs of a pod once its init containers are done.

    Args:
        allocation: The allocation as HAMi wrote it, with its empty segments.
        containers: All containers of the pod, init containers first.
        hami: The version that reads the allocation, whichever version wrote it.

    Returns:
        ``None`` if the allocation is empty or cannot be that of these containers.
    """
    try:
        dealt = assign(allocation, containers)
    except FormatError:
        return None
    given = tuple([device for container, devices in dealt if not container.ends for device in devices])
    if not given:
        return None
    released = _released(containers, hami)
    held = Counter(
        [device for place, devices in enumerate(allocation.segments) for device in devices if place not in released]
    )
    lost = tuple((Counter(given) - held).elements())
    own = {container.name for container, _ in dealt if container.ends}
    taken = [released[place] for place, devices in enumerate(allocation.segments) if devices and place in released]
    return Counting(given, lost, tuple([name for name in taken if name not in own]) if lost else ())


def writes_every_segment(hami: Version | None) -> bool:
    """Returns whether this version is known to write a segment for every init container, also for one without a GPU."""
    return hami is not None and hami >= _INIT_CONTAINERS_WRITTEN_SINCE and hami != _WRITES_NO_EMPTY_SEGMENT


def ahead_of(name: str, containers: Sequence[Member]) -> tuple[str, ...]:
    """Returns the names of the init containers that end and stand ahead of the container ``name``."""
    before = containers[: next((place for place, each in enumerate(containers) if each.name == name), 0)]
    return tuple([container.name for container in before if container.ends])


def ahead_of_sidecar(containers: Sequence[Member]) -> tuple[str, tuple[str, ...]]:
    """Returns the name of our sidecar, and of the init containers that end and stand ahead of it; both may be empty."""
    for container in containers:
        if container.is_restartable and container.name.startswith(names.REMAP_CONTAINER):
            return container.name, ahead_of(container.name, containers)
    return "", ()


def _released(containers: Sequence[Member], hami: Version) -> dict[int, str]:
    """Returns the positions whose devices HAMi drops, with the names of the init containers that it takes them for."""
    inits = [container for container in containers if container.is_init]
    waits_for_ever = hami < SIDECARS_COUNTED_SINCE and any(container.is_restartable for container in inits)
    if hami < _INIT_CONTAINERS_RELEASED_SINCE or waits_for_ever:
        return {}
    return {place: container.name for place, container in enumerate(inits) if container.ends}


def _member(container: ContainerRequest) -> Member:
    spec = container.spec
    is_init = isinstance(spec, InitContainer)
    is_restartable = isinstance(spec, InitContainer) and spec.restart_policy == "Always"
    return Member(spec.name, container.request.count if container.request else 0, is_init, is_restartable)
