"""The values that the page shows of an overview: what matches the filter, the worst first, each pod in its colour."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2s
from urllib.parse import quote

import msgspec

from webhook.insight.drawings.node import Drawing, DrawnGpu, drawing
from webhook.insight.explain.findings import Nvlink
from webhook.insight.explain.nvlink import numbers
from webhook.insight.overview.highlights import is_available
from webhook.insight.overview.model import Card, CardState, Finding, Health, Level, Node, Overview, Pod
from webhook.words.listing import counted, ranges
from webhook.words.printable import printable

MOST_HOLDERS = 32
"""Pods of one GPU that are named at most: a user who creates pods can make thousands of them claim one GPU."""
_MOST_NAMED = 5
"""Objects that one finding names at most."""
MOST_OF_A_CODE = 100
"""Findings of one level and code at most: sentences quote pods, so a user who creates pods can cause one for each."""
RANKS = {level: rank for rank, level in enumerate(Level)}
"""The rank of each level; 0 is the worst."""
STATES = {
    CardState.HELD: "held by one pod",
    CardState.SHARED: "shared in slices",
    CardState.CHOSEN: "chosen by the planner",
    CardState.FREE: "free",
    CardState.UNKNOWN: "holder not known",
}
HEALTHS = {
    Health.OK: "in order",
    Health.BROKEN: "broken",
    Health.LINKS_DOWN: "NVLinks down",
    Health.CORDONED: "cordoned",
    Health.UNKNOWN: "health not known",
}
WIDTHS = {"few": "pairs with 1 NVLink", "more": "pairs with 2 or 3 NVLinks", "most": "pairs with more NVLinks"}
LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "open question", Level.HINT: "hint"}
NVLINKS = {
    "healthy": "All NVLinks are up.",
    "degraded": "NVLinks are down.",
    "absent": "There is no NVLink.",
    "unknown": "It is not known how its NVLinks are.",
}
_CLASSES = {Health.UNKNOWN: "unclear"}
_DARKNESS = (0.52, 0.62, 0.44)
_NEUTRAL = "#57606a"
"""The colour of a pod in the legend."""
_GOLDEN_ANGLE = 137.508
_HUES = 8
"""Colours of one lightness in a row: the next ones differ in lightness too."""


def slots(pods: Iterable[Pod], before: Mapping[str, int]) -> dict[str, int]:
    """Returns a number for each pod, each number once; a pod keeps the number that it had before.

    Args:
        pods: The pods.
        before: The numbers of pods, by their keys, when the page was made last.
    """
    keys = [pod.key for pod in pods]
    kept = {key: before[key] for key in keys if key in before}
    taken = set(kept.values())
    free = (number for number in range(len(keys) + len(taken)) if number not in taken)
    return {key: kept[key] if key in kept else next(free) for key in keys}


def colour(slot: int) -> str:
    """Returns the colour of a pod, on which white letters can be read: no two numbers have the same one."""
    lightness = _DARKNESS[slot // _HUES % len(_DARKNESS)]
    return f"oklch({lightness} 0.13 {slot * _GOLDEN_ANGLE % 360:.2f})"


def anchor(key: str) -> str:
    """Returns the address of the details of a pod or a node, such as ``#pods/team-a/train``."""
    return f"#{quote(printable(key), safe='/')}"


def workload(pod: Pod) -> str:
    """Returns the name of the workload that made the pod; the name of the pod if there is none."""
    return pod.owner.rpartition(" ")[2] or pod.name


def mark(pod: Pod) -> str:
    """Returns two letters of the workload: the first ones of its first two words, or of its only word."""
    parts = [part for part in workload(pod).replace(".", "-").split("-") if part]
    return "".join(part[0] for part in parts[:2]) if len(parts) > 1 else "".join(parts)[:2]


