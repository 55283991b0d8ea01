"""Findings, those of many objects that say the same together."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2s
from typing import NamedTuple
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
MOST_OF_A_CODE = 100
"""Items of one level and code. Sentences quote pods, and who may create pods can have each of them say another one."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence about one or several objects; or several of the same level and code, without their sentences."""

    key: str
    finding: Finding
    pods: tuple[str, ...] = ()
    """Keys."""
    nodes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    unsaid: int = 0
    """How many sentences are left out; 0: it is one sentence, which is said."""


class _Objects(NamedTuple):
    pods: list[Pod]
    nodes: list[str]


def gathered(overview: Overview) -> Iterator[Found]:
    """All findings, each with everything that it is about; of one level and code the first ones, then the rest."""
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
        el("p", words("findings.unsaid", number=found.unsaid), class_="sentence")
        if found.unsaid
        else el("p", finding.text, lang="en", class_="sentence"),
        el("p", f"→ {finding.fix}", lang="en", class_="fix") if finding.fix else None,
        class_=f"finding l-{finding.level}",
        data_sort=f"{RANKS[finding.level]}{finding.code}{'~' if found.unsaid else ''}",
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
    if not opened and not found.unsaid:
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
