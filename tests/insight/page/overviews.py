"""Overviews of clusters of any size, made by hand: islands of links, switches, slices, broken links, waiting pods."""

from collections.abc import Iterator

import msgspec

from webhook.insight.drawings.layout import Link
from webhook.insight.explain.start import Verified
from webhook.insight.overview.model import Card, CardState, Finding, Health, Level, Node, Overview, Pod

H100, V100, A100, L40S = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
ISLANDS = (
    *((0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 2), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)
"""Of a DGX-1: two GPUs and the links between them."""


def _finding(level: Level, code: str, text: str, fix: str) -> Finding:
    return Finding(level=level, code=code, text=text, fix=fix, page=f"messages.md#{code.lower()}")


NOT_INJECTED = _finding(
    Level.ERROR,
    "GT104",
    "the pod asks for several GPUs and was not injected, so that NCCL sees no NVLink",
    "Put the label gpu.topology/injection: enabled on the namespace and create the pod again",
)
WORSE_CARDS = _finding(
    Level.WARNING,
    "GT431",
    "the pod has GPUs that are joined by PCIe, although GPUs with NVLink were free",
    "Ask for placement with the annotation gpu.topology/placement",
)
LINKS_DOWN = _finding(
    Level.ERROR,
    "GT612",
    "NVLinks of the node are down",
    "Look for Xid 74 in the log of the node, and reset or replace the GPU",
)
ORDER = _finding(
    Level.WARNING,
    "GT702",
    "another webhook is asked after this one and may take its values away",
    "Set reinvocationPolicy: IfNeeded",
)
NAMES = ("llama-pretrain", "eval", "search-ranker", "vision-train", "speech", "rl-rollout", "notebook", "embed-batch")
TEAMS = ("team-a", "team-b", "research", "serving")


def overview(nodes: int) -> Overview:
    """A cluster with so many nodes."""
    made = [_node(index) for index in range(nodes)]
    pods = sorted((pod for index in range(nodes) for pod in _pods(index)), key=lambda pod: pod.key)
    waiting = [_waiting(index) for index in range(max(1, nodes // 12))]
    return Overview(
        at="2026-11-23T12:00:00+00:00",
        nodes=tuple(made),
        pods=tuple(sorted([*pods, *waiting], key=lambda pod: pod.key)),
        findings=(ORDER,),
    )


def _kind(index: int) -> str:
    return ("switches", "islands", "switches", "slices", "switches", "plain", "broken", "free")[index % 8]


def _name(index: int) -> str:
    return f"gpu-{index // 16:02}-{index % 16:02}"


def _pod_key(index: int, part: int) -> str:
    return f"{TEAMS[(index + part) % 4]}/{NAMES[(index + part * 3) % 8]}-{index:03}-{part}"


def _node(index: int) -> Node:
    kind = _kind(index)
    product = {"islands": V100, "slices": A100, "plain": L40S}.get(kind, H100)
    cards = tuple(_card(index, kind, card, product) for card in range(4 if kind == "plain" else 8))
    links = tuple(_links(index, kind))
    is_lost = any(link.active < link.count for link in links)
    return Node(
        name=_name(index),
        product=product,
        cards=cards,
        links=links,
        nvlink="absent" if not links else "degraded" if is_lost else "healthy",
        best={"islands": 48.5, "plain": 0}.get(kind, 366.8),
        is_schedulable=index % 11 != 10,
        problem="the agent of this node has been silent for 10 minutes" if index % 29 == 28 else "",
        findings=(LINKS_DOWN,) if is_lost else (),
    )


def _card(index: int, kind: str, card: int, product: str) -> Card:
    holders: tuple[str, ...] = (_pod_key(index, card // 4),)
    state, health = CardState.HELD, Health.OK
    if kind == "free" and card > 1:
        state, holders = CardState.FREE, ()
    if kind == "slices":
        state, holders = CardState.SHARED, (_pod_key(index, 0), _pod_key(index, 1))[: 1 + card % 2]
    if kind == "switches" and index % 3 == 2 and card >= 4:
        state = CardState.CHOSEN
    if kind == "broken" and card == 5:
        state, holders, health = CardState.FREE, (), Health.BROKEN
    if kind == "broken" and card == 2:
        health = Health.LINKS_DOWN
    if kind == "islands" and index % 16 == 9 and card == 7:
        state, holders, health = CardState.FREE, (), Health.CORDONED
    why = "Xid 79: the GPU has fallen off the bus" if health is Health.BROKEN else ""
    uuid = f"GPU-{index:08x}-{card:04x}"
    return Card(index=card, uuid=uuid, product=product, state=state, health=health, why=why, holders=holders)


def _links(index: int, kind: str) -> Iterator[Link]:
    if kind == "plain":
        return
    if kind == "islands":
        for one, other, count in ISLANDS:
            is_down = index % 16 == 1 and (one, other) in ((2, 6), (3, 7))
            yield Link(one=one, other=other, count=count, active=0 if is_down else count)
        return
    total = 12 if kind == "slices" else 18
    for card in range(8):
        active = {2: 12, 5: 0}.get(card, total) if kind == "broken" else total
        yield Link(one=card, other=None, count=total, active=active)


def _pods(index: int) -> Iterator[Pod]:
    kind = _kind(index)
    parts = 1 if kind in ("plain", "free") else 2
    for part in range(parts):
        key = _pod_key(index, part)
        cards = {"free": (0, 1), "slices": (1, 3, 5, 7)}.get(kind, tuple(range(4 * part, 4 * part + 4)))
        namespace, _, name = key.partition("/")
        findings = tuple(
            finding
            for finding, every in ((NOT_INJECTED, 7), (WORSE_CARDS, 5))
            if (index + part) % every == every - 1 and not (finding is NOT_INJECTED and part)
        )
        is_worse = WORSE_CARDS in findings
        bandwidth = {"plain": 21.0, "islands": 24.3}.get(kind, 366.8)
        yield Pod(
            key=key,
            namespace=namespace,
            name=name,
            owner=f"Job {NAMES[(index + part * 3) % 8]}" if index % 3 else "",
            node=_name(index),
            cards=cards,
            wanted=len(cards),
            profile="" if NOT_INJECTED in findings else "exclusive",
            link={"plain": "PHB", "islands": "NV1"}.get(kind, "NV18"),
            bandwidth=21.0 if is_worse else bandwidth,
            best=bandwidth if kind != "islands" else 48.5,
            verified=(Verified.YES, Verified.UNKNOWN, Verified.YES, Verified.NO)[(index + part) % 4],
            phase="Running",
            findings=findings,
        )


def _waiting(index: int) -> Pod:
    name = f"{NAMES[index % 8]}-queue-{index:03}"
    return Pod(
        key=f"{TEAMS[index % 4]}/{name}",
        namespace=TEAMS[index % 4],
        name=name,
        owner=f"Job {NAMES[index % 8]}-queue",
        node="",
        cards=(),
        wanted=8,
        profile="exclusive",
        link="",
        bandwidth=None,
        best=None,
        verified=Verified.UNKNOWN,
        phase="Pending",
        waits_for="the planner: 8 GPUs joined by NVLink, and no node has more than 6 of them free",
    )


HOSTILE = (
    "<img src=x onerror=window.ran=1>",
    "</script><script>window.ran=1</script>",
    "\"'><svg onload=window.ran=1>",
    "\u202ekcatta\u202c\u200b",
    "a" * 63,
    "javascript:window.ran=1",
    "__proto__",
    "constructor",
)


def hostile() -> Overview:
    """Names and sentences that a browser might take for something else, in every text that a cluster gives."""
    found = overview(len(HOSTILE))
    nodes, pods = [], []
    for text, node in zip(HOSTILE, found.nodes, strict=True):
        key = f"{text}/{text}"
        finding = Finding(level=Level.ERROR, code="GT104", text=text, fix=text, page=text)
        cards = tuple(
            msgspec.structs.replace(card, uuid=text, product=text, why=text, holders=(key,)) for card in node.cards
        )
        nodes.append(
            msgspec.structs.replace(
                node, name=text, product=text, problem=text, nvlink="degraded", cards=cards, findings=(finding,)
            )
        )
        pod = msgspec.structs.replace(
            found.pods[0],
            key=key,
            namespace=text,
            name=text,
            owner=f"Job {text}",
            node=text,
            profile=text,
            link=text,
            findings=(finding,),
        )
        waiting = msgspec.structs.replace(
            pod, key=f"{text}/w{text}", name=f"w{text}", node="", cards=(), bandwidth=None, waits_for=text
        )
        pods += [pod, waiting]
    return msgspec.structs.replace(found, at="<b>now</b>", nodes=tuple(nodes), pods=tuple(pods), unread=HOSTILE)
