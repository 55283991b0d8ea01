"""Facts about the GPUs, read from NVML.

Functions, fields and errors have the meanings of ``nvml.h``. The Python bindings raise an error of NVML as
``pynvml.NVMLError``. Each reading starts and ends NVML, so that a driver can be unloaded between two readings.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import byref
from itertools import combinations
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types

from webhook.hardware.discovery.each_card import listed_cards
from webhook.hardware.discovery.facts import GpuFacts, LinkFacts, LostFacts, NvmlFacts, PairFacts, Remote
from webhook.hardware.discovery.field_values import read_fields
from webhook.hardware.topology.model import Fabric
from webhook.words import names
from webhook.words.errors import FormatError

_Handle = Any

_NO_SUCH_FEATURE = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
"""Errors which say that the GPU, the link or the driver does not have a feature."""

_NO_START = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not here: install the NVIDIA driver or, in a container, "
    "use NVIDIA's runtime with the driver capability utility or, where the GPU Operator's NRI plugin stands in for "
    f"that runtime, ask it by an annotation of the pod ({names.NRI_DEVICES}/container.NAME)",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: see dmesg, and load it with modprobe nvidia",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the kernel module of the NVIDIA driver and libnvidia-ml.so.1 are of "
    "different versions, as after an update: load the module anew or restart the node, then restart this program",
    pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver does not let this process in: it must be able to open "
    "/dev/nvidiactl",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "the NVIDIA driver is too old: install a current one",
}
_NO_GPU = "the NVIDIA driver lists no GPU: see lspci and dmesg and, in a container, " + names.ENV_NVIDIA_VISIBLE_DEVICES

_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_CPU_WORDS = 128
"""Linux has at most 8192 CPUs on x86_64 (NR_CPUS)."""
_UP = (pynvml.NVML_NVLINK_STATE_ACTIVE, pynvml.NVML_NVLINK_STATE_SLEEP)
"""A link that sleeps to save power wakes up with the first transfer."""
_FIELDS_SINCE = (9, 0)
"""Compute capability from which on NCCL reads link states and C2C from field values: src/graph/xml.cc."""
_REMOTES = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: Remote.GPU,
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: Remote.SWITCH,
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: Remote.CPU,
}
_FABRIC_STATES = {
    pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED: "unsupported",
    pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "not-started",
    pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "in-progress",
    pynvml.NVML_GPU_FABRIC_STATE_COMPLETED: "completed",
}
_P2P_READ = 0
"""``NVML_P2P_CAPS_INDEX_READ`` of the bindings is a tuple, which no function takes."""
_REFUSALS = {
    pynvml.NVML_P2P_STATUS_OK: "",
    pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: "chipset not supported",
    pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED: "GPU not supported",
    pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology of the I/O hub not supported",
    pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY: "disabled by a setting of the driver",
    pynvml.NVML_P2P_STATUS_NOT_SUPPORTED: "not supported",
}
_AILMENTS = {
    "degraded bandwidth": pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW,
    "a recovery of routes": pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY,
    "unhealthy routes": pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY,
    "a recovery from an access timeout": pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY,
}
"""Position of the two bits of each ailment in the health mask of the fabric."""
_TWO_BITS, _FOUR_BITS = 0x3, 0xF
_TRUE = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE
"""The two bits of an ailment that is present; NVML has the same number for all ailments."""
_MISCONFIGURED = {
    pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_SYSGUID: "system GUID",
    pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_CHASSIS_SN: "serial number of the chassis",
    pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NO_PARTITION: "no partition",
    pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INSUFFICIENT_NVLINKS: "too few NVLinks",
}
_PATHS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}


def read_nvml() -> NvmlFacts:
    """Reads the present facts from NVML.

    Never raises an error of NVML: facts that cannot be read are absent, and ``problem`` says why there are none.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NvmlFacts(problem=_NO_START.get(error.value, f"NVML does not start: {error}. See dmesg and nvidia-smi"))
    try:
        return _read_all()
    except pynvml.NVMLError as error:
        return NvmlFacts(problem=f"NVML gives no answer: {error}. See dmesg and nvidia-smi")
    except FormatError as error:
        return NvmlFacts(problem=str(error))
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read_all() -> NvmlFacts:
    devices = [_read_device(index) for index in listed_cards()]
    gpus = tuple(device for device in devices if isinstance(device, GpuFacts))
    return NvmlFacts(
        driver_version=_ask(pynvml.nvmlSystemGetDriverVersion) or "",
        cuda_version=_read_cuda_version(),
        problem="" if devices else _NO_GPU,
        gpus=gpus,
        lost=tuple(device for device in devices if isinstance(device, LostFacts)),
        pairs=_read_pairs(gpus),
    )


