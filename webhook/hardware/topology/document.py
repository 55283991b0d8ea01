"""The written form of a topology: JSON, ``gpu.topology/v1 NodeTopology``.

Within v1 members are only added, each with a default, and a reader ignores members that it does not know. So an older
webhook can read the document of a newer agent, and the other way round. A change that old readers would misread needs
a v2.
"""

import json
from dataclasses import fields, is_dataclass
from typing import Any

from webhook.hardware.topology.consistency import checked
from webhook.hardware.topology.fields import Fields
from webhook.hardware.topology.model import (
    C2c,
    Cpu,
    Fabric,
    Gpu,
    LostGpu,
    MigMode,
    Nic,
    NodeTopology,
    NvLink,
    Pcie,
    PciSwitch,
)
from webhook.words import names
from webhook.words.errors import FormatError

API_VERSION = names.PREFIX + "v1"
KIND = "NodeTopology"
MAX_BYTES = 1024 * 1024
"""The size limit of a ConfigMap."""


def format_topology(topology: NodeTopology, *, indent: int | None = None) -> str:
    """Writes the JSON form without members that have their default; ``parse_topology`` reads it to an equal value."""
    document = {"apiVersion": API_VERSION, "kind": KIND} | _written(topology)
    return json.dumps(document, indent=indent, separators=None if indent else (",", ":"))


def parse_topology(text: str | bytes, *, source: str) -> NodeTopology:
    """Reads the JSON form.

    Args:
        text: The published document.
        source: Its name in messages, for example ``ConfigMap gpu-topology-node-1``.

    Raises:
        FormatError: the text is no NodeTopology of v1, is larger than 1 MiB, or contradicts itself.
    """
    size = len(text.encode(errors="surrogatepass") if isinstance(text, str) else text)
    if size > MAX_BYTES:
        raise FormatError(source, expected=f"at most {MAX_BYTES} bytes", found=f"{size} bytes")
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except _DuplicateMemberError as error:
        raise FormatError(source, expected="each member once", found=f"{error} twice") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(source, expected=f"a {KIND} in JSON", found=_fault(error)) from None
    document = Fields(source, "", value)
    version, kind = document.text("apiVersion"), document.text("kind")
    if (version, kind) != (API_VERSION, KIND):
        raise FormatError(
            source,
            expected=f"{KIND} of {API_VERSION}",
            found=f"{kind or 'no kind'} of {version or 'no version'}",
            fix="Webhook and agent should be of the same release" if kind == KIND else "",
        )
    return checked(_read_topology(document), source=source)


