"""What DRA drivers and their charts write: ResourceSlices and DeviceClasses, from a topology of this project.

NVIDIA's is version 0.4.1 of ``sigs.k8s.io/dra-driver-nvidia-gpu`` (``cmd/gpu-kubelet-plugin/deviceinfo.go``), HAMi's is
``Project-HAMi/k8s-dra-driver`` (``cmd/hami-kubelet-plugin/hami_core.go``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from webhook.hardware.topology.model import Gpu, NodeTopology

VERSION = "resource.k8s.io/v1"
NVIDIA, HAMI = "gpu.nvidia.com", "hami-core-gpu.project-hami.io"
GPU_CLASS, MIG_CLASS, HAMI_CLASS = NVIDIA, "mig.nvidia.com", HAMI
GPU_RESOURCE = "nvidia.com/gpu"
ARCHITECTURES = {"7.0": "Volta", "7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.9": "Ada Lovelace"}
ARCHITECTURES |= {"9.0": "Hopper", "10.0": "Blackwell"}
"""By compute capability, in the words of NVML's Go bindings."""

Manifest: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class MigDevice:
    """One instance of a card in MIG mode, made before the driver started.

    Attributes:
        gpu: Index of the card.
        uuid: Of the instance.
        profile: As nvidia-smi writes it.
        profile_id: Of NVML.
        start: First memory slice.
        size: Memory slices.
        memory_mib: Of the instance.
    """

    gpu: int
    uuid: str
    profile: str = "3g.40gb"
    profile_id: int = 9
    start: int = 0
    size: int = 4
    memory_mib: int = 40192


def nvidia_devices(topology: NodeTopology, mig: Sequence[MigDevice] = ()) -> list[Manifest]:
    """Cards and MIG devices in an order that says nothing: the driver ranges over a map of Go.

    A card with MIG devices is not published itself. The order is the same in each run.
    """
    cut = {device.gpu for device in mig}
    cards = [_nvidia_card(gpu, topology) for gpu in topology.gpus if gpu.index not in cut]
    return _shuffled([*cards, *(_mig_device(device, topology) for device in mig)], topology.node)


def with_partitions(devices: Sequence[Manifest], *members: Sequence[int]) -> list[Manifest]:
    """The cards as version 0.5.0 publishes them with its gate ``FabricManagerPartitioning``.

    Args:
        devices: Cards, named by their place on the board.
        members: The cards of each partition; the first has number 1.
    """

    def numbers(place: int) -> Manifest:
        found = [(len(each), number) for number, each in enumerate(members, 1) if place in each]
        return {"gpuModuleID": {"int": place + 1}} | {f"partition{size}": {"int": number} for size, number in found}

    places = [(device, int(device["name"].removeprefix("gpu-"))) for device in devices]
    return [device | {"attributes": device["attributes"] | numbers(place)} for device, place in places]


def hami_devices(topology: NodeTopology) -> list[Manifest]:
    """Cards that several claims can share."""
    return _shuffled([_hami_card(gpu, topology) for gpu in topology.gpus], topology.node)


def slices(
    driver: str, node: str, devices: Sequence[Manifest], *, generation: int = 1, parts: int = 1, published: int = 0
) -> list[Manifest]:
    """The ResourceSlices of the node's pool.

    Args:
        driver: Its name.
        node: Name of the node and, as these drivers do it, of the pool.
        devices: In the order in which the scheduler tries them.
        generation: Of the pool.
        parts: How many slices the devices are spread over.
        published: How many of these are there; 0: all.
    """
    pool = {"name": node, "generation": generation, "resourceSliceCount": parts}
    size = -(-len(devices) // parts)
    every = [
        {
            "apiVersion": VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{generation}-{part}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": pool,
                "devices": list(devices[part * size : (part + 1) * size]),
            },
        }
        for part in range(parts)
    ]
    return every[: published or parts]


def nvidia_slices(topology: NodeTopology, mig: Sequence[MigDevice] = (), **pool: Any) -> list[Manifest]:
    """What NVIDIA's driver publishes for the node; ``pool`` as in ``slices``."""
    return slices(NVIDIA, topology.node, nvidia_devices(topology, mig), **pool)


def hami_slices(topology: NodeTopology, **pool: Any) -> list[Manifest]:
    """What HAMi's driver publishes for the node; ``pool`` as in ``slices``."""
    return slices(HAMI, topology.node, hami_devices(topology), **pool)


