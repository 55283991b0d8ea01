"""Findings, those of many objects that say the same together."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from urllib.parse import quote

import msgspec

from webhook.overview.model import Finding, Level, Overview, Pod
from webhook.page.holders import workload
from webhook.page.picture import encoded
from webhook.page.tree import Element, el
from webhook.page.words import Words

RANKS = {Level.ERROR: 0, Level.WARNING: 1, Level.INFO: 2, Level.HINT: 3, Level.NONE: 4}
SIGNS = {Level.ERROR: "✖", Level.WARNING: "▲", Level.INFO: "?", Level.HINT: "·", Level.NONE: ""}
_MOST_NAMED = 5
"""Objects that one item names."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence about one or several objects."""

    key: str
    finding: Finding
    pods: tuple[str, ...] = ()
    """Keys."""
    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()


def gathered(overview: Overview) -> Iterator[Found]:
    """All findings, each with everything that it is about."""
    every: dict[Finding, tuple[list[Pod], list[str]]] = {each: ([], []) for each in overview.findings}
    for node in overview.nodes:
        for each in node.findings:
            every.setdefault(each, ([], []))[1].append(node.name)
    for pod in overview.pods:
        for each in pod.findings:
            every.setdefault(each, ([], []))[0].append(pod)
    for finding, (pods, nodes) in every.items():
        yield Found(
            key=_digest(finding),
            finding=finding,
            pods=tuple(pod.key for pod in pods),
            nodes=tuple(nodes),
            namespaces=tuple(sorted({pod.namespace for pod in pods})),
            workloads=tuple(sorted({workload(pod) for pod in pods})),
        )


def _digest(finding: Finding) -> str:
    text = f"{finding.level}\0{finding.code}\0{finding.about}\0{finding.text}\0{finding.fix}"
    return blake2s(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def codes_of(found: Iterable[Finding]) -> list[str]:
    """What a filter by finding looks for: levels and codes."""
    every = list(found)
    return sorted({each.level.value for each in every} | {each.code for each in every})


def worst(found: Iterable[Finding]) -> Level:
    """The worst level of them."""
    return min((each.level for each in found), key=RANKS.__getitem__, default=Level.NONE)


def badge(level: Level, number: int, words: Words) -> Element | None:
    """A sign with the number of findings; nothing without any."""
    if level is Level.NONE:
        return None
    label = words("findings.badge", number=number, level=words(f"level.{level}"))
    return el("span", f"{SIGNS[level]} {number}", class_=f"badge l-{level}", title=label, role="img", aria_label=label)


def item(found: Found, words: Words) -> Element:
    """One of the list of findings."""
    finding = found.finding
    return el(
        "li",
        el(
            "p",
            el("span", f"{SIGNS[finding.level]} {words(f'level.{finding.level}')}", class_=f"badge l-{finding.level}"),
            " ",
            el("span", finding.code, class_="code"),
            " ",
            *_objects(found, words),
            class_="about",
        ),
        el("p", finding.text, lang="en", class_="sentence"),
        el("p", f"→ {finding.fix}", lang="en", class_="fix") if finding.fix else None,
        class_=f"finding l-{finding.level}",
        data_sort=f"{RANKS[finding.level]}{finding.code}",
        data_namespaces=encoded(found.namespaces),
        data_codes=encoded(codes_of([finding])),
        data_search=" ".join((*found.pods, *found.workloads, *found.nodes))[:4000].lower(),
    )


def _objects(found: Found, words: Words) -> Iterator[Element | str]:
    opened = [opener(f"pods/{key}", key) for key in found.pods[:_MOST_NAMED]]
    opened += [opener(f"nodes/{name}", name) for name in found.nodes[: _MOST_NAMED - len(opened)]]
    for position, each in enumerate(opened):
        if position:
            yield ", "
        yield each
    rest = len(found.pods) + len(found.nodes) - len(opened)
    if rest > 0:
        yield " " + words("more", number=rest)
    if not opened:
        yield el("span", found.finding.about or words("installation"), class_="quiet")


def opener(key: str, text: str) -> Element:
    """A link that opens what is known of a pod or a node; without a script it leads there."""
    return el("a", text, href=f"#{quote(key, safe='/')}", class_="open", data_open=key)


def listed(found: Sequence[Finding], words: Words) -> Element:
    """Findings of one object."""
    parts = [
        el(
            "li",
            el("span", f"{SIGNS[each.level]} {words(f'level.{each.level}')}", class_=f"badge l-{each.level}"),
            " ",
            el("span", each.code, class_="code"),
            " ",
            el("span", each.text, lang="en"),
            el("p", f"→ {each.fix}", lang="en", class_="fix") if each.fix else None,
        )
        for each in sorted(found, key=lambda each: RANKS[each.level])
    ]
    return el("ul", *parts, class_="found")
