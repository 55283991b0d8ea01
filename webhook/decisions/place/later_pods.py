"""Cards that are held for the pods of a group that are created only when its first pod is ready.

They stand in ``gpu.topology/placed`` of that pod, so the next leader knows them, and they are free when it ends. A set
is held while no pod has one of its cards and pods of the group have none, for ``reserveSeconds``.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World


class HeldForLater:
    """Keeps these cards from the pods of others.

    Args:
        world: What there is.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[str, float] = {}
        """By the uid of a pod that names such cards: when it was seen first."""
        self._held: dict[tuple[str, str], dict[str, PodRecord]] = {}
        """By group what stands for its later pods in the world, by names that no pod has."""

    @property
    def cards(self) -> int:
        """How many are held in all."""
        return sum(len(stand_in.held) for found in self._held.values() for stand_in in found.values())

    def look(self, now: float, seconds: float) -> None:
        """Bring what is held up to date.

        Args:
            now: Of a clock that never goes back.
            seconds: For which cards are held, from the first look on.
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
        """The same as if so many sets were not held for a group: its own pods may have them.

        Those of which no card was taken meanwhile are held again in the end.
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
        """How many sets are held for a group."""
        return len(self._held.get(group, ()))

    def _hold(self, key: str, pod: PodRecord) -> None:
        """Hold what is still free of what a pod names, for as many pods as have no cards yet."""
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
            held[name] = stand_in(pod, one.node, one.cards)
            world.pod_changed(name, None, held[name])
        if not held:
            del self._held[group]

    def _drop(self, group: tuple[str, str]) -> None:
        for name, held in self._held.pop(group, {}).items():
            self._world.pod_changed(name, held, None)

    def _is_free(self, cards: Collection[str], node: str) -> bool:
        return not any(self._world.is_held(card, node) for card in cards)


def stand_in(pod: PodRecord, node: str, cards: tuple[str, ...]) -> PodRecord:
    """What takes as much of a node as a pod would, and these cards."""
    return msgspec.structs.replace(pod, node=node, held=cards, held_on=node, group="", later=None, unbound=None)
