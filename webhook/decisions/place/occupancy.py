"""The pods that hold whole cards, for which traffic of a card can be attributed to a pod and its use judged."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.hami import parse_hami
from webhook.decisions.allocation.model import WHOLE, Device
from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.pod import Occupant, PodRecord
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.traffic.judgement import Sign, Unused, unused
from webhook.hardware.traffic.model import Traffic
from webhook.hardware.traffic.words import bytes_text
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.traffic import NVLINK_HARDLY_USED, NVLINK_UNUSED
from webhook.words.choices import Profile
from webhook.words.errors import FormatError, LimitError
from webhook.words.mark import Mark
from webhook.words.timestamp import parse_timestamp


class HeldCard(NamedTuple):
    """One whole card of one container of a pod, which no other pod holds."""

    container: str
    uuid: str


class Occupied(NamedTuple):
    """A pod and the whole cards that it holds."""

    pod: PodRecord
    occupant: Occupant
    cards: tuple[HeldCard, ...]


@dataclass(frozen=True, slots=True)
class _Asking:
    """A container as :class:`webhook.decisions.allocation.assignment.AsksForGpus` describes it."""

    name: str
    is_init: bool
    count: int


def occupied(pods: Iterable[PodRecord], node: NodeRecord, counts: Collection[str]) -> list[Occupied]:
    """Returns the pods of a node that hold whole cards for themselves, each with these cards.

    Args:
        pods: All pods of the node, with the cards that they hold.
        node: The node. HAMi registered the memory of its cards, which shows whether an allocation is of a whole card.
        counts: Names of the resources by which pods ask for numbers of HAMi's GPUs.
    """
    pods = list(pods)
    holders = Counter(uuid for pod in pods for uuid in dict.fromkeys(pod.held))
    memory = {gpu.uuid: gpu.memory_mib for gpu in node.registered}
    found = []
    for pod in pods:
        if pod.occupant:
            given = _given(pod.occupant, counts)
            whole = tuple(HeldCard(name, each.uuid) for name, each in given if _is_whole(each, memory, holders))
            if whole:
                found.append(Occupied(pod, pod.occupant, whole))
    return found


def _given(occupant: Occupant, counts: Collection[str]) -> list[tuple[str, Device]]:
    """Returns the devices of each container; empty where HAMi's list does not match the containers."""
    asking = [
        _Asking(name, is_init, max((amounts.get(count, 0) for count in counts), default=0))
        for name, is_init, amounts in occupant.asked
    ]
    try:
        dealt = assign(parse_hami(occupant.allocation, "the allocation"), asking)
    except (FormatError, LimitError):
        return []
    return [(container.name, device) for container, devices in dealt for device in devices]


def _is_whole(device: Device, memory: dict[str, int], holders: Counter[str]) -> bool:
    has_all = device.cores >= WHOLE or 0 < memory.get(device.uuid, 0) <= device.memory_mib
    return device.uuid in memory and not device.mig and has_all and holders[device.uuid] == 1


def sets_of(found: Occupied) -> list[tuple[str, ...]]:
    """Returns the UUIDs of the cards that work together.

    These are all cards of the pod if its containers exchange memory, else the cards of each container.
    """
    try:
        together = Mark.parse(found.occupant.mark).profile is Profile.POD_PEERS
    except FormatError:
        together = False
    by_container: dict[str, list[str]] = {}
    for card in found.cards:
        by_container.setdefault("" if together else card.container, []).append(card.uuid)
    return [tuple(uuids) for uuids in by_container.values() if len(uuids) > 1]


def unused_nvlink(found: Occupied, traffic: Traffic, node: KnownNode) -> tuple[Unused, tuple[str, ...]] | None:
    """Returns the first set of cards of a pod over whose NVLinks nothing moves, strong signs first; None if none is."""
    started = parse_timestamp(found.occupant.started)
    judged = [(unused(traffic, uuids, started), uuids) for uuids in sets_of(found)]
    suspects = [(hint, uuids) for hint, uuids in judged if hint and is_linked(node, uuids)]
    return min(suspects, key=lambda each: each[0].sign is not Sign.STRONG, default=None)


def is_linked(node: KnownNode, uuids: Sequence[str]) -> bool:
    """Returns whether each pair of these cards has NVLink, as far as the topology knows them."""
    gpus = [node.gpu(uuid, None) for uuid in uuids]
    indices = sorted({gpu.index for gpu in gpus if gpu})  # an allocation may name a card of two containers
    if len(indices) < len(uuids) or len(indices) < 2:
        return False
    gpu_set = node.gpu_set(indices)
    return not node.doubt(gpu_set) and gpu_set.every_pair_has_nvlink


def hint_message(hint: Unused, labels: str) -> Message:
    """Returns the message for a hint.

    Args:
        hint: The hint.
        labels: The GPUs, such as ``GPU0 and GPU1``.
    """
    moved = hint.moved
    return (NVLINK_UNUSED if hint.sign is Sign.STRONG else NVLINK_HARDLY_USED).say(
        gpus=labels,
        minutes=moved.seconds // 60,
        pcie=bytes_text(moved.pcie or 0),
        nvlink=bytes_text(moved.nvlink or 0),
    )
