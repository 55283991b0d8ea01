"""The reasons why no cards can be chosen for a pod, in words, with the nodes that come nearest."""

from collections import Counter
from collections.abc import Iterator, Sequence

from webhook.decisions.place.card_parts import PartAsked
from webhook.decisions.place.card_request import Asked, CardsAsked
from webhook.decisions.place.choice import Chooser
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import rank_of
from webhook.decisions.place.world import PlaceNode, World
from webhook.hardware.topology.selection.request import Constraint
from webhook.words.listing import counted

NAMED = 3
"""The most nodes that a message names."""


def most_cards(world: World) -> int:
    """Returns the most cards that one node has, whatever their state."""
    return max((node.record.most for node in world.nodes.values() if node.record), default=0)


def free_cards(world: World, chooser: Chooser, pod: PodRecord) -> str:
    """Returns the free cards of the nodes on which a pod can run: ``a has GPU0, GPU2; b is full; and 3 more``."""
    nodes = [(node, _free(world, node)) for node in world.known_nodes() if not chooser.refusal(node, pod)]
    nodes.sort(key=lambda entry: (-len(entry[1]), entry[0].name))
    said = [f"{node.name} has {', '.join(free)}" if free else f"{node.name} is full" for node, free in nodes[:NAMED]]
    return _list(said, len(nodes))


def cards_with_room(world: World, chooser: Chooser, pod: PodRecord, asked: PartAsked) -> str:
    """Returns how many cards of the nodes on which a pod can run have room: ``a: 1 of 4 cards; and 3 more``."""
    nodes = [node for node in world.known_nodes() if not chooser.refusal(node, pod)]
    found = [
        (-sum(world.has_room_for(asked, node.name, (uuid,)) for uuid in node.uuids.values()), node.name, node)
        for node in nodes
    ]
    found.sort(key=lambda entry: entry[:2])
    said = [f"{name}: {-count} of {counted(len(node.uuids), 'card')}" for count, name, node in found[:NAMED]]
    return _list(said, len(nodes))


def cordoned_nodes(world: World, chooser: Chooser, pod: PodRecord, asked: CardsAsked) -> str:
    """Returns the cordoned nodes whose free cards meet what a pod asks for, in a clause; empty if there are none."""
    found = []
    for node in world.known_nodes():
        if not chooser.is_only_cordoned(node, pod):
            continue
        stock = world.free_of(node.name)
        ranked = rank_of(stock, asked) if stock else None
        if stock and ranked and not ranked.choice.unmet:
            found.append((-len(stock.free), node.name))
    said = [f"{node} ({counted(-free, 'free card')})" for free, node in sorted(found)[:NAMED]]
    return f"cordoned, and would do: {_list(said, len(found))}" if said else ""


def closed_nodes(world: World, chooser: Chooser, pod: PodRecord) -> str:
    """Returns why a pod can run on none of the nodes with cards, the most frequent cause first."""
    causes = Counter(cause for node in world.known_nodes() if (cause := chooser.refusal(node, pod)))
    said = [f"{counted(count, 'node')} {cause}" for cause, count in causes.most_common(NAMED)]
    return _list(said, len(causes)) or "HAMi has registered no cards, or their links are not known"


def spared_pods(world: World, pod: PodRecord) -> str:
    """Returns that a pod has no other pods evicted although there are some of lower priority; empty if there are none.

    The clause is for a pod that runs nowhere.
    """
    is_sparing = pod.unbound is not None and not pod.unbound.may_preempt and world.has_pods_below(pod.priority)
    return "no pod is evicted for it, because its preemptionPolicy is Never" if is_sparing else ""


def wanted(asked: CardsAsked) -> str:
    """Returns the requirements as a phrase: ``with NVLink between every pair and 100 GB/s between every pair``."""
    return " and ".join(_phrases(asked))


def _phrases(asked: CardsAsked) -> Iterator[str]:
    for constraint in asked.constraints.asked:
        match constraint:
            case Constraint.REQUIRE_NVLINK:
                yield "with NVLink between every pair"
            case Constraint.MIN_LEVEL:
                yield f"with {asked.constraints.min_level} or nearer between every pair"
            case Constraint.MIN_BANDWIDTH:
                yield f"with {asked.constraints.min_bandwidth:g} GB/s between every pair"
            case Constraint.SAME_NUMA:
                yield "on one NUMA node"


def _free(world: World, node: PlaceNode) -> list[str]:
    stock = world.free_of(node.name)
    return [f"GPU{index}" for index in sorted(stock.free)] if stock else []


def _list(said: list[str], every: int) -> str:
    more = every - len(said)
    return "; ".join([*said, *([f"and {more} more"] if more > 0 else [])])


def nearest(world: World, chooser: Chooser, pod: PodRecord, asked: Asked) -> str:
    """Returns the node with the most free cards among those with enough cards for a pod; empty if there is none.

    If the pod waits for what it requires, only nodes count whose cards would meet it if all were free.
    """
    fitting = (
        node
        for node in world.known_nodes()
        if len(node.uuids) >= asked.cards.count
        and pod.unbound
        and not node.refusal(pod.unbound.needs)
        and (not asked.waits or chooser.would_do(node, asked.cards))
    )
    return min(((-len(_free(world, node)), node.name) for node in fitting), default=(0, ""))[1]


def has_room(world: World, pod: PodRecord, counts: Sequence[int], *, on_one_node: bool) -> bool:
    """Returns whether pods that ask for so many cards would have room together if all cards were free.

    The greatest come first, each to the smallest node that has room.

    Args:
        world: The pods and nodes of the cluster.
        pod: One of the pods; the others are taken to run on the same nodes.
        counts: The cards of each pod, at least one.
        on_one_node: Whether all of them have to be on one node.
    """
    needs = pod.unbound.needs if pod.unbound else None
    sizes = (len(node.uuids) for node in world.known_nodes() if needs and not node.refusal(needs))
    if on_one_node:
        return max(sizes, default=0) >= sum(counts)
    left = Counter(sizes)
    for count in sorted(counts, reverse=True):
        size = min((size for size in left if size >= count and left[size]), default=0)
        if not size:
            return False
        left[size] -= 1
        left[size - count] += 1
    return True
