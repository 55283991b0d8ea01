"""The limitation of a pod behind a gate to some nodes, by its node affinity.

While a pod is gated, expressions may be added to the terms of its required node affinity, and terms where there are
none (KEP-3838; kubernetes pkg/apis/core/validation, validateNodeAffinityMutation). Terms of the user stay as they are.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from webhook.objects.pod import REQUIRED_TERMS, Pod, PodSpec, is_present
from webhook.words import names
from webhook.words.patch import Operation

_AFFINITY = "/spec/affinity"
_NODE = f"{_AFFINITY}/nodeAffinity"
_REQUIRED = f"{_NODE}/{REQUIRED_TERMS}"
_TERMS = "nodeSelectorTerms"
_EXPRESSIONS = "matchExpressions"


def narrow(pod: Pod, nodes: Sequence[str]) -> tuple[Operation, ...]:
    """Returns the operations that leave a pod only these nodes, by their label ``kubernetes.io/hostname``.

    Args:
        pod: A pod behind a gate.
        nodes: The host names of the nodes, at least one.
    """
    expression = {"key": names.HOSTNAME_TOPOLOGY, "operator": "In", "values": list(nodes)}
    affinity = _affinity(pod)
    node = affinity.get("nodeAffinity")
    required = node.get(REQUIRED_TERMS) if isinstance(node, dict) else None
    terms = required.get(_TERMS) if isinstance(required, dict) else None
    if isinstance(terms, list) and terms:
        return tuple(_add(position, term, expression) for position, term in enumerate(terms))
    only = {_TERMS: [{_EXPRESSIONS: [expression]}]}
    if isinstance(node, dict):
        return (Operation("add", _REQUIRED, only),)
    if affinity:
        return (Operation("add", _NODE, {REQUIRED_TERMS: only}),)
    return (Operation("add", _AFFINITY, {"nodeAffinity": {REQUIRED_TERMS: only}}),)


def _add(position: int, term: Any, expression: dict[str, Any]) -> Operation:
    path = f"{_REQUIRED}/{_TERMS}/{position}/{_EXPRESSIONS}"
    if isinstance(term, dict) and term.get(_EXPRESSIONS):
        return Operation("add", f"{path}/-", expression)
    return Operation("add", path, [expression])


def _affinity(pod: Pod) -> dict[str, Any]:
    text = (pod.spec or PodSpec()).affinity_json
    found = msgspec.json.decode(text) if is_present(text) else {}
    return found if isinstance(found, dict) else {}
