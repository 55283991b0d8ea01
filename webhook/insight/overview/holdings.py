"""The cards that each pod has: from HAMi, from another scheduler, or by the planner's choice."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from webhook.decisions.allocation.hami import DIALECT as HAMI
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.allocation.reader import DIALECTS, allocated_node, read_allocation
from webhook.decisions.place.pins import pinned_cards
from webhook.decisions.place.pod import PodRecord
from webhook.insight.overview.cards import BareCard
from webhook.objects.pod import Pod
from webhook.words.errors import FormatError, LimitError


class CardTable:
    """The cards of one node, by UUID and by minor number.

    Args:
        cards: The cards of the node.
    """

    def __init__(self, cards: Iterable[BareCard]) -> None:
        found = tuple(cards)
        self._by_uuid = {card.uuid: card.index for card in found if card.uuid}
        self._by_minor = {card.minor: card.index for card in found if card.minor is not None}

    def indices(self, devices: Iterable[Device]) -> tuple[int, ...]:
        """Returns the indices of the devices that the node has, each once, ascending."""
        return tuple(sorted({index for device in devices if (index := self._index(device)) is not None}))

    def _index(self, device: Device) -> int | None:
        if device.uuid:
            return self._by_uuid.get(device.uuid)
        return None if device.minor is None else self._by_minor.get(device.minor)


class Held(msgspec.Struct, frozen=True, gc=False):
    """The cards of a pod."""

    node: str = ""
    sets: tuple[tuple[int, ...], ...] = ()
    """The indices of the cards of each container that has some."""
    is_chosen: bool = False
    """Whether the planner holds the cards for the pod, and HAMi has not given them yet."""

    @property
    def cards(self) -> tuple[int, ...]:
        """The indices of all cards, ascending."""
        return tuple(sorted({index for each in self.sets for index in each}))


NOTHING = Held()


def held_by(pod: Pod, node: str, record: PodRecord | None, pinned_to: str, tables: Mapping[str, CardTable]) -> Held:
    """Returns the cards of a pod.

    Args:
        pod: The pod.
        node: The node of the pod, now or in future; empty: open.
        record: The pod as the planner reads it; None: the planner cannot read it.
        pinned_to: The node whose cards the planner holds for the pod; empty: none.
        tables: The cards of nodes, by their names.
    """
    if record is not None and record.held:
        return _hamis(pod, record, tables)
    if record is not None and pinned_to:
        given = (tuple(Device(uuid=uuid) for uuid in pinned_cards(record)),)
        return _on(pinned_to, given, tables, is_chosen=True)
    return next(_others(pod, node, tables), NOTHING)


def _hamis(pod: Pod, record: PodRecord, tables: Mapping[str, CardTable]) -> Held:
    """Returns the cards that HAMi counts as those of the pod.

    They are sorted by containers where the list can be read by the strict rules of bind.
    """
    counted = tuple(Device(uuid=uuid) for uuid in record.held)
    given = _read(pod, HAMI.family).given
    if {device.uuid for segment in given for device in segment} != set(record.held):
        given = (counted,)
    return _on(record.held_on, given, tables)


def _others(pod: Pod, node: str, tables: Mapping[str, CardTable]) -> Iterator[Held]:
    for dialect in DIALECTS:
        if dialect is HAMI:
            continue
        where = allocated_node(pod.annotations, family=dialect.family) or node
        found = _on(where, _read(pod, dialect.family).given, tables) if where else NOTHING
        if found.sets:
            yield found


def _read(pod: Pod, family: str) -> Allocation:
    try:
        return read_allocation(pod.annotations, family=family, holder="a pod")
    except (FormatError, LimitError):
        return Allocation()


def _on(
    node: str, given: Iterable[Iterable[Device]], tables: Mapping[str, CardTable], *, is_chosen: bool = False
) -> Held:
    table = tables.get(node)
    if table is None:
        return Held(node)
    return Held(node, tuple(filter(None, map(table.indices, given))), is_chosen)
