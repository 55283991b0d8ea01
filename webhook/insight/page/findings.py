"""The list of findings, in which equal findings about several objects are one item."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from typing import NamedTuple

import msgspec

from webhook.insight.overview.model import Finding, Level, Overview, Pod
from webhook.insight.page.holders import workload
from webhook.insight.page.markup import RANKS, encoded
from webhook.insight.page.words import Words

_MOST_NAMED = 5
"""Objects that one item names at most."""
MOST_OF_A_CODE = 100
"""Items of one level and code at most: sentences quote pods, so a user who creates pods can cause one for each pod."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One item: a finding about one or several objects, or several findings of one level and code without sentences."""

    key: str
    finding: Finding
    pods: tuple[str, ...] = ()
    """Keys of the pods."""
    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    unsaid: int = 0
    """Number of sentences that are left out; 0: the item is one sentence, which is shown."""


class _Objects(NamedTuple):
    pods: list[Pod]
    nodes: list[str]


def gathered(overview: Overview) -> Iterator[Found]:
    """Yields all findings, each with its objects; of one level and code the first ones, then the rest as one item."""
    found: dict[tuple[Level, str], list[tuple[Finding, _Objects]]] = {}
    for finding, objects in _with_objects(overview).items():
        found.setdefault((finding.level, finding.code), []).append((finding, objects))
    for same in found.values():
        for finding, objects in same[:MOST_OF_A_CODE]:
            yield _found(_digest(finding), finding, objects)
        if rest := same[MOST_OF_A_CODE:]:
            yield _rest(rest)


def _with_objects(overview: Overview) -> dict[Finding, _Objects]:
    every: dict[Finding, _Objects] = {each: _Objects([], []) for each in overview.findings}
    for node in overview.nodes:
        for each in node.findings:
            every.setdefault(each, _Objects([], [])).nodes.append(node.name)
    for pod in overview.pods:
        for each in pod.findings:
            every.setdefault(each, _Objects([], [])).pods.append(pod)
    return every


def _rest(found: Sequence[tuple[Finding, _Objects]]) -> Found:
    first, _ = found[0]
    pods = {pod.key: pod for _, objects in found for pod in objects.pods}
    nodes = dict.fromkeys(name for _, objects in found for name in objects.nodes)
    finding = Finding(level=first.level, code=first.code, text="", fix="", page=first.page)
    return _found(f"{first.level}-{first.code}", finding, _Objects([*pods.values()], [*nodes]), unsaid=len(found))


def _found(key: str, finding: Finding, objects: _Objects, *, unsaid: int = 0) -> Found:
    return Found(
        key=key,
        finding=finding,
        pods=tuple(pod.key for pod in objects.pods),
        nodes=tuple(objects.nodes),
        namespaces=tuple(sorted({pod.namespace for pod in objects.pods})),
        workloads=tuple(sorted({workload(pod) for pod in objects.pods})),
        unsaid=unsaid,
    )


def _digest(finding: Finding) -> str:
    text = f"{finding.level}\0{finding.code}\0{finding.about}\0{finding.text}\0{finding.fix}"
    return blake2s(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def codes_of(found: Iterable[Finding]) -> list[str]:
    """Returns the words that a filter by finding looks for: levels and codes."""
    every = list(found)
    return sorted({each.level.value for each in every} | {each.code for each in every})


def item(found: Found, _: Words) -> dict[str, object]:
    """Returns the values of one item of the list of findings."""
    finding = found.finding
    named = [("pods", key) for key in found.pods[:_MOST_NAMED]]
    named += [("nodes", name) for name in found.nodes[: _MOST_NAMED - len(named)]]
    return {
        "finding": finding,
        "named": named,
        "more": len(found.pods) + len(found.nodes) - len(named),
        "unsaid": found.unsaid,
        "sort": f"{RANKS[finding.level]}{finding.code}{'~' if found.unsaid else ''}",
        "filter": {
            "namespaces": encoded(found.namespaces),
            "codes": encoded(codes_of([finding])),
            "search": " ".join((*found.pods, *found.workloads, *found.nodes))[:4000].lower(),
        },
    }
