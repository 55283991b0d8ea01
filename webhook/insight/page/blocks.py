"""The blocks of a page, made of an overview. A block belongs to one list, and is sent again only when it changed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import msgspec
from markupsafe import Markup

from webhook.insight.overview.model import Finding, Node, Overview, Pod
from webhook.insight.page import findings, nodes, pods, summary
from webhook.insight.page.markup import as_tree, render
from webhook.insight.page.words import Words

LISTS = ("summary", "notes", "findings", "waiting", "nodes", "pods", "node-rows", "by-namespace", "by-finding")
"""The lists of blocks. The key of a block begins with its list and a slash; a list is the element of that id."""
_TEMPLATES = {
    "findings": "finding",
    "nodes": "node-tile",
    "node-rows": "node-row",
    "pods": "pod-row",
    "by-namespace": "option",
    "by-finding": "option",
}
"""The template of each list whose template has another name than the list."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Block:
    """One block, with the value that it was made of."""

    of: object
    sort: str
    """The key by which the block is sorted in its list."""
    markup: Markup

    @cached_property
    def written(self) -> msgspec.Raw:
        """The elements of the block as JSON."""
        return msgspec.Raw(msgspec.json.encode(as_tree(self.markup)))


Blocks = Mapping[str, Block]


def blocks(overview: Overview, words: Words, before: Blocks | None = None) -> dict[str, Block]:
    """Returns every block of the page by its key. Blocks of ``before`` that did not change are the same objects."""
    return dict(_made(overview, words, before or {}))


def _made(overview: Overview, words: Words, before: Blocks) -> Iterator[tuple[str, Block]]:
    def block(key: str, of: _T, values: Callable[[_T, Words], dict[str, object]]) -> tuple[str, Block]:
        known = before.get(key)
        if known is not None and known.of == of:
            return key, known
        kind = key.partition("/")[0]
        shown = {"key": key, "sort": ""} | values(of, words)
        return key, Block(of, str(shown["sort"]), render(_TEMPLATES.get(kind, kind), words, shown))

    yield block("summary/", summary.count(overview), lambda count, _: {"count": count})
    yield block("notes/", (overview.unread, overview.remedy, overview.are_judged), _notes)
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
    """Yields each node with the pods that are on it or have cards of it."""
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


def _notes(of: tuple[tuple[str, ...], str, bool], _: Words) -> dict[str, object]:
    return {"unread": of[0], "remedy": of[1], "are_judged": of[2]}


def _option(of: tuple[str, int], _: Words) -> dict[str, object]:
    return {"sort": of[0], "name": of[0], "number": of[1]}
