"""Which of the allocated GPUs belong to which container."""

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
    """What this module needs to know of a container."""

    @property
    def name(self) -> str:
        """Of the container."""

    @property
    def count(self) -> int:
        """GPUs that it asks for; containers with 0 take no part."""

    @property
    def is_init(self) -> bool:
        """Whether it is an init container, restartable or not."""


C = TypeVar("C", bound=AsksForGpus)


def assign(allocation: Allocation, containers: Sequence[C]) -> list[tuple[C, tuple[Device, ...]]]:
    """The containers that were given GPUs, in their order, each with its devices.

    Which containers have a segment differs between the versions of HAMi (pkg/device/devices.go and
    pkg/scheduler/score.go: before 2.9 init containers are not counted, and empty segments come and go), so that the
    position of a segment means nothing. What holds in all of them is the order of those that hold devices.

    Args:
        allocation: What the scheduler gave.
        containers: Of the pod, init containers first: the order in which the kubelet asks for their devices.

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
    """By the names of the containers. What they asked for is not compared: a claim may ask for all that there are."""
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
    """A container never gets a GPU twice, only several MIG instances of one."""
    gpus = [(device.uuid, device.minor) for device in devices if not device.mig]
    if len(set(gpus)) < len(gpus):
        uuid, minor = Counter(gpus).most_common(1)[0][0]
        found = f"{uuid or f'minor number {minor}'} twice"
        raise FormatError(_SOURCE, expected=f"each GPU of container {container.name} once", found=found, fix=_FIX)


def _asked(asking: Sequence[AsksForGpus], apps: Sequence[AsksForGpus]) -> str:
    """Two readings where init containers ask too: HAMi before 2.9 gives those nothing."""
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
