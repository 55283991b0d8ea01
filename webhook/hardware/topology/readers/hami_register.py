"""The node annotation ``hami.io/node-nvidia-register``, in which HAMi's device plugin lists the GPUs of a node.

Up to HAMi 2.7 each GPU is a list of fields separated by commas and ended by a colon: HAMi pkg/util/util.go and
pkg/device/devices.go, EncodeNodeDevices. From 2.8 on the list is JSON in which Go's ``omitempty`` leaves out values
that are 0, false or empty: pkg/device/devices.go, DeviceInfo and MarshalNodeDevices.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhook.hardware.topology.consistency import MAX_GPUS
from webhook.hardware.topology.fields import Fields
from webhook.hardware.topology.readers.limit import check_length
from webhook.words.errors import FormatError

_PREFIX = "NVIDIA-"
_SHORT, _LONG = 7, 9
"""Numbers of fields of a GPU in the old form. The short form has no index and no mode."""
_ENDS_IN_COLON = "uuid,count,memory,cores,type,numa,health,index,mode: for each GPU"
_TRUNCATED = "The annotation may be cut off: restart HAMi's device plugin on the node"
_OLD_FORM = re.compile(r"\s*[^\s,:]+(,\d+){3},[^,:\n]*,-?\d+,(true|false)[,:]")
_NEW_FORM = re.compile(r"\s*\[\s*(\{|\]\s*$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredGpu:
    """One GPU as HAMi registered it."""

    uuid: str
    index: int | None
    """NVML index on the host; None in the short form of HAMi 2.4 and earlier."""
    memory_mib: int
    """MiB of memory, multiplied with deviceMemoryScaling except in MIG mode."""
    name: str
    """The name of NVML, without the word that HAMi puts in front of it."""
    numa_node: int | None
    """NUMA node. HAMi also writes 0 if sysfs has none."""
    healthy: bool
    mode: str
    """``hami-core``, ``mig`` or ``mps``; empty in the short form."""
    most_pods: int
    """The most containers that may share it: deviceSplitCount."""
    cores: int
    """Its cores in per cent: 100, multiplied with deviceCoreScaling."""


def looks_like_register(text: str) -> bool:
    """Returns whether a text begins like the annotation, in either form."""
    return bool(_OLD_FORM.match(text) or _NEW_FORM.match(text))


def parse_register(text: str, *, source: str) -> list[RegisteredGpu]:
    """Reads the annotation, in either form.

    Args:
        text: Its value. An empty text or an empty list means a node without GPUs.
        source: The name of the annotation in messages.

    Raises:
        FormatError: a field is missing, surplus or invalid; or there are more than 64 GPUs.
    """
    check_length(text, source)
    text = text.strip()
    return _read_new(text, source) if text.startswith("[") else _read_old(text, source)


def plain_name(name: str) -> str:
    """Returns a name without HAMi's brand in front of it: ``NVIDIA H20`` for ``NVIDIA-NVIDIA H20``.

    Up to 2.7 HAMi puts the brand before every name, later before some.
    """
    return name.removeprefix(_PREFIX)


def _check_count(gpus: int, source: str) -> None:
    if gpus > MAX_GPUS:
        raise FormatError(source, expected=f"at most {MAX_GPUS} GPUs", found=gpus)


def _read_old(text: str, source: str) -> list[RegisteredGpu]:
    *gpus, rest = text.split(":")
    if rest:
        raise FormatError(source, expected=_ENDS_IN_COLON, found=rest, fix=_TRUNCATED)
    _check_count(len(gpus), source)
    return [_read_fields(gpu, f"{source}: GPU {position + 1}") for position, gpu in enumerate(gpus)]


def _read_fields(text: str, where: str) -> RegisteredGpu:
    fields = text.split(",")
    if len(fields) not in (_SHORT, _LONG) or not fields[0] or not text.isprintable():
        raise FormatError(where, expected=f"{_SHORT} or {_LONG} fields, the UUID first", found=text, fix=_TRUNCATED)
    numa = _number(fields, 5, "a NUMA node", where, sign="-?")
    if fields[6] not in ("true", "false"):
        raise FormatError(where, expected="true or false for its health", found=fields[6])
    return RegisteredGpu(
        uuid=fields[0],
        index=_number(fields, 7, "an index", where) if len(fields) == _LONG else None,
        memory_mib=_number(fields, 2, "MiB of memory", where),
        name=plain_name(fields[4]),
        numa_node=numa if numa >= 0 else None,
        healthy=fields[6] == "true",
        mode=fields[8] if len(fields) == _LONG else "",
        most_pods=_number(fields, 1, "how many pods may share it", where),
        cores=_number(fields, 3, "cores in percent", where),
    )


def _number(fields: Sequence[str], position: int, what: str, where: str, sign: str = "") -> int:
    if not re.fullmatch(sign + r"[0-9]{1,10}", fields[position]):
        raise FormatError(where, expected=f"a number for {what}", found=fields[position])
    return int(fields[position])


def _read_new(text: str, source: str) -> list[RegisteredGpu]:
    try:
        gpus = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(source, expected="a list of GPUs in JSON", found=str(error), fix=_TRUNCATED) from None
    _check_count(len(gpus), source)
    return [_read_object(gpu, f"[{position}]", source) for position, gpu in enumerate(gpus)]


def _read_object(value: object, path: str, source: str) -> RegisteredGpu:
    gpu = Fields(source, path, value)
    health = value.get("health", False) if isinstance(value, dict) else False
    if not isinstance(health, bool):
        gpu.fail("health", "true or false", health)
    return RegisteredGpu(
        uuid=gpu.text("id", None),
        index=gpu.number("index", 0),
        memory_mib=gpu.number("devmem", 0),
        name=plain_name(gpu.text("type")),
        numa_node=gpu.number("numa", 0),
        healthy=health,
        mode=gpu.text("mode"),
        most_pods=gpu.number("count", 0),
        cores=gpu.number("devcore", 0),
    )
