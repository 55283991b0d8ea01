"""Pods for the node whose cards are linked in pairs, and what the planner and HAMi make of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.control_plane.hami.cluster import BRIDGED, topologies
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.programs.server.conftest import until

UUIDS = [gpu.uuid for gpu in topologies()[1].gpus]
"""Bridges join the first two, and the last two."""
DENY = {"require-nvlink": "true", "on-violation": "deny"}


def train(
    name: str = "train", *, gpus: int = 2, options: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod of whole cards of the bridged node."""
    return pod(name, container(gpus=gpus), node=BRIDGED, annotations=options, **spec)


def slice_of(card: int) -> dict[str, Any]:
    """A pod with a part of that card, which placement leaves alone."""
    part = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
    return pod(f"slice-{card}", container(resources=part), node=BRIDGED, annotations=own_list(card))


def own_list(*cards: int) -> dict[str, str]:
    """A user's own choice."""
    return {"nvidia.com/use-gpuuuid": ",".join(UUIDS[card] for card in cards)}


def given(bound: Mapping[str, Any]) -> list[int]:
    """The indices of the cards that HAMi gave."""
    return sorted(UUIDS.index(card) for cards in cards_of(bound) for card in cards)


def pinned(stored: Mapping[str, Any]) -> list[int]:
    """The indices of the cards that the pod may get; empty: any."""
    text = annotations_of(stored).get("nvidia.com/use-gpuuuid", "")
    return sorted(UUIDS.index(card) for card in text.split(",") if card)


def choice(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What the planner says that it chose."""
    found: dict[str, Any] = json.loads(annotations_of(stored)["gpu.topology/placed"])
    return found


def label(stored: Mapping[str, Any]) -> str:
    """How far the placement is."""
    return str(stored["metadata"].get("labels", {}).get("gpu.topology/placement", ""))


def is_gated(stored: Mapping[str, Any]) -> bool:
    """Whether the pod waits for its cards."""
    return any(gate["name"] == "gpu.topology/place" for gate in stored["spec"].get("schedulingGates", ()))


def reason(stored: Mapping[str, Any]) -> str:
    """What the planner says of the pod; empty: nothing."""
    conditions = stored.get("status", {}).get("conditions", ())
    return next((each["reason"] for each in conditions if each["type"] == "gpu.topology/Placed"), "")


def placed_as(team: Team, name: str, wanted: str) -> Callable[[], bool]:
    """Whether the planner says that of the pod."""
    return lambda: reason(team.pod(name)) == wanted


def has_label(team: Team, name: str, wanted: str) -> Callable[[], bool]:
    """Whether the placement of the pod is so far."""
    return lambda: label(team.pod(name)) == wanted


def is_refused(stored: Mapping[str, Any]) -> bool:
    """Whether the scheduler found no node for the pod."""
    conditions = stored.get("status", {}).get("conditions", ())
    return any((each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable") for each in conditions)


def waits_for_a_pair(team: Team, name: str, why: str = "RequirementNotMet") -> None:
    """A pod that denies, of which the planner says that it waits, for this reason."""
    team.creates(train(name, options=DENY))
    until(placed_as(team, name, why), f"{name} waits for a pair")


def splits_both_pairs(team: Team) -> None:
    """One card of each pair is in use."""
    for card in (1, 3):
        team.creates(slice_of(card))
        team.bound(f"slice-{card}")
