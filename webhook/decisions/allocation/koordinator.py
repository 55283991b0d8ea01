"""The annotation of Koordinator: JSON for the pod as a whole (koordinator apis/extension/device_share.go).

Koordinator names GPUs by minor number and, since 1.6, by UUID as well (pkg/scheduler/plugins/deviceshare/plugin.go).
"""

import json
import re
from typing import Any

from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.limit import BY_LENGTH, AllocationLimits
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.allocation.segments import check_read_back
from webhook.decisions.allocation.strict_json import described, read_json
from webhook.words import names
from webhook.words.errors import FormatError

_GPUS = "gpu"
_CORES = "koordinator.sh/gpu-core"
_MEMORY = "koordinator.sh/gpu-memory"
_JSON = 'an object in JSON such as {"gpu":[{"minor":0}]}'
_MAX_MINOR = 2**20 - 1
"""Linux include/linux/kdev_t.h, MINORBITS."""
_UUID = re.compile(r"[!-~]+")
_QUANTITY = re.compile(r"([0-9]{1,19})([kMGTPE]|[KMGTPE]i)?")
_FACTORS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18} | {
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_MAX_QUANTITY = 2**63 - 1
_MIB = 2**20


def parse_koordinator(text: str, source: str, limits: AllocationLimits = BY_LENGTH) -> Allocation:
    """Returns one segment with all GPUs of the pod; devices of other types are ignored.

    ``gpu-core`` and ``gpu-memory`` are read; ``gpu-memory-ratio``, ``gpu-memory`` in per cent of the card, is not.

    Raises:
        FormatError: ``text`` is no such JSON, a GPU has no minor number, or a GPU stands there twice.
        LimitError: there are too many devices.
    """
    types = read_json(text, source, expected=_JSON)
    if not isinstance(types, dict):
        raise FormatError(source, expected=_JSON, found=described(types))
    gpus = types.get(_GPUS)
    if gpus is not None and not isinstance(gpus, list):
        raise FormatError(f"{source}: {_GPUS}", expected="a list of GPUs", found=described(gpus))
    limits.check_devices(len(gpus or ()), source)
    devices = tuple(_device(gpu, f"{source}: {_GPUS}[{position}]") for position, gpu in enumerate(gpus or []))
    _check_distinct(devices, source)
    return Allocation(segments=(devices,), of_pod=True)


def format_koordinator(allocation: Allocation) -> str:
    """Returns the annotation's value as Koordinator 1.6 writes it.

    Raises:
        FormatError: the form has no place for the allocation, for example for a device without a minor number.
    """
    text = json.dumps({_GPUS: [_written(device) for device in allocation.devices]}, separators=(",", ":"))
    return check_read_back(text, parse_koordinator(text, "the allocation"), allocation, DIALECT.key)


DIALECT = Dialect(
    family="koordinator",
    key=names.KOORDINATOR_DEVICES_ALLOCATED,
    node_key="",
    parse=parse_koordinator,
    format=format_koordinator,
)


def _device(gpu: object, where: str) -> Device:
    if not isinstance(gpu, dict):
        raise FormatError(where, expected="an object with the minor number of a GPU", found=described(gpu))
    resources = gpu.get("resources")
    if resources is None:
        resources = {}
    if not isinstance(resources, dict):
        raise FormatError(f"{where}.resources", expected="an object of quantities", found=described(resources))
    return Device(
        uuid=_uuid(gpu.get("id"), f"{where}.id"),
        minor=_minor(gpu.get("minor"), f"{where}.minor"),
        memory_mib=_quantity(resources, _MEMORY, where) // _MIB,
        cores=_quantity(resources, _CORES, where),
    )


def _uuid(value: object, where: str) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise FormatError(where, expected='a UUID such as "GPU-5c3f..."', found=described(value))
    return value


def _minor(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_MINOR:
        raise FormatError(where, expected="N of /dev/nvidiaN, such as 0", found=described(value))
    return value


def _quantity(resources: dict[str, Any], name: str, where: str) -> int:
    """Returns a quantity of ``resources``; 0 where it is absent.

    It is a Kubernetes quantity in the canonical form, which has no fraction, or a number.
    """
    value = resources.get(name, 0)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    match = _QUANTITY.fullmatch(value if isinstance(value, str) else repr(value)) if _is_scalar(value) else None
    number = int(match[1]) * _FACTORS.get(match[2], 1) if match else -1
    if not 0 <= number <= _MAX_QUANTITY:
        raise FormatError(f"{where}.resources.{name}", expected='a quantity such as "80Gi"', found=described(value))
    return number


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _check_distinct(devices: tuple[Device, ...], source: str) -> None:
    seen: set[str] = set()
    for device in devices:
        for identity in (f"minor {device.minor}", device.uuid):
            if identity in seen:
                raise FormatError(f"{source}: {_GPUS}", expected="each GPU once", found=f"{identity} twice")
            if identity:
                seen.add(identity)


def _written(device: Device) -> dict[str, Any]:
    resources = {}
    if device.cores:
        resources[_CORES] = str(device.cores)
    if device.memory_mib:
        gib, rest = divmod(device.memory_mib, 1024)
        resources[_MEMORY] = f"{device.memory_mib}Mi" if rest else f"{gib}Gi"
    named = {"id": device.uuid} if device.uuid else {}
    return {"minor": device.minor} | named | {"resources": resources}