def _ask(call: Callable[..., Any], *arguments: object) -> Any:
    """Returns the answer of NVML to a call; None if it has none.

    Raises:
        pynvml.NVMLError: the GPU is lost.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None
    except UnicodeDecodeError:  # names of devices that a virtual machine does not see
        return None


def _ask_strictly(call: Callable[..., Any], *arguments: object) -> Any:
    """Returns the answer of NVML to a call; None if the GPU, the link or the driver does not have the feature.

    Raises:
        pynvml.NVMLError: any other error: the feature may exist, but nothing is known of it.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value not in _NO_SUCH_FEATURE:
            raise
        return None
    except UnicodeDecodeError:
        return None


def _read_cuda_version() -> str:
    version = _ask(pynvml.nvmlSystemGetCudaDriverVersion)
    return f"{version // 1000}.{version % 1000 // 10}" if version else ""


def _read_device(index: int) -> GpuFacts | LostFacts:
    bus_id = uuid = ""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        bus_id = _ask_strictly(_read_bus_id, handle) or ""
        uuid = _ask_strictly(pynvml.nvmlDeviceGetUUID, handle) or ""
        return _read_gpu(handle, index, uuid, bus_id)
    except pynvml.NVMLError as error:
        closed = error.value == pynvml.NVML_ERROR_NO_PERMISSION
        said = f"{error}: this process may not open its device node" if closed else str(error)
        return LostFacts(index=index, said=said, uuid=uuid, bus_id=bus_id)


def _read_bus_id(handle: _Handle) -> str:
    return _as_in_sysfs(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _as_in_sysfs(bus_id: str) -> str:
    """Returns the bus id in the form of sysfs, ``0000:1b:00.0`` for ``00000000:1B:00.0``; empty if it is no bus id."""
    parts = _BUS_ID.fullmatch(bus_id)
    if not parts:
        return ""
    domain, bus, device, function = parts.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def _read_gpu(handle: _Handle, index: int, uuid: str, bus_id: str) -> GpuFacts:
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    has_fields = capability is not None and capability >= _FIELDS_SINCE
    links, links_problem = _read_links_or_error(handle, has_fields=has_fields)
    return GpuFacts(
        index=index,
        uuid=uuid,
        bus_id=bus_id,
        name=_ask(pynvml.nvmlDeviceGetName, handle) or "",
        minor=_ask(pynvml.nvmlDeviceGetMinorNumber, handle),
        capability=capability,
        memory_bytes=memory.total if memory else 0,
        numa_node=_read_numa_node(handle),
        cpu_words=tuple(_ask(pynvml.nvmlDeviceGetCpuAffinity, handle, _CPU_WORDS) or ()),
        mig_enabled=mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE if mig else None,
        pcie_generation=_ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle) or 0,
        pcie_width=_ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle) or 0,
        links=links,
        link_count=_read_link_count(handle),
        links_problem=links_problem,
        c2c_mbps=_read_c2c(handle) if has_fields else (),
        fabric=_read_fabric(handle),
    )


def _read_numa_node(handle: _Handle) -> int | None:
    node: int | None = _ask(pynvml.nvmlDeviceGetNumaNodeId, handle)
    return node if node is not None and node >= 0 else None


