"""The JSON patches that pin a pod to cards, pin it anew, and take a pin back.

Each patch applies only to the very state of the pod that it was decided on. Otherwise it would overwrite a list that a
user gives the pod in between.
"""

from collections.abc import Sequence

from webhook.decisions.place.gate import find_gate, open_gate
from webhook.decisions.place.narrowing import narrow
from webhook.decisions.place.pins import written_pin
from webhook.decisions.place.placed_annotation import Placed, format_placed
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.words import names
from webhook.words.choices import Placement
from webhook.words.patch import Operation, pointer


def pin(pod: PodRecord, placed: Placed, *, opens: bool, narrowed: Sequence[str] = ()) -> tuple[Operation, ...]:
    """Returns the patch that limits HAMi's choice to cards.

    Args:
        pod: A pod without a node.
        placed: The choice.
        opens: Whether the same patch opens the planner's gate, if the pod has it.
        narrowed: Names of the only nodes that the scheduler may look at; empty: all. Only for a pod behind a gate.
    """
    unbound = _unbound(pod)
    gate = find_gate(unbound.pod)
    return (
        *_unchanged(pod, unbound),
        *_annotations(unbound, {names.USE_GPU_UUID: ",".join(placed.cards), names.PLACED: format_placed(placed)}),
        *(narrow(unbound.pod, narrowed) if narrowed else ()),
        *(() if gate and not opens else _pass(unbound, Placement.PINNED)),
    )


def let_go(pod: PodRecord, narrowed: Sequence[str] = ()) -> tuple[Operation, ...]:
    """Returns the patch that opens the gate of a pod that is pinned already.

    Args:
        pod: A pod without a node.
        narrowed: As in :func:`pin`. A pin that stays behind the gate can be taken back, and a limit cannot.
    """
    unbound = _unbound(pod)
    limit = narrow(unbound.pod, narrowed) if narrowed else ()
    return (*_unchanged(pod, unbound), *limit, *_pass(unbound, Placement.PINNED))


def take_back(pod: PodRecord) -> tuple[Operation, ...]:
    """Returns the patch that removes the planner's pin and its choice from a pod that goes on waiting."""
    unbound = _unbound(pod)
    ours = (names.USE_GPU_UUID, names.PLACED)
    removed = (Operation("remove", pointer("metadata", "annotations", key)) for key in ours)
    return (*_unchanged(pod, unbound), *(removed if written_pin(pod) else ()))


def adopt(pod: PodRecord) -> tuple[Operation, ...]:
    """Returns the patch that holds the cards of a pin whose gate another program has opened."""
    unbound = _unbound(pod)
    return (*_unchanged(pod, unbound), *_label(unbound, Placement.PINNED))


def release(pod: PodRecord) -> tuple[Operation, ...]:
    """Returns the patch that leaves the choice to HAMi: it opens the planner's gate and removes the planner's pin.

    The choice stays on record, and with it how often the planner has chosen for the pod.
    """
    unbound = _unbound(pod)
    return (
        *_unchanged(pod, unbound),
        *((Operation("remove", pointer("metadata", "annotations", names.USE_GPU_UUID)),) if written_pin(pod) else ()),
        *_pass(unbound, Placement.RELEASED),
    )


def rest(pod: PodRecord) -> tuple[Operation, ...]:
    """Returns the patch that keeps the pin but no longer holds the cards, so that other pods may get them."""
    unbound = _unbound(pod)
    return (*_unchanged(pod, unbound), *_label(unbound, Placement.RELEASED))


def _unbound(pod: PodRecord) -> UnboundPod:
    if pod.unbound is None:
        raise TypeError(f"pod {pod.key} has a node")
    return pod.unbound


def _unchanged(pod: PodRecord, unbound: UnboundPod) -> tuple[Operation, ...]:
    return (
        Operation("test", "/metadata/uid", pod.uid),
        Operation("test", "/metadata/resourceVersion", unbound.version),
    )


def _annotations(unbound: UnboundPod, values: dict[str, str]) -> tuple[Operation, ...]:
    metadata = unbound.pod.metadata
    if metadata is None or metadata.annotations is None:
        return (Operation("add", "/metadata/annotations", values),)
    return tuple(Operation("add", pointer("metadata", "annotations", key), value) for key, value in values.items())


def _pass(unbound: UnboundPod, placement: Placement) -> tuple[Operation, ...]:
    """Returns the operations that open the planner's gate, if the pod has it, and set the placement label."""
    gate = find_gate(unbound.pod)
    return open_gate(gate, placement) if gate else _label(unbound, placement)


def _label(unbound: UnboundPod, placement: Placement) -> tuple[Operation, ...]:
    metadata = unbound.pod.metadata
    if metadata is None or metadata.labels is None:
        return (Operation("add", "/metadata/labels", {names.PLACEMENT: placement}),)
    return (Operation("add", pointer("metadata", "labels", names.PLACEMENT), placement),)
