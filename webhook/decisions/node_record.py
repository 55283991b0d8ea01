"""The record of a Node: the fields that decisions need, and the GPUs that HAMi may hand out there."""

from collections.abc import Mapping

import msgspec

from webhook.hardware.topology.readers.hami_register import RegisteredGpu, parse_register
from webhook.objects.amounts import Amounts, read_amounts
from webhook.objects.node import NodeSpec, Taint, decode_node
from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.shape import shape_problem

_MIG = "mig"
_MOST_TAINTS = 256


class NodeRecord(msgspec.Struct, frozen=True):
    """The record of one node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    is_cordoned: bool
    allocatable: Amounts
    registered: tuple[RegisteredGpu, ...]
    """The GPUs that HAMi may hand out whole: healthy, not in MIG mode, and not in ``hami.io/device-cordon``."""
    most: int
    """GPUs that HAMi registered, whatever their state."""


def read_node(document: bytes | bytearray | memoryview, name: str, before: NodeRecord | None) -> NodeRecord:
    """Returns the record of a Node.

    Args:
        document: JSON.
        name: The name of the node, for errors.
        before: The earlier record of the node, if there is one.

    Returns:
        ``before``, if the new record equals it: nodes are written every few seconds.

    Raises:
        ManifestError: ``document`` is no Node.
    """
    try:
        found = decode_node(document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"Node {name}: {shape_problem(error)}") from None
    metadata, spec = found.metadata, found.spec or NodeSpec()
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
    """Returns the GPUs that HAMi registered; none if the annotation is one that HAMi would not write or read."""
    try:
        return parse_register(annotations.get(names.HAMI_NODE_REGISTER, ""), source=f"Node {name}")
    except FormatError:
        return []


def _is_whole(gpu: RegisteredGpu) -> bool:
    return gpu.healthy and gpu.mode != _MIG
