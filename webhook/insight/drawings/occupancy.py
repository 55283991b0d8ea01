"""The GPUs that a job would get in a cluster now, and the pods in its way: in sentences and a table."""

from collections.abc import Sequence

from rich.text import Text

from webhook.decisions.place.survey import NodeView, Survey
from webhook.hardware.topology.selection.request import Constraints
from webhook.insight.drawings.choices import plan_text
from webhook.insight.drawings.columns import columns
from webhook.words.listing import counted, ranges
from webhook.words.printable import printable

_HEADINGS = ("node", "free GPUs", "the best for this job", "held by", "")
_PODS = 3
"""Pods that a cell or a sentence names at most."""


def survey_text(found: Survey, asked: Constraints) -> Text:
    """Returns the choice if there is one, the pods that come before the job, and the nodes.

    Args:
        found: The state of the cluster, with the choice.
        asked: The constraints that the sets should meet.
    """
    parts = [plan_text(found.plan, asked)] if found.plan else []
    if found.waiting:
        parts.append(Text(_waiting(found.waiting)))
    if found.nodes:
        parts.append(columns(_HEADINGS, [_row(node) for node in found.nodes]))
    else:
        parts.append(Text("No node of this cluster has GPUs that HAMi has registered."))
    if found.more_nodes:
        parts.append(Text(f"and {counted(found.more_nodes, 'more node')}"))
    return Text("\n\n").join(parts)


def _waiting(pods: Sequence[str]) -> str:
    verb = "waits" if len(pods) == 1 else "wait"
    named = _named(pods)
    return (
        f"{counted(len(pods), 'pod')} {verb} for cards already and would come before it at the same priority: {named}."
    )


def _row(node: NodeView) -> Sequence[str]:
    free = f"{len(node.free)} of {node.cards}" + (f": {ranges(node.free)}" if node.free else "")
    return (
        printable(node.name),
        free,
        _offer(node),
        _named(node.holders),
        "chosen" if node.is_chosen else node.hindrance,
    )


def _offer(node: NodeView) -> str:
    offer = node.offer
    if offer is None:
        return ""
    bandwidth = f", {offer.bandwidth:.4g} GB/s" if offer.weakest else ""
    return f"{ranges(offer.gpus)} ({offer.link}{bandwidth})"


def _named(pods: Sequence[str]) -> str:
    shown = printable(", ".join(pods[:_PODS]))
    return f"{shown} and {len(pods) - _PODS} more" if len(pods) > _PODS else shown
