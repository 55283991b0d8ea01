"""The cards that are held for pods of a group that are created only when the first pod of the group is ready.

They stand in ``gpu.topology/placed`` of the first pod. So the next leader knows them, and they are free when that pod
ends. A set is held for ``reserveSeconds``, while no pod has one of its cards and the group has pods without cards.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from webhook.decisions.place.placed_annotation import CardsHeld
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World


class HeldForLater:
    """Keeps the cards for later pods from the pods of others.

    Args:
        world: The pods and nodes of the cluster.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[str, float] = {}
        """The time at which each pod that names such cards was seen first, by its uid."""
        self._held: dict[tuple[str, str], dict[str, PodRecord]] = {}
        """The stand-ins for the later pods of each group in the world, by names that belong to no pod."""

    @property
    def cards(self) -> int:
        """The number of cards that are held in all."""
        return sum(len(stand_in.held) for found in self._held.values() for stand_in in found.values())

    def look(self, now: float, seconds: float) -> None:
        """Brings the held cards up to date.

        Args:
            now: Seconds of a clock that never goes back.
            seconds: The time for which cards are held, from the first look on.
        """
        named = self._world.holding
        present = {pod.uid for pod in named.values()}
        self._since = {uid: since for uid, since in self._since.items() if uid in present}
        for group in list(self._held):
            self._drop(group)
        for key, pod in sorted(named.items()):
            if now - self._since.setdefault(pod.uid, now) < seconds:
                self._hold(key, pod)

    @contextmanager
    def lifted(self, group: tuple[str, str], sets: int) -> Iterator[None]:
        """Releases so many sets that are held for a group while the context lasts, so that its pods may have them.

        In the end the sets of which no card was taken meanwhile are held again.
        """
        lifted = dict(list(self._held.get(group, {}).items())[:sets])
        for name, stand_in in lifted.items():
            self._world.pod_changed(name, stand_in, None)
        try:
            yield
        finally:
            for name, stand_in in lifted.items():
                if self._is_free(stand_in.held, stand_in.node):
                    self._world.pod_changed(name, None, stand_in)
                else:
                    del self._held[group][name]

    def sets_for(self, group: tuple[str, str]) -> int:
        """Returns the number of sets that are held for a group."""
        return len(self._held.get(group, ()))

    def _hold(self, key: str, pod: PodRecord) -> None:
        """Holds the still free sets that a pod names, for as many pods as have no cards yet."""
        world, group = self._world, (pod.namespace, pod.group)
        held = self._held.setdefault(group, {})
        most = pod.later.size - world.groups[group].with_cards if pod.later else 0
        for number, one in enumerate(pod.later.sets if pod.later else ()):
            if len(held) >= most:
                break
            node = world.node_with(one.cards)
            if node is None or node.name != one.node or not self._is_free(one.cards, one.node):
                continue
            name = f"{key}/later-{number}"
            held[name] = stand_in(_as_large(pod, one), one.node, one.cards)
            world.pod_changed(name, None, held[name])
        if not held:
            del self._held[group]

    def _drop(self, group: tuple[str, str]) -> None:
        for name, held in self._held.pop(group, {}).items():
            self._world.pod_changed(name, held, None)

    def _is_free(self, cards: Collection[str], node: str) -> bool:
        return not any(self._world.is_held(card, node) for card in cards)


def _as_large(pod: PodRecord, one: CardsHeld) -> PodRecord:
    """Returns the pod that names the cards, with the resources of the pod for which they are held."""
    return pod if one.amounts is None else msgspec.structs.replace(pod, amounts=one.amounts)


def stand_in(pod: PodRecord, node: str, cards: tuple[str, ...]) -> PodRecord:
    """Returns a stand-in that takes as much of a node as the pod would, and holds these cards."""
    return msgspec.structs.replace(
        pod, node=node, held=cards, parts=(), held_on=node, group="", later=None, unbound=None
    )
