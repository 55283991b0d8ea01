"""Cards that the planner keeps for pods of a group that are created later."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from webhook.cluster.snapshot.model import Snapshot
from webhook.decisions.place.placed_annotation import read_placed
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World
from webhook.words.timestamp import parse_timestamp


def kept_for_later(world: World, snapshot: Snapshot) -> Mapping[str, str]:
    """Returns for each reserved card, by UUID, the key of the pod that names it for its group.

    The planner keeps a set of cards for a limited time, while no pod has one of them and the group lacks pods
    (:mod:`webhook.decisions.place.later_pods`). It measures that time by its own clock, so that planner and overview
    may differ when the time ends.
    """
    annotated = {f"{known.namespace}/{known.name}": known for known in snapshot.pods} if world.holding else {}
    seconds = snapshot.policy.placement.reserve_seconds
    found: dict[str, str] = {}
    for key, pod in sorted(world.holding.items()):
        placed = read_placed(annotated[key].pod.annotations)
        if _is_over(placed.at if placed else "", snapshot.at, seconds):
            continue
        for cards in _sets(world, pod):
            for uuid in cards:
                found.setdefault(uuid, key)
    return found


def _is_over(chosen: str, now: datetime | None, seconds: float) -> bool:
    at = parse_timestamp(chosen)
    return at is not None and now is not None and (now - at).total_seconds() > seconds


def _sets(world: World, pod: PodRecord) -> Iterator[tuple[str, ...]]:
    if pod.later is None:
        return
    left = pod.later.size - world.groups[pod.namespace, pod.group].with_cards
    for held in pod.later.sets:
        if left > 0 and not any(world.is_held(uuid, held.node) for uuid in held.cards):
            left -= 1
            yield held.cards
