"""The reason why a pod has no node, or no Binding yet."""

from webhook.cluster.snapshot.model import KnownPod
from webhook.objects.planner_signs import PlannerSigns
from webhook.objects.pod import Pod, PodCondition, PodSpec
from webhook.words import names
from webhook.words.printable import fitted

_GATE = f"the planner (gate {names.PLACE_GATE})"
_SAID_LIMIT = 400
_GATED = "SchedulingGated"
"""The reason of the condition ``PodScheduled`` while the pod has scheduling gates (k8s.io/api core/v1, types.go)."""


def waits_for(known: KnownPod, pod: Pod, planner: PlannerSigns, *, pinned_to: str) -> str:
    """Returns what a pod waits for, in a clause; empty for a pod that is bound.

    Args:
        known: The pod.
        pod: The pod, decoded.
        planner: The signs of a planner.
        pinned_to: The node whose cards the planner holds for the pod; empty: none.
    """
    spec = pod.spec or PodSpec()
    if spec.node_name:
        return ""
    if names.PLACE_GATE in spec.scheduling_gates:
        return _behind_the_gate(pod, planner, pinned_to)
    if spec.scheduling_gates:
        return f"its scheduling gate {fitted(spec.scheduling_gates[0], _SAID_LIMIT)}"
    said = _unschedulable(pod.scheduled)
    if said:
        return said
    if pinned_to:
        return f"the scheduler, which may give it the cards on {fitted(pinned_to)} that the planner chose"
    return f"its Binding to {fitted(known.node)}" if known.node else "the scheduler"


def _behind_the_gate(pod: Pod, planner: PlannerSigns, pinned_to: str) -> str:
    if planner.is_alive is False:
        return f"{_GATE}, and there is none: {planner.said}"
    if pinned_to:
        return f"{_GATE} to open its gate: its cards on {fitted(pinned_to)} are chosen"
    said = pod.placed.message if pod.placed else ""
    return f"{_GATE}: {_clause(said)}" if said else _GATE


def _unschedulable(condition: PodCondition | None) -> str:
    """Returns what the scheduler misses. While the pod had gates it said that; here the pod has none any more."""
    if condition is None or condition.status == "True" or condition.reason == _GATED or not condition.message:
        return ""
    return f"the scheduler: {_clause(condition.message)}"


def _clause(text: str) -> str:
    return fitted(text, _SAID_LIMIT).rstrip(". ")
