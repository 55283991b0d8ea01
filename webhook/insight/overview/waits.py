"""What a pod waits for that has no node, or no Binding yet."""

from webhook.analyze.snapshot import KnownPod
from webhook.explain.standing import Condition, PlannerSigns, Standing, standing_of
from webhook.model import names
from webhook.model.pod import MalformedPod, Pod, PodSpec
from webhook.printable import fitted

_GATE = f"the planner (gate {names.PLACE_GATE})"
_SAID_LIMIT = 400


def waits_for(known: KnownPod, pod: Pod, planner: PlannerSigns, *, pinned_to: str) -> str:
    """In a sentence; empty for a pod that is bound.

    Args:
        known: The pod.
        pod: The same, decoded.
        planner: Whether one is alive.
        pinned_to: The node whose cards the planner holds for it; empty: none.
    """
    spec = pod.spec or PodSpec()
    if spec.node_name:
        return ""
    standing = _standing(known)
    if names.PLACE_GATE in spec.scheduling_gates:
        return _behind_the_gate(standing, planner, pinned_to)
    if spec.scheduling_gates:
        return f"its scheduling gate {fitted(spec.scheduling_gates[0], _SAID_LIMIT)}"
    said = _unschedulable(standing.scheduled)
    if said:
        return said
    if pinned_to:
        return f"the scheduler, which may give it the cards on {fitted(pinned_to)} that the planner chose"
    return f"its Binding to {fitted(known.node)}" if known.node else "the scheduler"


def _standing(known: KnownPod) -> Standing:
    try:
        return standing_of(known.document)
    except MalformedPod:
        return Standing()


def _behind_the_gate(standing: Standing, planner: PlannerSigns, pinned_to: str) -> str:
    if planner.is_alive is False:
        return f"{_GATE}, and there is none: {planner.said}"
    if pinned_to:
        return f"{_GATE} to open its gate: its cards on {fitted(pinned_to)} are chosen"
    said = standing.placed.message if standing.placed else None
    return f"{_GATE}: {_clause(said)}" if said else _GATE


def _unschedulable(condition: Condition | None) -> str:
    if condition is None or condition.status == "True" or not condition.message:
        return ""
    return f"the scheduler: {_clause(condition.message)}"


def _clause(text: str) -> str:
    return fitted(text, _SAID_LIMIT).rstrip(". ")
