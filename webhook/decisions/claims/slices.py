"""The devices that drivers publish in ResourceSlices, found by the names that allocations use.

An allocation names a device by driver, pool and name. A pool may be spread over several slices. While a driver
publishes a pool anew, slices of two generations exist. Only the newest generation counts, and only when all of its
slices exist (k8s.io/api resource/v1, ResourcePool).

An older generation never stands in for a newest one that stays incomplete, even if the older one is whole.
kube-scheduler drops it too, and allocates none of its devices (k8s.io/dynamic-resource-allocation, structured/internal,
addSlice). To a request with a count it gives devices of the incomplete newest generation. Here those stay unknown,
because a slice that is still missing may publish the same name.
"""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import ResourceSlice, SliceDevice
from webhook.objects.pod import Quantity
from webhook.words.catalogue.claims import (
    DEVICE_NOT_PUBLISHED,
    DEVICE_PUBLISHED_TWICE,
    POOL_INCOMPLETE,
    POOL_NOT_PUBLISHED,
)
from webhook.words.catalogue.entry import Message

PARENT_UUID = "parentUUID"
"""The attribute of a MIG instance with the UUID of its GPU: dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/mig.go."""
TYPE = "type"
MODULE = "gpuModuleID"
"""The attribute of a whole GPU with its place on the board. With its gate ``FabricManagerPartitioning`` NVIDIA's driver
publishes it, and for each size the partition of the NVSwitches that the GPU is in, as ``partition4``:
dra-driver-nvidia-gpu 0.5.0, cmd/gpu-kubelet-plugin/deviceinfo.go, addFabricManagerAttributes."""
_PARTITION = re.compile(r"partition([1-9][0-9]?)", re.ASCII)


class PublishedDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that a GPU driver publishes."""

    uuid: str
    """The UUID of the whole GPU; empty where the driver does not say it."""
    is_whole: bool
    """Whether the device is a whole GPU, and not an instance of one."""
    capacity: Mapping[str, Quantity]
    partitions: Mapping[int, int] | None = None
    """The numbers of the partitions of the NVSwitches that the GPU is in, by the number of their GPUs; empty where the
    driver may use partitions and names none, ``None`` where nothing says that it uses them."""


class SlicePart(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a pool that one ResourceSlice publishes."""

    driver: str
    pool: str
    generation: int
    slices: int
    """The number of slices of this generation of the pool."""
    node: str
    """The node of the devices; empty if more than one node reaches them."""
    devices: Mapping[str, PublishedDevice]
    """The devices, by their names."""


class MissingDevice(Exception):
    """A device that was allocated is not published; ``message`` says what is missing."""

    def __init__(self, message: Message) -> None:
        self.message = message
        super().__init__(message.text)


class Pools:
    """All devices that are published now.

    Args:
        parts: The parts of all slices, in any order.
    """

    def __init__(self, parts: Iterable[SlicePart] = ()) -> None:
        self._pools: dict[tuple[str, str], dict[str, list[SlicePart]]] = {}
        """The parts of each pool, by driver and pool, then by the node of the devices."""
        for part in parts:
            found = self._pools.setdefault((part.driver, part.pool), {}).setdefault(part.node, [])
            if found and found[0].generation < part.generation:
                found.clear()
            if not found or found[0].generation == part.generation:
                found.append(part)

    def device(self, driver: str, pool: str, name: str, *, node: str = "") -> PublishedDevice:
        """Returns the device with a name.

        Args:
            driver: The DRA driver.
            pool: The pool.
            name: The name of the device.
            node: The node that has to reach the device; empty: any node.

        Raises:
            MissingDevice: the device is not published, or published twice, or its pool is incomplete.
        """
        parts = self._parts_of(driver, pool, node)
        if parts is None:
            raise MissingDevice(POOL_NOT_PUBLISHED.say(driver=driver, pool=pool))
        if (expected := _expected(parts)) > len(parts):
            message = POOL_INCOMPLETE.say(driver=driver, pool=pool, found=len(parts), expected=expected)
            raise MissingDevice(message)
        found = [part.devices[name] for part in parts if name in part.devices]
        if len(found) != 1:
            entry = DEVICE_PUBLISHED_TWICE if found else DEVICE_NOT_PUBLISHED
            raise MissingDevice(entry.say(driver=driver, pool=pool, device=name))
        return found[0]

    def uses_partitions(self, driver: str, pool: str, *, node: str = "") -> bool:
        """Returns whether the driver names partitions of the NVSwitches for a pool, and so prepares no other sets."""
        parts = self._parts_of(driver, pool, node) or ()
        return any(device.partitions for part in parts for device in part.devices.values())

    def whole_gpus(self, driver: str, node: str) -> list[PublishedDevice] | None:
        """Returns the whole GPUs that a driver publishes for a node; ``None`` if that is not known completely."""
        found = list[PublishedDevice]()
        pools = [parts for (name, _), of in self._pools.items() if name == driver and (parts := of.get(node))]
        for parts in pools:
            if len(parts) < _expected(parts):
                return None
            found += [device for part in parts for device in part.devices.values() if device.is_whole]
        return found if pools else None

    def _parts_of(self, driver: str, pool: str, node: str) -> list[SlicePart] | None:
        """Returns the slices of a pool that count for a node; ``None`` without any.

        The driver on the node writes the slices that name it. Slices that name no node count only without such ones:
        else whoever may write them could take the pool of any node away.
        """
        by_node = self._pools.get((driver, pool), {})
        return by_node.get(node) or by_node.get("") if node else next(iter(by_node.values()), None)


def _expected(parts: Iterable[SlicePart]) -> int:
    """Returns how many slices the pool has. All should say the same number."""
    return max(part.slices for part in parts)


def are_one_partition(gpus: Collection[PublishedDevice]) -> bool:
    """Returns whether different GPUs of one node are exactly the members of one partition of the NVSwitches.

    A partition is named by the number of its GPUs, and a GPU is in at most one of each size: dra-driver-nvidia-gpu
    0.5.0, pkg/fabricmanager/manager.go, GetPartitionsBySizeByModuleID.
    """
    numbers = {(gpu.partitions or {}).get(len(gpus)) for gpu in gpus}
    return len(numbers) == 1 and None not in numbers


def slice_part(published: ResourceSlice, settings: ClaimSettings) -> SlicePart | None:
    """Returns the GPUs that a ResourceSlice publishes; ``None`` if its driver is not known to publish any."""
    spec = published.spec
    driver = settings.driver(spec.driver)
    if driver is None:
        return None

    def device(found: SliceDevice) -> PublishedDevice:
        kind = found.text(TYPE, driver.name)
        is_whole = not driver.whole_types or kind in driver.whole_types
        uuid = found.text(driver.uuid_attribute if is_whole else PARENT_UUID, driver.name)
        capacity = {name: capacity.value for name, capacity in (found.capacity or {}).items()}
        return PublishedDevice(uuid, is_whole, capacity, _partitions(found, driver.name) if is_whole else None)

    return SlicePart(
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=spec.node_name or "",
        devices={found.name: device(found) for found in spec.devices or ()},
    )


def _partitions(found: SliceDevice, driver: str) -> dict[int, int] | None:
    numbers = found.numbers(driver)
    named = {int(match[1]): number for name, number in numbers.items() if (match := _PARTITION.fullmatch(name))}
    return named if named or MODULE in numbers else None