def _fault(error: ValueError | RecursionError) -> str:
    """Returns why a text is no JSON. The place comes first, because messages cut long texts."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "not UTF-8" if isinstance(error, UnicodeError) else "a number with too many digits"


class _DuplicateMemberError(ValueError):
    """A JSON object with the same member twice, which readers may understand differently."""


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in members:
        if name in result:
            raise _DuplicateMemberError(name)
        result[name] = value
    return result


_SPELLED = {"memory_mib": "memoryMiB", "bandwidth_mbps": "bandwidthMBps", "speed_gbps": "speedGbps"}
_PAIRS = "distance"
_MEASURED, _SLOWER = "measured", "slower"
_OBJECTS = (_PAIRS, _MEASURED, _SLOWER)


def _member(field: str) -> str:
    first, *rest = field.split("_")
    return _SPELLED.get(field) or first + "".join(word.capitalize() for word in rest)


def _written(part: Any) -> dict[str, Any]:
    """Returns the members of a part that differ from their defaults."""
    members = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if value != field.default:
            members[_member(field.name)] = dict(value) if field.name in _OBJECTS else _written_value(value)
    return members


def _written_value(value: Any) -> Any:
    if is_dataclass(value):
        return _written(value)
    return [_written_value(entry) for entry in value] if isinstance(value, tuple) else value


def _read_topology(document: Fields) -> NodeTopology:
    return NodeTopology(
        node=document.text("node", None),
        source=document.text("source", None),
        driver_version=document.text("driverVersion"),
        cuda_version=document.text("cudaVersion"),
        problem=document.text("problem"),
        gpus=document.parts("gpus", _read_gpu),
        lost=document.parts("lost", _read_lost),
        nvswitches=document.texts("nvswitches"),
        fabric=document.part("fabric", _read_fabric),
        switches=document.parts("switches", _read_switch),
        cpus=document.parts("cpus", _read_cpu),
        nics=document.parts("nics", _read_nic),
        measured_at=document.text("measuredAt"),
    )


def _read_gpu(gpu: Fields) -> Gpu:
    return Gpu(
        index=gpu.number("index"),
        uuid=gpu.text("uuid"),
        pci_bus_id=gpu.text("pciBusId"),
        name=gpu.text("name"),
        minor=gpu.optional_number("minor"),
        compute_capability=gpu.text("computeCapability"),
        memory_mib=gpu.number("memoryMiB", 0),
        numa_node=gpu.optional_number("numaNode"),
        own_numa_node=gpu.optional_number("ownNumaNode"),
        cpu_affinity=gpu.text("cpuAffinity"),
        mig_mode=_read_mig_mode(gpu),
        nvlinks=gpu.parts("nvlinks", _read_nvlink),
        links_problem=gpu.text("linksProblem"),
        c2c=gpu.part("c2c", _read_c2c),
        pcie=gpu.part("pcie", _read_pcie),
        parent=gpu.text("parent"),
        root=gpu.text("root"),
        distance=gpu.pairs(_PAIRS),
        measured=gpu.amounts(_MEASURED),
        slower=gpu.amounts(_SLOWER),
    )


def _read_mig_mode(gpu: Fields) -> MigMode:
    word = gpu.text("migMode", MigMode.UNSUPPORTED)
    if word not in list(MigMode):
        gpu.fail("migMode", " or ".join(MigMode), word)
    return MigMode(word)


def _read_nvlink(link: Fields) -> NvLink:
    return NvLink(target=link.text("target", None), count=link.number("count"), active=link.number("active"))


def _read_c2c(c2c: Fields) -> C2c:
    return C2c(links=c2c.number("links"), bandwidth_mbps=c2c.number("bandwidthMBps"))


def _read_pcie(pcie: Fields) -> Pcie:
    return Pcie(generation=pcie.number("generation"), width=pcie.number("width"))


def _read_lost(gpu: Fields) -> LostGpu:
    return LostGpu(
        index=gpu.number("index"),
        problem=gpu.text("problem", None),
        uuid=gpu.text("uuid"),
        pci_bus_id=gpu.text("pciBusId"),
    )


def _read_fabric(fabric: Fields) -> Fabric:
    return Fabric(
        state=fabric.text("state", None),
        status=fabric.text("status"),
        cluster_uuid=fabric.text("clusterUuid"),
        clique_id=fabric.number("cliqueId", 0),
        ailments=fabric.texts("ailments"),
    )


def _read_switch(switch: Fields) -> PciSwitch:
    return PciSwitch(
        pci_bus_id=switch.text("pciBusId", None),
        parent=switch.text("parent"),
        root=switch.text("root"),
        numa_node=switch.optional_number("numaNode"),
        pcie=switch.part("pcie", _read_pcie),
    )


def _read_cpu(cpu: Fields) -> Cpu:
    return Cpu(
        numa_node=cpu.number("numaNode"),
        affinity=cpu.text("affinity"),
        arch=cpu.text("arch", "x86_64"),
        vendor=cpu.text("vendor"),
        family=cpu.number("family", 0),
        model=cpu.number("model", 0),
    )


def _read_nic(nic: Fields) -> Nic:
    return Nic(
        name=nic.text("name", None),
        pci_bus_id=nic.text("pciBusId"),
        numa_node=nic.optional_number("numaNode"),
        link_layer=nic.text("linkLayer"),
        speed_gbps=nic.number("speedGbps", 0),
        pcie=nic.part("pcie", _read_pcie),
        parent=nic.text("parent"),
        root=nic.text("root"),
        distance=nic.pairs(_PAIRS),
    )
