"""A node: its tile in the grid, its row in the table, and all that is known of it."""

from collections.abc import Sequence

from webhook.overview.model import Card, Health, Link, Node, Pod
from webhook.overview.notable import is_available
from webhook.page.findings import badge, codes_of, listed, opener, worst
from webhook.page.holders import workload
from webhook.page.picture import MOST_HOLDERS, encoded, link_words, lost, number_lost, picture, spans
from webhook.page.tree import DASH, TIMES, Child, Element, el
from webhook.page.words import Words

WithPods = tuple[Node, tuple[Pod, ...]]
_MOST_SEARCHED = 20_000
"""Characters of names by which a node is found."""
_AILING = (Health.LINKS_DOWN, Health.BROKEN)


def rank(node: Node, pods: Sequence[Pod]) -> str:
    """Sorts nodes: what is lost first, then what has findings, then the rest."""
    if lost(node.links) or node.nvlink == "degraded" or any(card.health in _AILING for card in node.cards):
        return "0"
    if node.problem or node.findings:
        return "1"
    return "2" if any(pod.findings for pod in pods) else "3"


def tile(of: WithPods, words: Words) -> Element:
    """The node in the grid."""
    node, pods = of
    place = rank(node, pods)
    found = [*node.findings, *(each for pod in pods for each in pod.findings)]
    return el(
        "li",
        el(
            "div",
            el("h3", opener(f"nodes/{node.name}", node.name)),
            el("div", *_signs(node, words), badge(worst(found), len(found), words), class_="signs"),
            class_="head",
        ),
        el("p", _about(node, words), class_="about"),
        picture(node, {pod.key: pod for pod in pods}, words, f"p-{node.name}-") if node.cards else None,
        el("p", node.problem, lang="en", class_="problem") if node.problem else None,
        class_=f"node rank{place}",
        data_sort=f"{place}{node.name}",
        **_filters(of),
    )


def _filters(of: WithPods) -> dict[str, str]:
    node, pods = of
    found = [*node.findings, *(each for pod in pods for each in pod.findings)]
    said = {pod.key for pod in pods} | {workload(pod) for pod in pods}
    return {
        "data_namespaces": encoded(sorted({pod.namespace for pod in pods})),
        "data_codes": encoded(codes_of(found)),
        "data_search": " ".join((node.name, *sorted(said)))[:_MOST_SEARCHED].lower(),
    }


def _about(node: Node, words: Words) -> str:
    free = sum(map(is_available, node.cards))
    parts = [
        f"{len(node.cards)} {TIMES} {_short(node.product)}" if node.product else words("gpus", number=len(node.cards))
    ]
    if node.cards:
        parts.append(words("free", number=free))
    return " · ".join(parts)


def _short(product: str) -> str:
    return product.replace("NVIDIA ", "").replace("NVIDIA-", "")


def _signs(node: Node, words: Words) -> list[Element]:
    found = []
    if not node.is_schedulable:
        found.append(el("span", f"∥ {words('node.cordoned')}", class_="sign"))
    if down := number_lost(node.links):
        found.append(el("span", f"✖ {words('links.lost', number=down)}", class_="sign bad"))
    elif node.nvlink == "degraded":
        found.append(el("span", f"✖ {words('nvlink.degraded')}", class_="sign bad"))
    return found


def row(of: WithPods, words: Words) -> Element:
    """The node in the table of nodes."""
    node, pods = of
    down = number_lost(node.links)
    free = sum(map(is_available, node.cards))
    return el(
        "tr",
        el("th", opener(f"nodes/{node.name}", node.name), scope="row"),
        el("td", node.product),
        el("td", str(len(node.cards)), class_="number"),
        el("td", str(free), class_="number"),
        el("td", words(f"nvlink.{node.nvlink}")),
        el("td", f"✖ {down}" if down else "0", class_="number bad" if down else "number"),
        el("td", f"{node.best:g}" if node.best else DASH, class_="number"),
        el("td", *_cards_in_words(node, words), class_="cards"),
        data_sort=f"{rank(node, pods)}{node.name}",
        data_columns=encoded(
            [
                *(node.name, node.product, f"{len(node.cards):06}", f"{free:06}", node.nvlink, f"{down:06}"),
                *(f"{node.best:012.3f}", ""),
            ]
        ),
        **_filters(of),
    )


def _cards_in_words(node: Node, words: Words) -> list[Child]:
    """Who has which cards, such as ``0-3: team-a/train; 4-7: free``."""
    groups: dict[str, list[int]] = {}
    for card in node.cards:
        groups.setdefault(_holder(card, words), []).append(card.index)
    return ["; ".join(f"{spans(indices)}: {holder}" for holder, indices in groups.items())]


def _holder(card: Card, words: Words) -> str:
    who = ", ".join(card.holders[:4]) + (", …" if len(card.holders) > 4 else "")
    parts = [who or words(f"state.{card.state}")]
    if card.health not in (Health.OK, Health.UNKNOWN):
        parts.append(f"({words(f'health.{card.health}')})")
    return " ".join(parts)


def detail(node: Node, words: Words) -> Element:
    """All that is known of a node."""
    return el(
        "div",
        el("p", f"{node.product} · {words(f'nvlink.{node.nvlink}.sentence')}"),
        el("p", node.problem, lang="en", class_="problem") if node.problem else None,
        listed(node.findings, words) if node.findings else None,
        _cards_table(node, words),
        _links_table(node.links, words) if node.links else None,
    )


def _cards_table(node: Node, words: Words) -> Element:
    heads = ("column.card", "column.state", "column.holders", "column.health", "column.uuid")
    rows = [
        el(
            "tr",
            el("th", f"GPU{card.index}" + (" MIG" if card.is_mig else ""), scope="row"),
            el("td", words(f"state.{card.state}")),
            el("td", *_openers(card, words)),
            el("td", words(f"health.{card.health}"), el("p", card.why, lang="en") if card.why else None),
            el("td", card.uuid, class_="code"),
        )
        for card in node.cards
    ]
    return _table(words("cards.caption", node=node.name), [words(head) for head in heads], rows)


def _openers(card: Card, words: Words) -> list[Child]:
    shown: list[Child] = [opener(f"pods/{key}", key) for key in card.holders[:MOST_HOLDERS]]
    rest = len(card.holders) - len(shown)
    return [*shown, " " + words("more", number=rest)] if rest else shown


def _links_table(links: Sequence[Link], words: Words) -> Element:
    rows = [
        el(
            "tr",
            el("td", link_words(link, words)),
            el("td", words("link.lost", number=link.count - link.active) if link.active < link.count else "✓"),
            class_="bad" if link.active < link.count else None,
        )
        for link in sorted(links, key=lambda link: link.active >= link.count)
    ]
    return _table(words("links.caption"), [words("column.link"), words("column.lost")], rows)


def _table(caption: str, heads: Sequence[str], rows: Sequence[Element]) -> Element:
    head = el("thead", el("tr", *(el("th", each, scope="col") for each in heads)))
    return el("table", el("caption", caption), head, el("tbody", *rows))
