"""The devices that DRA drivers publish of a node, in ResourceSlices, and which of them are which GPU."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_BUS_IDS = ("resource.kubernetes.io/pciBusID", "pciBusID", "pcieBusID")
"""The standard name (k8s.io/dynamic-resource-allocation, deviceattribute), and those that drivers have of their own:
HAMi's says ``pcieBusID`` (k8s-dra-driver, cmd/hami-kubelet-plugin/hami_core.go)."""

Object = Mapping[str, Any]


class Pool(NamedTuple):
    """Devices that one driver publishes together."""

    driver: str
    name: str


class DeviceId(NamedTuple):
    """What names one device in the cluster. No part is empty: a selector with less would mean more devices."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A device, as far as it tells which GPU it is."""

    id: DeviceId
    uuid: str = ""
    bus_id: str = ""
    """With a domain of four digits, in lower case."""
    parent: str = ""
    """UUID of the GPU that it is an instance of."""
    is_instance: bool = False
    """Whether it is an instance of a GPU in MIG mode, which has no NVLinks."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What is published of a node."""

    devices: tuple[Device, ...] = ()
    """Of the newest generation of each pool that is complete."""
    pools: frozenset[Pool] = field(default_factory=frozenset)
    """All pools of the node."""
    complete: frozenset[Pool] = field(default_factory=frozenset)
    """Those of which the newest generation is there as a whole."""


def node_devices(slices: Iterable[Object], node: str) -> NodeDevices:
    """Read the slices of a node.

    While a driver publishes anew, slices of two generations are there, or not all of the newest yet
    (k8s.io/api resource/v1, ResourcePool).

    Args:
        slices: ResourceSlices, as the API server sent them. Those of other nodes, and what is none, do not count.
        node: Name of the node.
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
    """A PCI bus id as sysfs writes it, ``0000:4a:00.0``; NVML's has a domain of eight digits, in upper case."""
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
    """A string; a name without a domain belongs to the driver, which may also spell its domain out."""
    value = attributes.get(name, attributes.get(f"{pool.driver}/{name}"))
    return text_in(as_object(value), "string")


def _objects(value: object) -> list[Object]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def as_object(value: object) -> Object:
    """What the API server sent, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def text_in(holder: Object, key: str) -> str:
    """A member of an object, if it is text; else empty."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""
