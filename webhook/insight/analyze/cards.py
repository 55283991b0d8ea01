"""Findings about cards: free cards whose NVLink partners have slices, and pods with worse cards than are free.

A slice stays on its card until its pod ends. HAMi gives a card with a slice to no pod that wants a whole card.
"""

from collections.abc import Iterator, Mapping

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.decisions.place.observation import card_labels, judge, link_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.round import Scene
from webhook.decisions.place.world import PlaceNode
from webhook.decisions.request.resources import read_requests
from webhook.hardware.topology.model import Gpu, MigMode
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, hint, warning
from webhook.insight.analyze.free_cards import FilledWorld, before_its_node
from webhook.insight.analyze.pods import holder_of
from webhook.objects.pod import MalformedPod
from webhook.words import names
from webhook.words.catalogue.cluster_findings import (
    BETTER_CARDS_ARE_FREE,
    CARDS_WITHOUT_PARTNER,
    SWITCH_GROUP_NOT_WHOLE,
)
from webhook.words.listing import counted, listed
from webhook.words.outcome import Refused

_NAMED = 3
"""Pods that a finding names."""
_LEAST = 2
"""The number of GPUs of one pair."""


class _Cards(msgspec.Struct):
    """The use of the cards of one node, by index."""

    sliced: dict[int, tuple[str, ...]]
    """The cards with slices, and the pods that have these slices."""
    free: frozenset[int]
    """The cards that no pod has."""


def cards(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields the findings about stranded cards and about pods with worse cards. All pods must be known."""
    filled = FilledWorld(snapshot)
    sharing = {record.key for known, record in filled.records if record.held and _has_slices(snapshot, known)}
    for node in filled.world.known_nodes():
        yield from _stranded(node, _look(filled, node, sharing))
    yield from _worse(snapshot, filled, sharing)


def _has_slices(snapshot: Snapshot, known: KnownPod) -> bool:
    """Returns whether a pod asks for parts of cards only."""
    try:
        requests = read_requests(known.pod, snapshot.policy.resources, snapshot.policy.default_count)
    except (Refused, MalformedPod):
        return False
    found = [container.request for container in requests.containers if container.request]
    return bool(found) and not any(request.is_whole for request in found)


def _look(filled: FilledWorld, node: PlaceNode, sharing: set[str]) -> _Cards:
    holders = {index: filled.world.holders(uuid, node.name) for index, uuid in node.uuids.items()}
    return _Cards(
        sliced={index: tuple(sorted(keys & sharing)) for index, keys in holders.items() if keys & sharing},
        free=frozenset(index for index, keys in holders.items() if not keys),
    )


def _stranded(node: PlaceNode, found: _Cards) -> Iterator[Diagnosis]:
    if node.topology is None or not found.sliced:
        return
    gpus = [gpu for gpu in node.topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
    partners = _partners(gpus)
    holder = Holder("Node", "", node.name)
    alone = [index for index in sorted(found.free) if partners[index] and partners[index] <= found.sliced.keys()]
    if alone:
        pods = _pods(found, {partner for index in alone for partner in partners[index]})
        them = "it" if len(alone) == 1 else "them"
        free = f"{card_labels(tuple(alone))} {'is' if len(alone) == 1 else 'are'}"
        yield hint(holder, CARDS_WITHOUT_PARTNER.say(cards=free, them=them, pods=pods))
    group = {gpu.index for gpu in gpus if gpu.switch_links}
    sliced = group & found.sliced.keys()
    if len(group) > _LEAST and sliced and sliced != group and not alone:
        said = f"{card_labels(tuple(sorted(sliced)))} {'is' if len(sliced) == 1 else 'are'}"
        yield hint(holder, SWITCH_GROUP_NOT_WHOLE.say(sliced=said, count=len(group), pods=_pods(found, sliced)))


def _partners(gpus: list[Gpu]) -> Mapping[int, set[int]]:
    """Returns for each GPU the GPUs that NVLink joins to it, directly or through switches."""
    switched = {gpu.index for gpu in gpus if gpu.switch_links}
    found: dict[int, set[int]] = {}
    for gpu in gpus:
        direct = {other.index for other in gpus if other is not gpu and gpu.links_to(other.label)}
        found[gpu.index] = direct | (switched - {gpu.index} if gpu.index in switched else set())
    return found


def _pods(found: _Cards, indices: set[int]) -> str:
    every = sorted({pod for index in indices for pod in found.sliced.get(index, ())})
    more = [counted(len(every) - _NAMED, "more pod")] if len(every) > _NAMED else []
    return listed([*every[:_NAMED], *more])


def _worse(snapshot: Snapshot, filled: FilledWorld, sharing: set[str]) -> Iterator[Diagnosis]:
    scene = Scene(filled.world, snapshot.policy, snapshot.namespace)
    for known, record in filled.records:
        if not record.is_bound or len(record.held) < _LEAST or record.key in sharing or _chose_itself(known):
            continue
        before = before_its_node(known)
        if before is not None:
            yield from _compared(scene, known, before, record)


def _chose_itself(known: KnownPod) -> bool:
    """Returns whether the author of a pod named its cards."""
    annotations = known.pod.annotations
    return names.USE_GPU_UUID in annotations and names.PLACED not in annotations


def _compared(scene: Scene, known: KnownPod, before: PodRecord, record: PodRecord) -> Iterator[Diagnosis]:
    found = judge(scene, before, record)
    if found is None or found.better is None:
        return
    if record.group and found.better.node is not found.node:
        return  # the other pods of its group stay on their node
    best = found.better.choice.chosen
    if found.given.every_pair_has_nvlink and _product(found.node) != _product(found.better.node):
        return  # every pair has NVLink, and the better cards are only those of another product
    said = BETTER_CARDS_ARE_FREE.say(
        given=card_labels(found.given.gpus),
        given_node=found.node.name,
        given_link=link_of(found.given),
        cards=card_labels(best.gpus),
        node=found.better.node.name,
        link=link_of(best),
    )
    yield warning(holder_of(known, known.pod), said)


def _product(node: PlaceNode) -> str:
    return node.topology.gpus[0].name if node.topology and node.topology.gpus else ""
