"""The alternatives of a claim: selectors that only linked GPUs satisfy, on any known node, best first."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from webhook.decisions.claim_templates.islands import Island, Islands, Quality, least
from webhook.decisions.claim_templates.selectors import MAX_BYTES, ByProduct, ByUuid, Selector
from webhook.hardware.topology.model import HAMI, NodeTopology
from webhook.hardware.topology.planning.fleet import Builds
from webhook.hardware.topology.selection.request import Request
from webhook.hardware.topology.sets import LinkClass

MAX_ALTERNATIVES = 8
"""The most alternatives of one request: k8s.io/api resource/v1, FirstAvailableDeviceRequestMaxSize."""
MAX_WEIGHED = 64
"""The most selectors that are compared with each other; the best of them are kept."""
MAX_EXCEPTIONS = 150
"""The most cards that a selector by product leaves out: those of a few nodes whose links are broken."""
MAX_UUIDS = 200
"""The most UUIDs in one selector: 232 fit into MAX_BYTES."""

_Reach = dict[str, tuple[int, ...]]
"""The indices of GPUs, by node."""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One selector, and the GPUs that satisfy it."""

    selector: Selector
    quality: Quality
    """The least quality of all nodes that the selector reaches."""
    reach: Mapping[str, tuple[int, ...]]
    """The GPUs that satisfy it, by index, on each known node that has enough of them."""
    partition: int = 0
    """The size of the partition of the NVSwitches that the GPUs have to be, exactly; 0: any GPUs that satisfy it."""
    outside_partitions: bool = False
    """Whether it is for GPUs alone whose driver says nothing of partitions."""


@dataclass(frozen=True, slots=True)
class Found:
    """The alternatives of a claim, best first, and the linked sets that it leaves out."""

    alternatives: tuple[Alternative, ...]
    left_out: tuple[Alternative, ...]
    """Linked sets for which a claim has no room: any GPU of theirs may be in one of the alternatives as well."""
    nameless: tuple[str, ...]
    """Nodes with linked sets that cannot be named: neither bus ids with products nor UUIDs of their own are known."""


@dataclass(slots=True)
class _Model:
    """Nodes that are built alike."""

    topology: NodeTopology
    islands: Islands
    nodes: list[NodeTopology] = field(default_factory=list)


def find_alternatives(
    topologies: Sequence[NodeTopology], request: Request, wanted: Collection[str] | None = None
) -> Found:
    """Returns the alternatives by which a claim can ask for GPUs of one node that are linked as the request requires.

    A selector by product or bus ids is used only if all cards that satisfy it on known nodes are linked well enough.
    A few other cards are excepted by their UUIDs. Where there are many, the linked cards are named by their UUIDs
    instead. MIG cards and lost ones are left out.

    Args:
        topologies: The topologies of all nodes that the claim could be allocated on, each once.
        request: The number of GPUs, at least two, and the requirements for their pairs.
        wanted: The nodes whose GPUs the claim should get; None for all.
    """
    models = _models(_with_own_uuids(topologies), request)
    by_uuid: dict[tuple[Quality, int], list[_Bin]] = {}
    nameless: list[str] = []
    weighed: dict[ByProduct, Alternative | None] = {}
    for model, island in _best_first(models, wanted):
        if _is_covered(model, island, weighed.values()):
            continue
        for selector in _selectors(model, island):
            if selector not in weighed and len(weighed) < MAX_WEIGHED:
                weighed[selector] = _weigh(selector, models, request.count)
            if weighed.get(selector):
                break
        else:
            nameless += _fill(by_uuid, model, island, wanted)
    every = [*filter(None, weighed.values()), *(bin_.alternative for bins in by_uuid.values() for bin_ in bins)]
    return kept_alternatives(every, tuple(dict.fromkeys(nameless)))


def kept_alternatives(every: Sequence[Alternative], nameless: tuple[str, ...]) -> Found:
    """Returns the alternatives that a claim has room for, the others, and the nodes that cannot be named."""
    kept, left_out = _keep(every)
    return Found(kept, left_out, nameless)


def _with_own_uuids(topologies: Sequence[NodeTopology]) -> list[NodeTopology]:
    """Returns the nodes without the UUIDs that occur more than once, because these name no single card."""
    times = Counter(gpu.uuid for topology in topologies for gpu in topology.gpus)
    return [
        replace(topology, gpus=tuple(replace(gpu, uuid="") if times[gpu.uuid] > 1 else gpu for gpu in topology.gpus))
        for topology in topologies
    ]


def _models(topologies: Sequence[NodeTopology], request: Request) -> list[_Model]:
    builds, models = Builds(), dict[tuple[int, bool], _Model]()
    kept = []  # builds are forgotten as soon as nothing refers to them
    for topology in topologies:
        build = builds.of(topology)
        key = (id(build), topology.source == HAMI)
        if key not in models:
            kept.append(build)
            models[key] = _Model(topology, Islands(build, request))
        models[key].nodes.append(topology)
    return list(models.values())


def _best_first(models: Sequence[_Model], wanted: Collection[str] | None) -> Iterator[tuple[_Model, Island]]:
    found = [
        (model, island)
        for model in models
        if wanted is None or any(topology.node in wanted for topology in model.nodes)
        for island in model.islands.found
    ]
    return iter(sorted(found, key=lambda entry: (entry[1].quality.rank, -len(entry[1].gpus) * len(entry[0].nodes))))


