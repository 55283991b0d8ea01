"""The mode ``observe``: the planner's choice for a pod, compared with the cards that HAMi chose."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.decisions.place.choice import Chosen, grade_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import wanted_of
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import NotPlaceable, Scene
from webhook.decisions.place.world import PlaceNode
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.planning.fleet import Grade
from webhook.hardware.topology.selection.score import LINK_VALUES
from webhook.hardware.topology.sets import GpuSet, assess
from webhook.objects.binding import PodEvent
from webhook.words.catalogue import waiting as said


def compare(scene: Scene, before: PodRecord, after: PodRecord) -> Iterator[Write]:
    """Yields a write that says whether better cards were free when a pod got its cards.

    It yields nothing where the cards have no pairs or are not known.

    Args:
        scene: The world, the memory and the configuration; the pod is in the world with its cards.
        before: The pod without a node.
        after: The pod with it.
    """
    found = judge(scene, before, after)
    if found is None:
        return
    better = found.better
    lost = max(0.0, better.choice.chosen.bandwidth - found.given.bandwidth) if better else 0.0
    yield _write(after, found.node, found.given, better, lost)


class Judged(NamedTuple):
    """The cards of a pod, compared with the best free ones."""

    node: PlaceNode
    given: GpuSet
    better: Chosen | None
    """Better cards that are free; None if there are none."""


def judge(scene: Scene, before: PodRecord, after: PodRecord) -> Judged | None:
    """Compares the cards of a pod with the best free ones; None where they have no pairs or are not known.

    Args:
        scene: The world, the memory and the configuration; the pod is in the world with its cards.
        before: The pod without a node.
        after: The pod with it.
    """
    given = _given(scene, after)
    try:
        asked = scene.asked(before)
    except NotPlaceable:
        return None
    if given is None or not asked.cards.linked:
        return None
    node, gpu_set = given
    with scene.world.without(after):
        chosen = scene.chooser.best(before, asked.cards)
    if chosen and wanted_of(grade_of(chosen, asked.cards), asked.cards) > wanted_of(_grade(gpu_set), asked.cards):
        return Judged(node, gpu_set, chosen)
    return Judged(node, gpu_set, None)


def _given(scene: Scene, pod: PodRecord) -> tuple[PlaceNode, GpuSet] | None:
    """Returns the node and the set of the cards that HAMi gave; None if they are not known."""
    node = scene.world.node_with(pod.held)
    if node is None or node.build is None:
        return None
    index_of = {uuid: index for index, uuid in node.uuids.items()}
    return node, assess(node.build.topology, [index_of[uuid] for uuid in pod.held], node.build.connections)


def _grade(gpu_set: GpuSet) -> Grade:
    return LINK_VALUES[gpu_set.link], round(gpu_set.bandwidth, 3)


def _write(pod: PodRecord, node: PlaceNode, given: GpuSet, better: Chosen | None, lost: float) -> Write:
    reason = PlaceReason.BETTER_CARDS_WERE_FREE if better else PlaceReason.BEST_CARDS_GIVEN
    log: dict[str, str | int | float] = {
        "reason": reason,
        "node": node.name,
        "cards": card_labels(given.gpus),
        "link": given.link,
        "bandwidth": round(given.bandwidth, 1),
        "lost": round(lost, 1),
    }
    event = None
    if better:
        best = better.choice.chosen
        message = said.BETTER_CARDS_WERE_FREE.say(
            given=card_labels(given.gpus),
            given_node=node.name,
            given_link=link_of(given),
            cards=card_labels(best.gpus),
            node=better.node.name,
            link=link_of(best),
        )
        log["text"] = str(message)
        event = PodEvent(reason, message.advice)
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        event=event,
        result="better-possible" if better else "same",
        given_up=lost,
        log=log,
    )


def card_labels(gpus: tuple[int, ...]) -> str:
    """Returns the labels of GPUs: ``GPU0, GPU1``."""
    return ", ".join(f"GPU{index}" for index in gpus)


def link_of(gpu_set: GpuSet) -> str:
    """Returns the link class and bandwidth of a set: ``NVLink, 200 GB/s``."""
    return f"{gpu_set.link}, {gpu_set.bandwidth:.4g} GB/s"
