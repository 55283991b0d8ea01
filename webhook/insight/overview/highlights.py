"""The nodes and pods that lose something, which deserve a line of their own where there is no room for all."""

from collections.abc import Iterable

from webhook.insight.explain.findings import Nvlink
from webhook.insight.overview.model import Card, CardState, Finding, Health, Level, Node, Pod

_BAD = (Level.ERROR, Level.WARNING)
_WELL = ("healthy", "absent")
_SLACK = 0.05
"""GB/s. A smaller difference is one of rounding."""


def worst(findings: Iterable[Finding]) -> Finding | None:
    """Returns the first finding of the worst level; None if there is no finding."""
    order = list(Level)
    return min(findings, key=lambda each: order.index(each.level), default=None)


def is_slower(pod: Pod) -> bool:
    """Returns whether as many other cards of its node can be faster than those of the pod."""
    return pod.bandwidth is not None and pod.best is not None and pod.bandwidth < pod.best - _SLACK


def is_available(card: Card) -> bool:
    """Returns whether a pod can get the card now."""
    return card.state is CardState.FREE and card.health not in (Health.BROKEN, Health.CORDONED)


def is_notable_pod(pod: Pod) -> bool:
    """Returns whether the pod waits, has no NVLink, or has a finding."""
    return bool(pod.waits_for) or is_slower(pod) or pod.nvlink is Nvlink.NO or _is_bad(pod.findings)


def is_notable_node(node: Node) -> bool:
    """Returns whether something is wrong or not known about the node or one of its cards."""
    if not node.is_schedulable or node.problem or node.nvlink not in _WELL:
        return True
    return any(card.health is not Health.OK for card in node.cards) or _is_bad(node.findings)


def _is_bad(findings: Iterable[Finding]) -> bool:
    return any(each.level in _BAD for each in findings)
