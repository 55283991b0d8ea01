"""The cards of a node, as reported by its agent, by HAMi and by the driver."""

from collections.abc import Iterable, Mapping

import msgspec

from webhook.cluster.snapshot.nodes import ClusterNode
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.readers.hami_register import RegisteredGpu, parse_register
from webhook.insight.overview.links import Linked
from webhook.insight.overview.model import Health
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.printable import fitted

_ILL = "HAMi reports it unhealthy"
_CORDONED = f"{names.HAMI_DEVICE_CORDON} names it"
_NOT_REGISTERED = "HAMi has not registered it"
_LINKS_UNKNOWN = "how it is linked is not known"
_MIG = "mig"


class BareCard(msgspec.Struct, frozen=True, kw_only=True):
    """A card without its holders."""

    index: int
    uuid: str
    minor: int | None
    product: str
    health: Health
    why: str
    is_mig: bool


def bare_cards(node: ClusterNode, topology: NodeTopology | None, linked: Linked | None) -> tuple[BareCard, ...]:
    """Returns all cards of a node, each once, by index.

    Args:
        node: The node.
        topology: The topology with the cards; None: only HAMi reports cards.
        linked: The links of the cards; None: not known.
    """
    registered = {gpu.uuid: gpu for gpu in _registered(node)}
    cordoned = _cordoned(node)
    found = {card.index: card for card in _of_topology(topology, linked)}
    known = {card.uuid for card in found.values()}
    for gpu in registered.values():
        if gpu.uuid not in known:
            index = _index(gpu, found)
            found[index] = _registered_alone(index, gpu)
    judged = (_with_hami(card, registered, cordoned) for card in found.values())
    return tuple(sorted(judged, key=lambda card: card.index))


def _annotations(node: ClusterNode) -> Mapping[str, str]:
    found: Mapping[str, str] = node.document["metadata"].get("annotations", {}) if node.document else {}
    return found


def _registered(node: ClusterNode) -> list[RegisteredGpu]:
    """Returns the cards that HAMi registered; none if the annotation cannot be read, so that HAMi did not write it."""
    try:
        return parse_register(_annotations(node).get(names.HAMI_NODE_REGISTER, ""), source=f"Node {node.name}")
    except FormatError:
        return []


def _cordoned(node: ClusterNode) -> frozenset[str]:
    listed = _annotations(node).get(names.HAMI_DEVICE_CORDON, "").split(",")
    return frozenset(uuid.strip() for uuid in listed)


def _index(gpu: RegisteredGpu, taken: Mapping[int, BareCard]) -> int:
    if gpu.index is not None and gpu.index not in taken:
        return gpu.index
    return max(taken, default=-1) + 1


def _of_topology(topology: NodeTopology | None, linked: Linked | None) -> Iterable[BareCard]:
    if topology is None:
        return
    for gpu in topology.gpus:
        is_mig = gpu.mig_mode is MigMode.ENABLED
        health, why = (Health.OK, "") if is_mig else _links_of(gpu.index, linked)
        yield BareCard(
            index=gpu.index,
            uuid=gpu.uuid,
            minor=gpu.minor,
            product=fitted(gpu.name),
            health=health,
            why=why,
            is_mig=is_mig,
        )
    for lost in topology.lost:
        yield BareCard(
            index=lost.index,
            uuid=lost.uuid,
            minor=None,
            product="",
            health=Health.BROKEN,
            why=fitted(lost.problem),
            is_mig=False,
        )


def _links_of(index: int, linked: Linked | None) -> tuple[Health, str]:
    if linked is None:
        return Health.UNKNOWN, ""  # the problem of the node says why
    if index in linked.unread:
        return Health.UNKNOWN, _LINKS_UNKNOWN
    return (Health.LINKS_DOWN, fitted(linked.said_of(index))) if index in linked.ailing else (Health.OK, "")


def _registered_alone(index: int, gpu: RegisteredGpu) -> BareCard:
    """Returns a card that only HAMi reports."""
    return BareCard(
        index=index,
        uuid=gpu.uuid,
        minor=None,
        product=fitted(gpu.name),
        health=Health.UNKNOWN,
        why=_LINKS_UNKNOWN,
        is_mig=gpu.mode == _MIG,
    )


def _with_hami(card: BareCard, registered: Mapping[str, RegisteredGpu], cordoned: frozenset[str]) -> BareCard:
    """Returns the card with the health that HAMi reports; a card that is broken already stays as it is."""
    if card.health is Health.BROKEN:
        return card
    gpu = registered.get(card.uuid)
    if card.uuid in cordoned:
        return msgspec.structs.replace(card, health=Health.CORDONED, why=_CORDONED)
    if gpu is not None and not gpu.healthy:
        return msgspec.structs.replace(card, health=Health.BROKEN, why=_ILL)
    if gpu is None and registered and card.health is Health.OK:
        return msgspec.structs.replace(card, health=Health.UNKNOWN, why=_NOT_REGISTERED)
    if gpu is not None and gpu.mode == _MIG:
        return msgspec.structs.replace(card, is_mig=True)
    return card
