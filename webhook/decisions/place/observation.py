"""The mode ``observe``: the planner's choice for a pod, compared with the cards that HAMi chose."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.decisions.place.card_request import asked_as_given
from webhook.decisions.place.choice import Chosen, grade_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import SINGLE_GRADE, grade, harm, wanted_of
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.round import NotPlaceable, Scene
from webhook.decisions.place.world import PlaceNode
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.planning.fleet import Grade
from webhook.hardware.topology.sets import LINK_VALUES, GpuSet, assess
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


def compare_parts(scene: Scene, pod: PodRecord) -> Iterator[Write]:
    """Yields a write that says whether other cards of its node were better for a pod that is not injected.

    They are better if they are better linked, or as well and cost other pods less. It yields nothing for pods of
    namespaces that have not opted in, for parts that differ or are of one card, and for cards that are not known.

    Args:
        scene: The world, the memory and the configuration; the pod is in the world with its cards.
        pod: A pod that has just got its node.
    """
    asked = asked_as_given(pod, scene.settings.objective) if scene.has_opted_in(pod) else None
    given = _given(scene, pod) if asked else None
    if asked is None or given is None:
        return
    node, gpu_set = given
    with scene.world.without(pod):
        best = scene.chooser.best_of_node(node.name, asked)
    if best is None:
        return
    least, harmed = harm(best.stock, best.choice.gpus), harm(best.stock, gpu_set.gpus)
    possible, got = grade(best.choice, asked), _grade(gpu_set) if asked.linked else SINGLE_GRADE
    is_better = (wanted_of(possible, asked), -least) > (wanted_of(got, asked), -harmed)
    lost = max(0.0, best.choice.chosen.bandwidth - gpu_set.bandwidth) if asked.linked else 0.0
    log: dict[str, str | int | float] = {
        "reason": PlaceReason.BETTER_CARDS_WERE_FREE if is_better else PlaceReason.BEST_CARDS_GIVEN,
        "node": node.name,
        "cards": card_labels(gpu_set.gpus),
        "link": gpu_set.link,
        "bandwidth": round(gpu_set.bandwidth, 1),
        "lost": round(lost, 1),
    }
    if is_better:
        message = said.BETTER_PARTS_HAD_ROOM.say(
            given=card_labels(gpu_set.gpus),
            node=node.name,
            given_link=_linked(gpu_set),
            harm=harmed,
            cards=card_labels(best.choice.gpus),
            link=_linked(best.choice.chosen),
            least=least,
        )
        log["text"] = str(message)
    result = "slices-better-possible" if is_better else "slices-same"
    yield Write(namespace=pod.namespace, name=pod.name, uid=pod.uid, result=result, given_up=lost, log=log)


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


def _linked(gpu_set: GpuSet) -> str:
    return link_of(gpu_set) if len(gpu_set.gpus) > 1 else "one card"


def link_of(gpu_set: GpuSet) -> str:
    """Returns the link class and bandwidth of a set: ``NVLink, 200 GB/s``."""
    return f"{gpu_set.link}, {gpu_set.bandwidth:.4g} GB/s"