def worst(findings: Iterable[Finding]) -> Level:
    """Returns the worst level of findings."""
    return min((each.level for each in findings), key=RANKS.__getitem__, default=Level.NONE)


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with all of its objects, or the findings of one level and code that are too many to be shown."""

    key: str
    finding: Finding
    objects: tuple[str, ...]
    """The keys of pods and nodes, such as ``pods/team-a/train``."""
    unsaid: int = 0
    """The number of findings whose sentences are left out; 0: the sentence is shown."""

    @property
    def named(self) -> tuple[str, ...]:
        """The objects that are named."""
        return self.objects[:_MOST_NAMED]


def gathered(overview: Overview) -> Iterator[Gathered]:
    """Yields all findings, the worst first; of one level and code the first ones, then the rest as one."""
    every: dict[Finding, list[str]] = {each: [] for each in overview.findings}
    for kind, owners in (("pods", overview.pods), ("nodes", overview.nodes)):
        for owner in owners:
            for each in owner.findings:
                every.setdefault(each, []).append(f"{kind}/{owner.key if isinstance(owner, Pod) else owner.name}")
    of_code: dict[tuple[Level, str], list[Finding]] = defaultdict(list)
    for each in every:
        of_code[each.level, each.code].append(each)
    for (level, code), found in sorted(of_code.items(), key=lambda item: (RANKS[item[0][0]], item[0][1])):
        for each in found[:MOST_OF_A_CODE]:
            yield Gathered(key=_digest(each), finding=each, objects=tuple(every[each]))
        if rest := found[MOST_OF_A_CODE:]:
            objects = dict.fromkeys(key for each in rest for key in every[each])
            finding = msgspec.structs.replace(rest[0], text="", fix="", about="")
            yield Gathered(key=f"{level}-{code}", finding=finding, objects=tuple(objects), unsaid=len(rest))


def _digest(finding: Finding) -> str:
    return blake2s(repr(finding).encode("utf-8", "replace"), digest_size=8).hexdigest()


@dataclass(frozen=True)
class NodeView:
    """A node with the pods that are on it or have GPUs of it."""

    node: Node
    pods: Mapping[str, Pod]
    colours: Mapping[str, int]
    wanted: frozenset[str] | None
    """The pods that match the filter; None without a filter."""

    @property
    def rank(self) -> int:
        """The rank of a node: 0 with lost links or GPUs, 1 with findings, 2 with findings on its pods, else 3."""
        ill = any(card.health in (Health.LINKS_DOWN, Health.BROKEN) for card in self.node.cards)
        if self.node.lost_links or self.node.nvlink == "degraded" or ill:
            return 0
        if self.node.problem or self.node.findings:
            return 1
        return 2 if any(pod.findings for pod in self.pods.values()) else 3

    @property
    def free(self) -> int:
        """The number of GPUs that a pod can get now."""
        return sum(map(is_available, self.node.cards))

    @property
    def findings(self) -> list[Finding]:
        """The findings about the node and its pods."""
        return [*self.node.findings, *(each for pod in self.pods.values() for each in pod.findings)]

    @cached_property
    def drawing(self) -> Drawing:
        """The drawing of the node."""
        return drawing(self.node.links, map(self._gpu, self.node.cards))

    @property
    def description(self) -> str:
        """The contents of the drawing in sentences."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        for state, words in STATES.items():
            if indices := [card.index for card in self.node.cards if card.state is state]:
                yield f"GPU {ranges(indices)}: {words}."
        for card in self.node.cards:
            if card.health is not Health.OK:
                yield f"GPU{card.index}: {HEALTHS[card.health]}."
        yield NVLINKS[self.node.nvlink]
        yield from (link.sentence for link in self.node.links if link.lost)

    def _gpu(self, card: Card) -> DrawnGpu:
        holders = [self.pods[key] for key in card.holders if key in self.pods]
        is_aside = self.wanted is not None and self.wanted.isdisjoint(card.holders)
        classes = (
            *(card.state, _CLASSES.get(card.health, card.health)),
            *("mig" if card.is_mig else "", "aside" if is_aside else ""),
        )
        return DrawnGpu(
            index=card.index,
            class_=" ".join(filter(None, classes)),
            title=tooltip(card),
            mark=_mark(card, holders),
            fill=colour(self.colours[holders[0].key]) if holders else "",
            href=anchor(f"pods/{card.holders[0]}" if len(card.holders) == 1 else f"nodes/{self.node.name}"),
        )


def tooltip(card: Card) -> str:
    """Returns everything about a GPU in one line."""
    named = ", ".join([*card.holders[:_MOST_NAMED], *(["…"] if len(card.holders) > _MOST_NAMED else [])])
    state = STATES[card.state] + (f": {named}" if named else "")
    health = "" if card.health is Health.OK else HEALTHS[card.health]
    parts = (f"GPU{card.index}", card.product, "MIG" if card.is_mig else "", state, health, card.why)
    return " · ".join(filter(None, parts))


def _mark(card: Card, holders: Sequence[Pod]) -> str:
    if card.state is CardState.UNKNOWN:
        return "?"
    if card.state is CardState.SHARED and len(card.holders) > 1:
        return f"\N{MULTIPLICATION SIGN}{len(card.holders)}"
    return mark(holders[0]) if holders else "" if card.state is CardState.FREE else "··"