def device_classes() -> list[Manifest]:
    """Those of NVIDIA's chart, and HAMi's without its extended resource: only one class of a cluster can serve it."""
    return [
        _device_class(GPU_CLASS, NVIDIA, "gpu") | {"spec": _selects(NVIDIA, "gpu") | _serves(GPU_RESOURCE)},
        _device_class(MIG_CLASS, NVIDIA, "mig"),
        _device_class(HAMI_CLASS, HAMI, "hami-gpu"),
    ]


def _device_class(name: str, driver: str, kind: str) -> Manifest:
    return {
        "apiVersion": VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": _selects(driver, kind),
    }


def _selects(driver: str, kind: str) -> Manifest:
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    return {"selectors": [{"cel": {"expression": expression}}]}


def _serves(resource: str) -> Manifest:
    return {"extendedResourceName": resource}


def _nvidia_card(gpu: Gpu, topology: NodeTopology) -> Manifest:
    said = {"type": _string("gpu"), "uuid": _string(gpu.uuid)} | _model(gpu, topology) | _place(gpu)
    return {"name": f"gpu-{_minor(gpu)}", "attributes": said, "capacity": _memory(gpu.memory_mib)}


def _mig_device(device: MigDevice, topology: NodeTopology) -> Manifest:
    parent = next(gpu for gpu in topology.gpus if gpu.index == device.gpu)
    own = {"type": "mig", "uuid": device.uuid, "parentUUID": parent.uuid, "profile": device.profile}
    occupied = {f"memorySlice{place}": {"value": "1"} for place in range(device.start, device.start + device.size)}
    profile = device.profile.replace(".", "")
    return {
        "name": f"gpu-{_minor(parent)}-mig-{profile}-{device.profile_id}-{device.start}",
        "attributes": {key: _string(value) for key, value in own.items()} | _model(parent, topology) | _place(parent),
        "capacity": _memory(device.memory_mib) | occupied,
    }


def _hami_card(gpu: Gpu, topology: NodeTopology) -> Manifest:
    own = {"type": _string("hami-gpu"), "uuid": _string(gpu.uuid), "minor": {"int": _minor(gpu)}}
    bus = {"pcieBusID": _string(gpu.pci_bus_id)}
    return {
        "name": f"hami-gpu-{_minor(gpu)}",
        "attributes": own | bus | _model(gpu, topology) | _root(gpu),
        "capacity": {
            "cores": _shared("100", least="0", step="1"),
            "memory": _shared(f"{gpu.memory_mib}Mi", least="1Mi", step="1Mi"),
        },
        "allowMultipleAllocations": True,
    }


def _shared(whole: str, *, least: str, step: str) -> Manifest:
    policy = {"default": whole, "validRange": {"min": least, "max": whole, "step": step}}
    return {"value": whole, "requestPolicy": policy}


def _model(gpu: Gpu, topology: NodeTopology) -> Manifest:
    return {
        "productName": _string(gpu.name),
        "brand": _string("Nvidia"),
        "architecture": _string(ARCHITECTURES[gpu.compute_capability]),
        "cudaComputeCapability": _version(gpu.compute_capability),
        "driverVersion": _version(topology.driver_version),
        "cudaDriverVersion": _version(topology.cuda_version),
    }


def _place(gpu: Gpu) -> Manifest:
    return {"resource.kubernetes.io/pciBusID": _string(gpu.pci_bus_id)} | _root(gpu)


def _root(gpu: Gpu) -> Manifest:
    return {"resource.kubernetes.io/pcieRoot": _string(f"pci{gpu.root}")} if gpu.root else {}


def _memory(mib: int) -> Manifest:
    return {"memory": {"value": f"{mib}Mi"}}


def _minor(gpu: Gpu) -> int:
    return gpu.index if gpu.minor is None else gpu.minor


def _string(value: str) -> Mapping[str, str]:
    return {"string": value}


def _version(dotted: str) -> Mapping[str, str]:
    """Three numbers without leading zeros, as Masterminds/semver writes what NVML says."""
    numbers = [str(int(part)) for part in dotted.split(".")]
    return {"version": ".".join([*numbers, "0", "0"][:3])}


def _shuffled(devices: list[Manifest], node: str) -> list[Manifest]:
    Random(node).shuffle(devices)  # an order, not a secret
    return devices
