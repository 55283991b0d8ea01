"""Requirements on a machine whose only NVLinks are bridges of pairs: HAMi chooses the GPUs, we judge them."""

from typing import Any

import pytest

from tests.control_plane.hami.cluster import BRIDGED, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import annotations_of, cards_of

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]

UUIDS = [gpu.uuid for gpu in topologies()[1].gpus]
NO_LINK = "require-nvlink: GPU1 and GPU2 have 10.0 GB/s (SYS)"


def on_cards(name: str, *cards: int, **annotations: str) -> dict[str, Any]:
    """A pod that takes these cards of the node, and no others."""
    chosen = {"nvidia.com/use-gpuuuid": ",".join(UUIDS[card] for card in cards), **annotations}
    return pod(name, container(gpus=len(cards)), node=BRIDGED, annotations=chosen)


def has_a_pair(stored: dict[str, Any]) -> bool:
    cards = sorted(UUIDS.index(card) for card in cards_of(stored)[0])
    return cards in ([0, 1], [2, 3])


def test_the_denied_pod_waits_for_its_pair_and_gets_it_when_others_leave(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    for card in (0, 3):
        team.creates(on_cards(f"other-{card}", card))
        team.bound(f"other-{card}")
    wanted = pod(
        "train", container(gpus=2), node=BRIDGED, annotations={"require-nvlink": "true", "on-violation": "deny"}
    )
    team.creates(wanted)
    # HAMi tells it with its own words around ours, each time that it tries.
    assert NO_LINK in team.told("train", "denied the request")
    assert "nodeName" not in team.pod("train")["spec"]
    for card in (0, 3):
        team.deletes(f"other-{card}")
    bound = team.bound("train")
    assert has_a_pair(bound)
    annotations = annotations_of(bound)
    assert (annotations["gpu.topology/satisfied"], annotations["gpu.topology/link"]) == ("true", "NVLink")


@pytest.mark.long
@pytest.mark.parametrize("deny", [True, False], ids=["deny", "nothing-required"])
def test_a_denied_pod_is_not_bound_and_the_same_pod_without_the_wish_is(new_team: NewTeam, *, deny: bool) -> None:
    team = new_team(injection="enabled")
    wish = {"require-nvlink": "true", "on-violation": "deny"} if deny else {}
    team.creates(on_cards("train", 1, 2, **wish))
    if deny:
        team.told("train", "denied the request")
        assert "nodeName" not in team.pod("train")["spec"]
    else:
        assert team.bound("train")["spec"]["nodeName"] == BRIDGED