class View:
    """What the page shows.

    Args:
        overview: The cluster.
        colours: The numbers of pods, which give them their colours.
        query: The words of the filter, each of which an object has to have in its names or findings.
        most: The most pods, nodes and findings that are shown; None: all.
    """

    def __init__(
        self, overview: Overview, colours: Mapping[str, int], query: str = "", most: int | None = None
    ) -> None:
        self.overview, self.colours, self.most = overview, colours, most
        self.query = query
        self._words = query.lower().split()
        order = sorted(overview.pods, key=lambda pod: (RANKS[worst(pod.findings)], pod.key))
        self.pods = [pod for pod in order if self._matches(_text(pod))]
        self.waiting = [pod for pod in self.pods if pod.is_waiting]
        self._gathered = list(gathered(overview))
        self.findings = [each for each in self._gathered if self._matches(_finding_text(each))]
        wanted = frozenset(pod.key for pod in self.pods) if self._words else None
        nodes = [NodeView(node, pods, colours, wanted) for node, pods in _with_pods(overview)]
        self.nodes = sorted(filter(self._shows, nodes), key=lambda each: (each.rank, each.node.name))

    def _matches(self, text: str) -> bool:
        return all(word in text for word in self._words)

    def _shows(self, each: NodeView) -> bool:
        node = each.node
        text = f"{node.name} {node.product} {_codes(node.findings)}".lower()
        return self._matches(text) or any(self._matches(_text(pod)) for pod in each.pods.values())

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of the table of pods that have a value for some pod; the others are left out."""
        values = {
            "profile": any(pod.profile for pod in self.pods),
            "bandwidth": any(pod.link or pod.bandwidth is not None for pod in self.pods),
            "verified": any(pod.verified != "unknown" for pod in self.pods),
            "findings": any(pod.findings for pod in self.pods),
        }
        return frozenset(name for name, is_there in values.items() if is_there)

    @property
    def numbers(self) -> Iterator[tuple[str, int, str]]:
        """The numbers of the cluster: name, number, and the class of a number that is not 0."""
        nodes, pods = self.overview.nodes, self.overview.pods
        cards, lost = sum(len(node.cards) for node in nodes), sum(node.lost_links for node in nodes)
        waiting = sum(pod.is_waiting for pod in pods)
        yield _plural("Node", len(nodes)), len(nodes), ""
        yield _plural("GPU", cards), cards, ""
        yield f"{_plural('NVLink', lost)} down", lost, "error"
        yield f"{_plural('Pod', waiting)} waiting", waiting, "warning"
        levels = Counter[Level]()
        for each in self._gathered:
            levels[each.finding.level] += each.unsaid or 1
        for level, noun in LEVELS.items():
            if levels[level] or level in (Level.ERROR, Level.WARNING):
                yield _plural(noun.capitalize(), levels[level]), levels[level], level.value

    @property
    def legend(self) -> Iterator[tuple[Drawing, str, int]]:
        """The drawing of a GPU in each state and health that there is, with its name and the number of such GPUs."""
        cards = [card for node in self.overview.nodes for card in node.cards]
        states, healths = Counter(card.state for card in cards), Counter(card.health for card in cards)
        filled = (CardState.HELD, CardState.SHARED, CardState.CHOSEN)
        for state, words in STATES.items():
            if states[state]:
                fill = _NEUTRAL if state in filled else ""
                yield _key(state, fill, "?" if state is CardState.UNKNOWN else ""), words, states[state]
        for health, words in HEALTHS.items():
            if healths[health] and health is not Health.OK:
                yield _key(_CLASSES.get(health, health)), words, healths[health]

    @property
    def links(self) -> list[tuple[str, str, int]]:
        """The kinds of NVLinks that there are: class, name, and the number of links or of nodes."""
        links = [link for node in self.overview.nodes for link in node.links]
        widths = Counter(link.width for link in links if link.other is not None)
        nodes = Counter(node.nvlink for node in self.overview.nodes)
        found = (
            ("switches", "NVLinks to NVSwitches", sum(link.count for link in links if link.other is None)),
            *((f"link {width}", words, widths[width]) for width, words in WIDTHS.items()),
            ("down", "NVLinks down", sum(link.lost for link in links)),
            ("", "nodes without NVLink", nodes["absent"]),
            ("?", "nodes whose NVLinks are not known", nodes["unknown"]),
        )
        return [each for each in found if each[2]]

    @property
    def words(self) -> list[tuple[Nvlink, int]]:
        """The numbers of pods that really have NVLink, have not, and so on."""
        found = numbers(pod.nvlink for pod in self.overview.pods)
        return [(word, number) for word, number in found.items() if number]


def _key(class_: str, fill: str = "", mark: str = "") -> Drawing:
    return drawing((), [DrawnGpu(index=0, class_=class_, title="", fill=fill, mark=mark)])


def _plural(noun: str, number: int) -> str:
    return counted(number, noun).partition(" ")[2]


def _with_pods(overview: Overview) -> Iterator[tuple[Node, Mapping[str, Pod]]]:
    there: dict[str, list[Pod]] = defaultdict(list)
    for pod in overview.pods:
        there[pod.node].append(pod)
    by_key = {pod.key: pod for pod in overview.pods}
    for node in overview.nodes:
        holders = (key for card in node.cards for key in card.holders)
        yield node, {pod.key: pod for pod in there[node.name]} | {key: by_key[key] for key in holders if key in by_key}


def _codes(findings: Iterable[Finding]) -> str:
    return " ".join({f"{each.level} {each.code}" for each in findings})


def _text(pod: Pod) -> str:
    """Returns the text in which the filter looks for its words."""
    return printable(f"{pod.key} {pod.owner} {pod.node} {pod.profile} {_codes(pod.findings)}").lower()


def _finding_text(each: Gathered) -> str:
    return printable(f"{_codes([each.finding])} {each.finding.about} {' '.join(each.objects)}").lower()
