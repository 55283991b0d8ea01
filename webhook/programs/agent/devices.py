"""The devices of a node that DRA drivers publish in ResourceSlices, with the attributes that identify their GPUs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_BUS_IDS = ("resource.kubernetes.io/pciBusID", "pciBusID", "pcieBusID")
"""The attributes that hold a PCI bus id: the standard name (k8s.io/dynamic-resource-allocation, deviceattribute), then
names of single drivers. HAMi's driver writes ``pcieBusID`` (k8s-dra-driver, cmd/hami-kubelet-plugin/hami_core.go)."""

Object = Mapping[str, Any]


class Pool(NamedTuple):
    """A pool: the devices that one driver publishes together."""

    driver: str
    name: str


class DeviceId(NamedTuple):
    """The name of one device in the cluster. No part is empty: a selector without a part selects more devices."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A device, with the attributes that identify its GPU."""

    id: DeviceId
    uuid: str = ""
    bus_id: str = ""
    """The PCI bus id, in lower case, with a domain of four digits."""
    parent: str = ""
    """The UUID of the GPU of which this device is an instance."""
    is_instance: bool = False
    """Whether the device is an instance of a GPU in MIG mode, which has no NVLinks."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The published devices and pools of a node."""

    devices: tuple[Device, ...] = ()
    """The devices of the newest generation of each complete pool."""
    pools: frozenset[Pool] = field(default_factory=frozenset)
    """All pools of the node."""
    complete: frozenset[Pool] = field(default_factory=frozenset)
    """The pools whose newest generation has all its slices."""


def node_devices(slices: Iterable[Object], node: str) -> NodeDevices:
    """Reads the slices of a node.

    While a driver replaces its slices, there are slices of two generations, or only some of the newest generation
    (k8s.io/api resource/v1, ResourcePool).

    Args:
        slices: ResourceSlices, as the API server sent them. Slices of other nodes and malformed ones are ignored.
        node: The name of the node.
    """
    newest: dict[Pool, int] = {}
    found: dict[tuple[Pool, int], list[Object]] = defaultdict(list)
    for spec in (as_object(one.get("spec")) for one in slices):
        about = as_object(spec.get("pool"))
        pool, generation = Pool(text_in(spec, "driver"), text_in(about, "name")), about.get("generation")
        if all(pool) and spec.get("nodeName") == node and isinstance(generation, int):
            newest[pool] = max(newest.get(pool, generation), generation)
            found[pool, generation].append(spec)
    complete = {pool: found[pool, number] for pool, number in newest.items() if _is_complete(found[pool, number])}
    devices = {device.id: device for pool, specs in complete.items() for device in _devices(pool, specs)}
    return NodeDevices(tuple(devices[name] for name in sorted(devices)), frozenset(newest), frozenset(complete))


def normal_bus_id(text: str) -> str:
    """Returns a PCI bus id in the form of sysfs, ``0000:4a:00.0``. NVML writes upper case and eight domain digits."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}" if rest else ""


def _is_complete(specs: list[Object]) -> bool:
    return len(specs) == as_object(specs[0].get("pool")).get("resourceSliceCount")


def _devices(pool: Pool, specs: Iterable[Object]) -> Iterator[Device]:
    for spec in specs:
        for one in _objects(spec.get("devices")):
            name, attributes = text_in(one, "name"), as_object(one.get("attributes"))
            if name:
                parent = _attribute(attributes, pool, "parentUUID")
                yield Device(
                    id=DeviceId(*pool, name),
                    uuid=_attribute(attributes, pool, "uuid"),
                    bus_id=normal_bus_id(
                        next(filter(None, (_attribute(attributes, pool, key) for key in _BUS_IDS)), "")
                    ),
                    parent=parent,
                    is_instance=bool(parent) or _attribute(attributes, pool, "type") == "mig",
                )


def _attribute(attributes: Object, pool: Pool, name: str) -> str:
    """Returns a string attribute. A name without a domain is in the driver's domain, which may also be written out."""
    value = attributes.get(name, attributes.get(f"{pool.driver}/{name}"))
    return text_in(as_object(value), "string")


def _objects(value: object) -> list[Object]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def as_object(value: object) -> Object:
    """Returns a value of the API server's JSON if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def text_in(holder: Object, key: str) -> str:
    """Returns a member of an object if it is a string, else an empty string."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""
