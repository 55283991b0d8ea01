"""Nodes as the planner keeps them: what a pod needs of a node, and what HAMi may hand out there."""

from collections.abc import Mapping

import msgspec

from webhook.model import names
from webhook.model.errors import FormatError, ManifestError
from webhook.model.nesting import decode_answer
from webhook.model.pod import Fields, Quantity
from webhook.model.shape import shape_problem
from webhook.place.amounts import Amounts, read_amounts
from webhook.place.scheduling import Taint
from webhook.topology.readers.hami_register import RegisteredGpu, parse_register

_MIG = "mig"
_MOST_TAINTS = 256


class NodeRecord(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    is_cordoned: bool
    allocatable: Amounts
    registered: tuple[RegisteredGpu, ...]
    """The GPUs that HAMi may hand out whole: healthy, in no MIG mode, and not in ``hami.io/device-cordon``."""
    most: int
    """GPUs that HAMi registered, whatever their state."""


class _Metadata(Fields):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Spec(Fields):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class _Status(Fields):
    allocatable: dict[str, Quantity] | None = None


class _Node(Fields):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_Node)


def read_node(document: bytes | bytearray | memoryview, name: str, before: NodeRecord | None) -> NodeRecord:
    """What is kept of a Node.

    Args:
        document: JSON.
        name: Of the node, for errors.
        before: What was kept of it.

    Returns:
        The value from before, if nothing of that changed: nodes are written every few seconds.

    Raises:
        ManifestError: it is no Node.
    """
    try:
        found = decode_answer(_DECODER, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"Node {name}: {shape_problem(error)}") from None
    metadata, spec = found.metadata, found.spec or _Spec()
    registered = _registered(metadata.annotations or {}, name)
    cordoned = {uuid.strip() for uuid in (metadata.annotations or {}).get(names.HAMI_DEVICE_CORDON, "").split(",")}
    record = NodeRecord(
        name=metadata.name,
        labels=metadata.labels or {},
        taints=(spec.taints or ())[:_MOST_TAINTS],
        is_cordoned=bool(spec.unschedulable) or metadata.deletion_timestamp is not None,
        allocatable=read_amounts(found.status.allocatable if found.status else None),
        registered=tuple(gpu for gpu in registered if _is_whole(gpu) and gpu.uuid not in cordoned),
        most=len(registered),
    )
    return before if before == record else record


def _registered(annotations: Mapping[str, str], name: str) -> list[RegisteredGpu]:
    """What HAMi cannot have written is nothing, and so is what it would not read."""
    try:
        return parse_register(annotations.get(names.HAMI_NODE_REGISTER, ""), source=f"Node {name}")
    except FormatError:
        return []


def _is_whole(gpu: RegisteredGpu) -> bool:
    return gpu.healthy and gpu.mode != _MIG
