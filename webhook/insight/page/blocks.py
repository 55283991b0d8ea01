"""An overview as the blocks of a page: each stands in one list, and is sent again only when it changed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from webhook.overview.model import Finding, Node, Overview, Pod
from webhook.page import findings, nodes, pods, summary
from webhook.page.tree import Element, el
from webhook.page.words import Words

LISTS = ("summary", "notes", "findings", "waiting", "nodes", "pods", "node-rows", "by-namespace", "by-finding")
"""Where blocks stand. The key of a block begins with its list and a slash; a list is the element of that id."""

_T = TypeVar("_T")


class Block(NamedTuple):
    """One block, and what it was made of."""

    of: object
    tree: Element


Blocks = Mapping[str, Block]


def blocks(overview: Overview, words: Words, before: Blocks | None = None) -> dict[str, Block]:
    """Every block of the page by its key. Those of ``before`` that are still true are the same objects."""
    return dict(_made(overview, words, before or {}))


def _made(overview: Overview, words: Words, before: Blocks) -> Iterator[tuple[str, Block]]:
    def block(key: str, of: _T, make: Callable[[_T, Words], Element]) -> tuple[str, Block]:
        known = before.get(key)
        if known is not None and known.of == of:
            return key, known
        tree = make(of, words)
        return key, Block(of, tree._replace(attributes={"data-key": key} | tree.attributes))

    yield block("summary/", summary.count(overview), summary.summary)
    yield block("notes/", (overview.unread, overview.are_judged), summary.notes)
    for found in findings.gathered(overview):
        yield block(f"findings/{found.key}", found, findings.item)
    for node, here in _with_pods(overview):
        yield block(f"nodes/{node.name}", (node, here), nodes.tile)
        yield block(f"node-rows/{node.name}", (node, here), nodes.row)
    for pod in overview.pods:
        if pod.is_waiting:
            yield block(f"waiting/{pod.key}", pod, pods.waiting)
        yield block(f"pods/{pod.key}", pod, pods.row)
    for namespace, number in sorted(Counter(pod.namespace for pod in overview.pods).items()):
        yield block(f"by-namespace/{namespace}", (namespace, number), _option)
    for code, number in _codes(overview):
        yield block(f"by-finding/{code}", (code, number), _option)


def _with_pods(overview: Overview) -> Iterator[tuple[Node, tuple[Pod, ...]]]:
    """Each node with the pods that are there, or have cards there."""
    there: dict[str, list[Pod]] = defaultdict(list)
    for pod in overview.pods:
        there[pod.node].append(pod)
    by_key = {pod.key: pod for pod in overview.pods}
    for node in overview.nodes:
        every = {pod.key: pod for pod in there.get(node.name, ())}
        holders = (key for card in node.cards for key in card.holders)
        every |= {key: by_key[key] for key in holders if key in by_key}
        yield node, tuple(every.values())


def _codes(overview: Overview) -> list[tuple[str, int]]:
    holders: Iterable[tuple[Finding, ...]] = (
        overview.findings,
        *(node.findings for node in overview.nodes),
        *(pod.findings for pod in overview.pods),
    )
    count = Counter(code for found in holders for code in {each.code for each in found})
    return sorted(count.items())


def _option(of: tuple[str, int], _: Words) -> Element:
    name, number = of
    return el("option", f"{name} ({number})", value=name, data_sort=name)
