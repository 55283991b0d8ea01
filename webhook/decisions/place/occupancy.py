"""The pods that hold whole cards, whose traffic and bandwidth can be attributed to a pod."""

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
from webhook.words.choices import Profile
from webhook.words.errors import FormatError, LimitError
from webhook.words.mark import Mark


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


def is_linked(node: KnownNode, uuids: Sequence[str]) -> bool:
    """Returns whether each pair of these cards has NVLink, as far as the topology knows them."""
    gpus = [node.gpu(uuid, None) for uuid in uuids]
    indices = sorted({gpu.index for gpu in gpus if gpu})  # an allocation may name a card of two containers
    if len(indices) < len(uuids) or len(indices) < 2:
        return False
    gpu_set = node.gpu_set(indices)
    return not node.doubt(gpu_set) and gpu_set.every_pair_has_nvlink
