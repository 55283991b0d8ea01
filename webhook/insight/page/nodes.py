"""The values of a node for its tile in the grid, its row in the table, and its details."""

from collections.abc import Sequence

from markupsafe import Markup

from webhook.insight.overview.highlights import is_available
from webhook.insight.overview.model import Card, Finding, Health, Node, Pod
from webhook.insight.page.findings import codes_of
from webhook.insight.page.holders import workload
from webhook.insight.page.markup import encoded, render
from webhook.insight.page.picture import MOST_HOLDERS, describe, link_words, picture
from webhook.insight.page.words import Words
from webhook.words.listing import ranges

WithPods = tuple[Node, tuple[Pod, ...]]
_MOST_SEARCHED = 20_000
"""Characters of names, at most, by which a search finds a node."""
_AILING = (Health.LINKS_DOWN, Health.BROKEN)


def rank(node: Node, pods: Sequence[Pod]) -> str:
    """Returns the rank of a node: 0 with lost links or cards, 1 with findings, 2 with findings on its pods, else 3."""
    if (
        any(link.lost for link in node.links)
        or node.nvlink == "degraded"
        or any(card.health in _AILING for card in node.cards)
    ):
        return "0"
    if node.problem or node.findings:
        return "1"
    return "2" if any(pod.findings for pod in pods) else "3"


def tile(of: WithPods, words: Words) -> dict[str, object]:
    """Returns the values of the node in the grid."""
    node, pods = of
    return _values(of) | {
        "rank": rank(node, pods),
        "findings": _findings(of),
        "picture": picture(node, {pod.key: pod for pod in pods}, words),
        "description": " ".join(describe(node, words)),
    }


def row(of: WithPods, words: Words) -> dict[str, object]:
    """Returns the values of the node in the table of nodes."""
    node = of[0]
    values = _values(of)
    columns = [
        *(node.name, node.product, f"{len(node.cards):06}", f"{values['free']:06}", node.nvlink),
        *(f"{values['lost']:06}", f"{node.best:012.3f}", ""),
    ]
    return values | {"columns": encoded(columns), "holders": _holders(node, words)}


def _values(of: WithPods) -> dict[str, object]:
    node, pods = of
    said = {pod.key for pod in pods} | {workload(pod) for pod in pods}
    return {
        "node": node,
        "sort": f"{rank(node, pods)}{node.name}",
        "free": sum(map(is_available, node.cards)),
        "lost": node.lost_links,
        "filter": {
            "namespaces": encoded(sorted({pod.namespace for pod in pods})),
            "codes": encoded(codes_of(_findings(of))),
            "search": " ".join((node.name, *sorted(said)))[:_MOST_SEARCHED].lower(),
        },
    }


def _findings(of: WithPods) -> list[Finding]:
    node, pods = of
    return [*node.findings, *(each for pod in pods for each in pod.findings)]


def _holders(node: Node, words: Words) -> str:
    """Returns the cards with their holders, such as ``0-3: team-a/train; 4-7: free``."""
    groups: dict[str, list[int]] = {}
    for card in node.cards:
        groups.setdefault(_holder(card, words), []).append(card.index)
    return "; ".join(f"{ranges(indices)}: {holder}" for holder, indices in groups.items())


def _holder(card: Card, words: Words) -> str:
    who = ", ".join(card.holders[:4]) + (", …" if len(card.holders) > 4 else "")
    parts = [who or words(f"state.{card.state}")]
    if card.health not in (Health.OK, Health.UNKNOWN):
        parts.append(f"({words(f'health.{card.health}')})")
    return " ".join(parts)


def detail(node: Node, words: Words) -> Markup:
    """Returns the details of a node as markup; links that lost something come first."""
    links = sorted(node.links, key=lambda link: not link.lost)
    shown = [(link, link_words(link, words)) for link in links]
    return render("node", words, {"node": node, "links": shown, "most_holders": MOST_HOLDERS})
