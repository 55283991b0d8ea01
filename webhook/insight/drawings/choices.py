"""What ``topology plan`` says: the GPUs that a job gets and why, and the pods in its way, in sentences and tables."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from rich.text import Text

from webhook.decisions.place.survey import NodeView, Survey
from webhook.hardware.topology.planning.plan import NodeShare, Plan
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.selection.request import Constraints
from webhook.insight.drawings.tables import columns
from webhook.insight.drawings.terminal import CLASSES, link_class, worth_lines
from webhook.words.listing import counted, listed, ranges
from webhook.words.printable import printable

_HEADINGS = ("node", "GPUs", "model", "links", "weakest pair", "ring", "network", "NUMA")
_OCCUPANCY = ("node", "free GPUs", "the best for this job", "held by", "")
_NAMED = 3
"""Nodes or pods that a sentence or a cell names at most."""


def chosen_text(node: str, models: Sequence[str], choice: Choice, asked: Constraints) -> Text:
    """Returns the choice on one node as text: the set, its properties, and the reasons for it.

    Args:
        node: Name of the node.
        models: The models of the GPUs, as far as they are known.
        choice: The chosen set.
        asked: The constraints that the set should meet.
    """
    chosen = choice.chosen
    text = Text(f"A job of {counted(len(chosen.gpus), 'GPU')} gets ")
    text.append(listed(f"GPU{index}" for index in chosen.gpus), style="bold").append(" of node ")
    text.append(printable(node), style="bold").append(f" ({listed(models)}).\n" if models else ".\n")
    if choice.doubt:
        return text.append(f"{choice.doubt[:1].upper()}{choice.doubt[1:]}")
    text.append_text(link_class(chosen.link)).append(f": {CLASSES[chosen.link]}.").append_text(worth_lines(chosen))
    return text.append_text(_paragraph(chain(_mixture(models), _reasons(choice, asked))))


def plan_text(found: Plan, asked: Constraints) -> Text:
    """Returns the choice on one node or several as text: the job first, then the nodes in the order of the ring."""
    found = replace(found, shares=tuple(replace(share, node=printable(share.node)) for share in found.shares))
    if len(found.shares) == 1:
        (share,) = found.shares
        return chosen_text(share.node, share.models, share.choice, asked)
    given = listed(f"{len(share.choice.gpus)} of node {share.node}" for share in found.shares)
    text = Text(f"A job of {counted(found.count, 'GPU')} gets {given}.\n")
    if any(share.choice.doubt for share in found.shares):
        text.append("How some of them are linked is not known, and so not what they carry together.\n\n")
        return text.append_text(columns(_HEADINGS, [_row(share) for share in found.shares]))
    text.append(
        f"A ring over all of them carries about {found.ring_bandwidth:.4g} GB/s, an all-reduce about "
        f"{found.all_reduce:.4g} GB/s: {_narrowest(found)}.\n\n"
    )
    text.append_text(columns(_HEADINGS, [_row(share) for share in found.shares]))
    text.append_text(_paragraph(map(_way, found.shares)))
    return text.append_text(_paragraph(chain(_mixture(found.models), _of_all(found, asked))))


def _paragraph(sentences: Iterator[str]) -> Text:
    """Returns one sentence in each line, after an empty line; an empty text without sentences."""
    lines = list(sentences)
    return Text("\n\n" + "\n".join(lines) if lines else "")


def _mixture(models: Sequence[str]) -> Iterator[str]:
    """Yields the warning of GPUs of several models."""
    if len(models) > 1:
        yield f"Mixed models: {listed(models)}. A job that works in step is as slow as its slowest GPU."


def _reasons(choice: Choice, asked: Constraints) -> Iterator[str]:
    chosen = choice.chosen
    unmet = {shortfall.constraint for shortfall in choice.unmet}
    met = [constraint.value for constraint in asked.asked if constraint not in unmet]
    if met:
        yield f"They meet {listed(met)}."
    if chosen.weakest:
        weakest = round(choice.of_best_pair, 2)
        if weakest == 1:
            yield "No pair of GPUs of this node is faster than their weakest pair."
        else:
            yield f"Their weakest pair has {weakest:.0%} of the bandwidth of the best pair of this node."
        yield _loss(choice)
    if not choice.exact:
        yield "Not all sets were tried, there are too many: a better one may exist."


def _loss(choice: Choice) -> str:
    count = len(choice.gpus)
    if round(choice.loss, 2):
        return (
            f"The best {count} GPUs of the idle node have more: {choice.loss:.0%} of their ring bandwidth is lost here."
        )
    return f"No {count} GPUs of this node have faster rings, even if all are free."


def _of_all(found: Plan, asked: Constraints) -> Iterator[str]:
    """Yields the sentences about the sets of all nodes together."""
    unmet = {shortfall.constraint for share in found.shares for shortfall in share.choice.unmet}
    met = [constraint.value for constraint in asked.asked if constraint not in unmet]
    if met:
        yield f"They meet {listed(met)} on each node."
    lossy = [share for share in found.shares if round(share.choice.loss, 2)]
    for share in lossy:
        lost = f"{share.choice.loss:.0%} of the ring bandwidth of the best {len(share.choice.gpus)} GPUs is lost"
        yield f"Of node {share.node} {lost}, because others hold some."
    if not all(share.choice.exact for share in found.shares):
        yield "Not all sets were tried, there are too many: a better one may exist."


def _row(share: NodeShare) -> Sequence[str]:
    chosen = share.choice.chosen
    is_known = chosen.weakest is not None and not share.choice.doubt
    return (
        share.node,
        ranges(chosen.gpus),
        ", ".join(share.models),
        "not known" if share.choice.doubt else str(chosen.link),
        _speed(chosen.bandwidth) if is_known else "",
        _speed(chosen.ring_bandwidth) if is_known else "",
        _speed(share.network),
        ", ".join(map(str, chosen.numa_nodes)),
    )


def _speed(bandwidth: float) -> str:
    return f"{bandwidth:.4g} GB/s"


def _narrowest(found: Plan) -> str:
    """Returns the parts of the ring that limit its bandwidth, in a clause."""
    networks = {share.node: round(share.network, 3) for share in found.shares}
    sets = {share.node: share.choice.chosen for share in found.shares}
    links = {node: round(chosen.ring_bandwidth, 3) for node, chosen in sets.items() if chosen.weakest}
    least = min(*networks.values(), *links.values())
    slow_networks = [node for node, bandwidth in networks.items() if bandwidth == least]
    slow_links = [node for node, bandwidth in links.items() if bandwidth == least]
    parts = [f"the network{'s' if len(slow_networks) > 1 else ''} of {_nodes(slow_networks)}"] if slow_networks else []
    parts += [f"the links of {_nodes(slow_links)}"] if slow_links else []
    return f"{listed(parts)} {'carry' if slow_links or len(slow_networks) > 1 else 'carries'} no more"


def _nodes(names: Sequence[str]) -> str:
    """Returns the nodes in words: ``node a``, ``nodes a and b``, ``8 nodes``."""
    if len(names) > _NAMED:
        return f"{len(names)} nodes"
    return f"node{'s' if len(names) > 1 else ''} {listed(names)}"


def _way(share: NodeShare) -> str:
    path = share.path
    way = f"The ring passes node {share.node} in the order {'-'.join(map(str, path.gpus))}"
    return f"{way}, in through {path.entry_nic} and out through {path.exit_nic}." if path.entry_nic else f"{way}."


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
        parts.append(columns(_OCCUPANCY, [_occupancy_row(node) for node in found.nodes]))
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


def _occupancy_row(node: NodeView) -> Sequence[str]:
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
    shown = printable(", ".join(pods[:_NAMED]))
    return f"{shown} and {len(pods) - _NAMED} more" if len(pods) > _NAMED else shown