def _read_link_count(handle: _Handle) -> int | None:
    """Returns the number of links of the GPU; None from a driver that does not know this field, or has no fields."""
    (count,) = _read_numbers(handle, [(pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    return count


def _read_links_or_error(handle: _Handle, *, has_fields: bool) -> tuple[tuple[LinkFacts, ...], str]:
    """Returns all links, or none and the error of NVML: a part of the links would look like a GPU with few links."""
    try:
        return _read_links(handle, has_fields=has_fields), ""
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return (), str(error)


def _read_links(handle: _Handle, *, has_fields: bool) -> tuple[LinkFacts, ...]:
    # A link in the middle may be missing, so no error ends the search. The P2P capability is read first because this
    # call trains the link: NCCL src/graph/xml.cc.
    can_p2p = {number: _read_link_p2p(handle, number) for number in range(pynvml.NVML_NVLINK_MAX_LINKS)}
    present = [
        number
        for number, can in can_p2p.items()
        if can is not None or _ask(pynvml.nvmlDeviceGetNvLinkState, handle, number) is not None
    ]
    states = _read_link_states(handle, present, has_fields=has_fields)
    return tuple(
        _read_link(handle, number, up=bool(can_p2p[number]) and states[number] in _UP)
        for number in present
        if number in states
    )


def _read_link(handle: _Handle, number: int, *, up: bool) -> LinkFacts:
    remote = _REMOTES.get(_ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number), Remote.UNKNOWN)
    # The bus id of a switch, or of the end of a link that is down, does not matter: there an error is ignored.
    ask = _ask_strictly if up and remote in (Remote.GPU, Remote.UNKNOWN) else _ask
    return LinkFacts(up=up, remote=remote, remote_bus_id=ask(_read_remote_bus_id, handle, number) or "")


def _read_link_p2p(handle: _Handle, number: int) -> bool | None:
    """Returns whether GPUs may use a link to reach each other, as NCCL reads it too; None if there is no such link."""
    try:
        return bool(pynvml.nvmlDeviceGetNvLinkCapability(handle, number, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED))
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None if error.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT) else True


def _read_link_states(handle: _Handle, numbers: list[int], *, has_fields: bool) -> dict[int, int]:
    """Returns the states of links, by their numbers. Drivers without the field values know only up and down.

    Raises:
        pynvml.NVMLError: a link exists and its state cannot be read.
    """
    answers: dict[int, int | None] = dict.fromkeys(numbers)
    if has_fields and numbers:
        fields = [(pynvml.NVML_FI_DEV_NVLINK_GET_STATE, number) for number in numbers]
        answers = dict(zip(numbers, _read_numbers(handle, fields), strict=True))
    for number in [number for number, state in answers.items() if state is None]:
        answers[number] = _ask_strictly(pynvml.nvmlDeviceGetNvLinkState, handle, number)
    return {number: state for number, state in answers.items() if state is not None}


def _read_remote_bus_id(handle: _Handle, number: int) -> str:
    return _as_in_sysfs(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId)


def _read_numbers(handle: _Handle, fields: Sequence[tuple[int, int]]) -> list[int | None]:
    """Reads the numbers in fields, each given with its scope; None for a field without a number."""
    values = _ask(read_fields, handle, fields)
    return [None] * len(fields) if values is None else [value.unsigned for value in values]


def _read_c2c(handle: _Handle) -> tuple[int, ...]:
    (count,) = _read_numbers(handle, [(pynvml.NVML_FI_DEV_C2C_LINK_COUNT, 0)])
    speeds = []
    for number in range(min(count or 0, pynvml.NVML_NVLINK_MAX_LINKS)):
        fields = (pynvml.NVML_FI_DEV_C2C_LINK_GET_STATUS, number), (pynvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW, number)
        status, speed = _read_numbers(handle, fields)
        if status == 1 and speed:
            speeds.append(speed)
    return tuple(speeds)


def _read_fabric(handle: _Handle) -> Fabric | None:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    if _ask(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, byref(info)) is None:
        return None
    completed = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
    return Fabric(
        state=_FABRIC_STATES.get(info.state, f"state {info.state}"),
        status=_read_fabric_status(info.status) if completed else "",  # nvml.h: means nothing before
        cluster_uuid=_as_uuid(bytes(info.clusterUuid).hex()),
        clique_id=info.cliqueId,
        ailments=_read_ailments(info.healthMask) if completed else (),
    )


def _read_fabric_status(status: int) -> str:
    return "success" if status == pynvml.NVML_SUCCESS else str(pynvml.NVMLError(status))


def _read_ailments(mask: int) -> tuple[str, ...]:
    """Returns the ailments in the health mask. A driver writes 0 for an ailment that it does not know (nvml.h)."""
    found = [word for word, shift in _AILMENTS.items() if mask >> shift & _TWO_BITS == _TRUE]
    configuration = mask >> pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & _FOUR_BITS
    if configuration > pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE:
        reason = _MISCONFIGURED.get(configuration, f"reason {configuration}")
        found.append(f"an incorrect configuration ({reason})")
    return tuple(found)


def _as_uuid(digits: str) -> str:
    """Formats 32 hexadecimal digits as a UUID; empty for zeros, which mean that the node belongs to no cluster."""
    if not digits.strip("0"):
        return ""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _read_pairs(gpus: tuple[GpuFacts, ...]) -> tuple[PairFacts, ...]:
    with suppress(pynvml.NVMLError):  # a GPU that was lost meanwhile will be missing from the next reading
        handles = [(gpu.index, pynvml.nvmlDeviceGetHandleByIndex(gpu.index)) for gpu in gpus]
        return tuple(_read_pair(*one, *other) for one, other in combinations(handles, 2))
    return ()


def _read_pair(one: int, handle: _Handle, other: int, other_handle: _Handle) -> PairFacts:
    status = _ask(pynvml.nvmlDeviceGetP2PStatus, handle, other_handle, _P2P_READ)
    ancestor = _ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, other_handle)
    return PairFacts(
        one=one,
        other=other,
        refusal="" if status is None else _REFUSALS.get(status, f"unknown status {status}"),
        pcie=_PATHS.get(ancestor, ""),
    )
