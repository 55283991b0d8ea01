"""The assignment of allocated GPUs to the containers of a pod."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Protocol, TypeVar

from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError
from webhook.words.listing import counted, listed

_SOURCE = "the pod's GPU allocation"
_FIX = "Was the pod changed after it was scheduled, or is its scheduler another one?"


class AsksForGpus(Protocol):
    """A container that may ask for GPUs."""

    @property
    def name(self) -> str:
        """The name of the container."""

    @property
    def count(self) -> int:
        """The number of GPUs that the container asks for; containers with 0 take no part."""

    @property
    def is_init(self) -> bool:
        """True if the container is an init container, restartable or not."""


C = TypeVar("C", bound=AsksForGpus)


def assign(allocation: Allocation, containers: Sequence[C]) -> list[tuple[C, tuple[Device, ...]]]:
    """Returns the containers that were given GPUs, in their order, each with its devices.

    The versions of HAMi differ in the containers that have a segment (pkg/device/devices.go and
    pkg/scheduler/score.go: before 2.9 init containers are not counted, and empty segments come and go). So the position
    of a segment means nothing. Only the order of the segments that hold devices is the same in all versions.

    Args:
        allocation: The allocation of the pod.
        containers: The pod's containers, init containers first: the order in which the kubelet asks for devices.

    Raises:
        FormatError: the segments cannot be those of these containers.
    """
    if allocation.containers:
        return _named_ones(allocation, containers)
    asking = [container for container in containers if container.count > 0]
    pairs = _dealt(allocation, asking) if allocation.of_pod else _zipped(allocation, asking)
    for container, devices in pairs:
        _check_distinct(container, devices)
    return pairs


def _named_ones(allocation: Allocation, containers: Sequence[C]) -> list[tuple[C, tuple[Device, ...]]]:
    """Returns the assignment by the names of containers.

    The counts are not compared: a claim may ask for all GPUs that there are.
    """
    given = dict(zip(allocation.containers, allocation.segments, strict=True))
    strangers = given.keys() - {container.name for container in containers}
    if strangers:
        raise FormatError(_SOURCE, expected=f"devices of {_named(containers)}", found=f"of {min(strangers)}", fix=_FIX)
    return [(container, given[container.name]) for container in containers if given.get(container.name)]


def _zipped(allocation: Allocation, asking: Sequence[C]) -> list[tuple[C, tuple[Device, ...]]]:
    given = allocation.given
    served = asking if len(given) == len(asking) else _apps(asking)
    if list(map(len, given)) != [container.count for container in served]:
        raise FormatError(_SOURCE, expected=_asked(asking, _apps(asking)), found=_given(given), fix=_FIX)
    return list(zip(served, given, strict=True))


def _apps(asking: Sequence[C]) -> Sequence[C]:
    return [container for container in asking if not container.is_init]


def _dealt(allocation: Allocation, asking: Sequence[C]) -> list[tuple[C, tuple[Device, ...]]]:
    devices, total = allocation.devices, sum(container.count for container in asking)
    if len(devices) != total:
        expected = f"{counted(total, 'device')} for {_named(asking)}"
        raise FormatError(_SOURCE, expected=expected, found=counted(len(devices), "device"), fix=_FIX)
    remaining = iter(devices)
    return [(container, tuple(islice(remaining, container.count))) for container in asking]


def _check_distinct(container: AsksForGpus, devices: Sequence[Device]) -> None:
    """Refuses a GPU that a container has twice; it may have several MIG instances of one."""
    gpus = [(device.uuid, device.minor) for device in devices if not device.mig]
    if len(set(gpus)) < len(gpus):
        uuid, minor = Counter(gpus).most_common(1)[0][0]
        found = f"{uuid or f'minor number {minor}'} twice"
        raise FormatError(_SOURCE, expected=f"each GPU of container {container.name} once", found=found, fix=_FIX)


def _asked(asking: Sequence[AsksForGpus], apps: Sequence[AsksForGpus]) -> str:
    """Returns the requests in words; two versions where init containers ask: HAMi before 2.9 gives those nothing."""
    if not apps or len(apps) == len(asking):
        return f"segments for {_named(asking)}"
    return f"segments for {_named(asking)}, or without the init containers for {_named(apps)}"


def _named(containers: Sequence[AsksForGpus]) -> str:
    if not containers:
        return "no container, because none asks for GPUs"
    each = ", ".join(f"{container.name} with {container.count}" for container in containers)
    return f"{counted(len(containers), 'container')}: {each}"


def _given(given: Sequence[Sequence[Device]]) -> str:
    if not given:
        return "no segment"
    counts = [str(len(segment)) for segment in given]
    return f"{counted(len(given), 'segment')} with {listed(counts)} {'device' if counts == ['1'] else 'devices'}"
