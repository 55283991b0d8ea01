"""The scheduling gate that keeps schedulers from a pod until its cards are chosen, and the JSON patch that opens it.

A gate can be removed only by its position (RFC 6902), and other programs remove their gates meanwhile. So each patch
tests the name at that position. It also tests the uid, because a StatefulSet gives the name of a deleted pod to the
next one. The API server answers a failed test like any other patch that it cannot apply, with 422 (apiserver
pkg/endpoints/handlers/patch.go).
"""

from typing import NamedTuple

import msgspec

from webhook.objects.pod import Metadata, Pod, PodSpec
from webhook.words import names
from webhook.words.choices import Placement
from webhook.words.patch import Operation, pointer

_GATES = ("spec", "schedulingGates")
_OURS_ALONE = msgspec.Raw(b'[{"name":"' + names.PLACE_GATE.encode() + b'"}]')


class Gate(NamedTuple):
    """The planner's gate on a pod, with the values that a patch of that pod needs."""

    uid: str
    """The uid of the pod."""
    version: str
    """The resourceVersion of the pod."""
    position: int
    """The position of the gate among the gates of the pod."""
    is_last: bool
    """Whether the pod has no other gate."""
    has_labels: bool
    """Whether the pod has a map of labels, to which a label can be added."""


def gated(spec: PodSpec) -> PodSpec:
    """Returns the spec of a pod as admission leaves it: without a node, behind the planner's gate alone."""
    return msgspec.structs.replace(spec, node_name=None, scheduling_gates_json=_OURS_ALONE)


def find_gate(pod: Pod) -> Gate | None:
    """Returns the planner's gate on a pod; ``None`` if the pod has none.

    Args:
        pod: As the API server has it, with uid and resourceVersion.

    Raises:
        MalformedPod: the gates of the pod have another type than in a pod.
    """
    gates = (pod.spec or PodSpec()).scheduling_gates
    if names.PLACE_GATE not in gates:
        return None
    metadata = pod.metadata or Metadata()
    return Gate(
        uid=metadata.uid or "",
        version=metadata.resource_version or "",
        position=gates.index(names.PLACE_GATE),
        is_last=len(gates) == 1,
        has_labels=metadata.labels is not None,
    )


def open_gate(gate: Gate, placement: Placement) -> tuple[Operation, ...]:
    """Returns the JSON patch that removes the planner's gate and sets the label to how the pod goes on.

    Other gates stay. A second application of the patch does no harm, because its tests fail.

    Args:
        gate: As :func:`find_gate` found it.
        placement: The new value of the label ``gpu.topology/placement``.
    """
    place = pointer(*_GATES, gate.position)
    return (
        Operation("test", "/metadata/uid", gate.uid),
        Operation("test", f"{place}/name", names.PLACE_GATE),
        *_set_label(gate, placement),
        Operation("remove", place),
    )


def _set_label(gate: Gate, placement: Placement) -> tuple[Operation, ...]:
    if gate.has_labels:
        return (Operation("add", pointer("metadata", "labels", names.PLACEMENT), placement),)
    # The first label creates the map, and would take the place of one that another program has created meanwhile.
    return (
        Operation("test", "/metadata/resourceVersion", gate.version),
        Operation("add", "/metadata/labels", {names.PLACEMENT: placement}),
    )