def _is_covered(model: _Model, island: Island, known: Iterable[Alternative | None]) -> bool:
    """Returns whether an alternative names exactly this island already."""
    return any(each and each.reach.get(model.topology.node) == island.gpus for each in known)


def _selectors(model: _Model, island: Island) -> Iterator[ByProduct]:
    """Yields the selectors that stand for the island on every node of the model, the simplest first."""
    gpus = [gpu for gpu in model.topology.gpus if gpu.index in island.gpus]
    products = {gpu.name for gpu in gpus}
    if len(products) > 1 or "" in products or model.topology.source == HAMI:
        return
    product = products.pop()
    alike = [gpu.index for gpu in model.topology.gpus if gpu.name == product]
    found = []
    if island.quality.link is LinkClass.NVSWITCH and model.islands.usable(alike) == island.gpus:
        found.append(ByProduct(product))
    if all(gpu.pci_bus_id for gpu in gpus):
        found.append(ByProduct(product, tuple(gpu.pci_bus_id for gpu in gpus)))
    yield from (selector for selector in found if len(selector.expression) <= MAX_BYTES)


def _weigh(selector: ByProduct, models: Sequence[_Model], count: int) -> Alternative | None:
    """Returns the alternative of a selector, without the cards that would make it wrong; None if they are too many."""
    reach: _Reach = {}
    qualities = []
    without: list[str] = []
    for model in models:
        matched = [gpu.index for gpu in model.topology.gpus if selector.may_match(model.topology, gpu)]
        usable = model.islands.usable(matched)
        if len(usable) < count:
            continue
        linked = model.islands.linked_part(usable)
        if linked != usable:
            others = set(usable) - set(linked)
            cards = [gpu.uuid for node in model.nodes for gpu in node.gpus if gpu.index in others]
            without += cards
            if not all(cards) or len(without) > MAX_EXCEPTIONS:
                return None
        if linked and (quality := model.islands.quality(linked)):
            qualities.append(quality)
            reach |= dict.fromkeys((topology.node for topology in model.nodes), linked)
    selector = replace(selector, without=tuple(without))
    if not qualities or len(selector.expression) > MAX_BYTES:
        return None
    return Alternative(selector=selector, quality=least(qualities), reach=reach)


@dataclass(slots=True)
class _Bin:
    """Islands of different nodes that one selector names by UUIDs."""

    quality: Quality
    uuids: list[str] = field(default_factory=list)
    bytes: int = len(ByUuid(()).expression)
    reach: _Reach = field(default_factory=dict)

    def has_room(self, uuids: Sequence[str]) -> bool:
        return len(self.uuids) + len(uuids) <= MAX_UUIDS and self.bytes + _extent(uuids) <= MAX_BYTES

    @property
    def alternative(self) -> Alternative:
        return Alternative(selector=ByUuid(tuple(self.uuids)), quality=self.quality, reach=self.reach)


def _extent(uuids: Sequence[str]) -> int:
    """Returns the number of bytes that UUIDs take in an expression."""
    return len(ByUuid(tuple(uuids)).expression) - len(ByUuid(()).expression) + len(", ")


def _fill(
    bins: dict[tuple[Quality, int], list[_Bin]], model: _Model, island: Island, wanted: Collection[str] | None
) -> list[str]:
    """Adds an island of each node of a model to the bins; returns the names of the nodes where that is not possible.

    Two islands of one node are never in one bin, because a claim could then get cards of both.
    """
    nameless = []
    for topology in model.nodes:
        if wanted is not None and topology.node not in wanted:
            continue
        uuids = [gpu.uuid for gpu in topology.gpus if gpu.index in island.gpus]
        if not all(uuids) or not _Bin(island.quality).has_room(uuids):
            nameless.append(topology.node)
            continue
        place = _place(bins, island.quality, topology.node, uuids)
        place.uuids += uuids
        place.bytes += _extent(uuids)
        place.reach[topology.node] = island.gpus
    return nameless


def _place(bins: dict[tuple[Quality, int], list[_Bin]], quality: Quality, node: str, uuids: Sequence[str]) -> _Bin:
    """Returns a bin with room that names no GPU of the node yet."""
    number = 0
    while any(node in bin_.reach for bin_ in bins.get((quality, number), ())):
        number += 1
    row = bins.setdefault((quality, number), [])
    if not row or not row[-1].has_room(uuids):
        row.append(_Bin(quality))
    return row[-1]


def _keep(every: Sequence[Alternative]) -> tuple[tuple[Alternative, ...], tuple[Alternative, ...]]:
    """Returns the alternatives that a claim has room for, best first, and the others.

    Of equal quality, alternatives without common GPUs come first, so that a GPU in use blocks few of them.
    """
    taken: dict[Quality, set[tuple[str, int]]] = {}
    first: list[Alternative] = []
    later: list[Alternative] = []
    for alternative in sorted(every, key=lambda each: each.quality.rank):
        gpus = {(node, gpu) for node, matched in alternative.reach.items() for gpu in matched}
        others = taken.setdefault(alternative.quality, set())
        if gpus & others:
            later.append(alternative)
        else:
            first.append(alternative)
            others |= gpus
    chosen = [*first, *later]
    kept = sorted(chosen[:MAX_ALTERNATIVES], key=lambda each: each.quality.rank)
    return tuple(kept), tuple(chosen[MAX_ALTERNATIVES:])
