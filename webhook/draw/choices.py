"""Which GPUs a job would get, as text, and why just these."""

from collections.abc import Iterator

from rich.text import Text

from webhook.draw.terminal import worth
from webhook.topology.planning.plan import NodeShare, Plan
from webhook.topology.selection.request import Constraints, Weights
from webhook.topology.selection.select import Choice

# The terms of a score, in words.
_TERMS = {
    "weakest": "weakest pair",
    "narrowest": "narrowest GPU",
    "mean": "mean pair",
    "link": "class",
    "numa": "NUMA nodes",
    "memory": "memory",
    "domains": "spread",
}


def chosen_text(node: str, choice: Choice, asked: Constraints, weights: Weights) -> Text:
    """The choice on one node: the set, what it is worth, and what spoke for it.

    Args:
        node: Its name.
        choice: What was chosen.
        asked: What the set should meet.
        weights: Of the terms of its score; those that do not count are left out.
    """
    text = Text().append(node, style="bold").append("  ").append_text(worth(choice.chosen))
    for name, value in _reasons(choice, asked, weights):
        _append(text, name, value)
    return text


def plan_text(found: Plan, asked: Constraints) -> Text:
    """The choice on several nodes: the whole of it, then each node in the order of the ring."""
    nodes = len(found.shares)
    text = Text().append(f"{_counted(found.count, 'GPU')} on {_counted(nodes, 'node')}", style="bold")
    if found.count > 1:
        text.append(f"  ring about {found.ring_bandwidth:.4g} GB/s, all-reduce about {found.all_reduce:.4g} GB/s")
    for share in found.shares:
        text.append("\n\n").append_text(chosen_text(share.node, share.choice, asked, Weights()))
        if nodes > 1:
            _append(text, "network", _way(share))
    return text


def _append(text: Text, name: str, value: str) -> None:
    text.append(f"\n  {name:<13}", style="dim").append(value)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _reasons(choice: Choice, asked: Constraints, weights: Weights) -> Iterator[tuple[str, str]]:
    unmet = {shortfall.constraint for shortfall in choice.unmet}
    met = [constraint.value for constraint in asked.asked if constraint not in unmet]
    if met:
        yield "meets", ", ".join(met)
    yield "score", f"{choice.score:.2f} of 1: {', '.join(_terms(choice, weights))}"
    if round(choice.loss, 2):
        yield "loss", f"{choice.loss:.0%} of the ring bandwidth that the best set of this size has on the idle node"
    if not choice.exact:
        yield "search", "not all sets were tried, there are too many: a better one may exist"


def _terms(choice: Choice, weights: Weights) -> Iterator[str]:
    """Each term with its share in the score: the products add up to it."""
    for name, words in _TERMS.items():
        weight = getattr(weights, name) / weights.total
        if weight:
            yield f"{words} {getattr(choice.terms, name):.2f} x {weight:.2f}"


def _way(share: NodeShare) -> str:
    path = share.path
    way = f"{share.network:.4g} GB/s per direction, GPUs in the order {'-'.join(map(str, path.gpus))}"
    return way + (f", in through {path.entry_nic}, out through {path.exit_nic}" if path.entry_nic else "")
