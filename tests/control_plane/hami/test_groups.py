"""Groups with the real HAMi: while all of their pods wait, all get cards or none does, whatever comes in between."""

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20
from tests.control_plane.hami.placed import is_gated
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of, cards_of
from tests.control_plane.manifests import request
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

USE = "nvidia.com/use-gpuuuid"
SHAPES = ({"one": 2, "two": 1, "four": 4}, {"one": 2, "two": 2, "four": 4})
MOST_SECONDS = 0.05
"""Longest time between the creations of two pods: about what a write of the planner takes."""


@dataclass(frozen=True)
class Moment:
    """What is written on the pods of a group at one moment."""

    pinned: frozenset[str]
    """The names of those with cards."""
    gated: frozenset[str]
    """The names of those behind the gate."""


def member(name: str, cards: int, size: int, *, denies: bool) -> dict[str, Any]:
    options = {"inject": "true", "group-size": str(size), "on-violation": "deny" if denies else "warn"}
    written = pod(name, container(gpus=cards), node=H20, annotations=options)
    written["metadata"]["labels"] = {"gpu.topology/group": "ring"}
    return written


def creates(team: Team, shape: Mapping[str, int], chance: random.Random, *, denies: bool = True) -> None:
    """The pods of a group, one shortly after the other, in any order."""
    for name, cards in chance.sample(sorted(shape.items()), len(shape)):
        assert is_gated(team.creates(member(name, cards, len(shape), denies=denies)))
        time.sleep(chance.uniform(0, MOST_SECONDS))


def version(team: Team) -> str:
    """The version of all pods of the namespace."""
    answer: Any = team.admin.list_namespaced_pod(team.namespace, _preload_content=False)
    found: str = json.loads(answer.data)["metadata"]["resourceVersion"]
    return found


def history(team: Team, since: str, names: Mapping[str, int]) -> list[Moment]:
    """What stood on these pods after each write since that version, in the order of the API server."""
    wanted = {name: team.pod(name)["metadata"]["resourceVersion"] for name in names}
    path = f"/api/v1/namespaces/{team.namespace}/pods?watch=1&timeoutSeconds=1&resourceVersion={since}"
    events: list[dict[str, Any]] = []

    def are_all_there() -> bool:
        events[:] = map(json.loads, request(team.control_plane, "GET", path).text.splitlines())
        found = {event["object"]["metadata"]["name"]: event["object"]["metadata"] for event in events}
        return all(found.get(name, {}).get("resourceVersion") == last for name, last in wanted.items())

    until(are_all_there, "the writes up to now")
    present: dict[str, dict[str, Any]] = {}
    found: list[Moment] = []
    for event in events:
        name = event["object"]["metadata"]["name"]
        if name in names:
            present[name] = event["object"]
            if event["type"] == "DELETED":
                del present[name]
            found.append(moment(present))
    return found


def moment(pods: Mapping[str, dict[str, Any]]) -> Moment:
    return Moment(
        pinned=frozenset(name for name, each in pods.items() if annotations_of(each).get(USE)),
        gated=frozenset(name for name, each in pods.items() if is_gated(each)),
    )


@pytest.mark.parametrize("denies", [True, False])
def test_all_pods_of_a_group_have_cards_before_the_first_gate_opens(team: Team, release: str, *, denies: bool) -> None:
    chance = random.Random(f"{release} {denies}")
    since = version(team)
    creates(team, SHAPES[0], chance, denies=denies)
    bound = {name: team.bound(name) for name in SHAPES[0]}
    seen = history(team, since, SHAPES[0])
    whole = frozenset(SHAPES[0])
    complete = [at for at in seen if at.pinned or at.gated != whole]
    first_open = next(number for number, at in enumerate(complete) if at.gated != whole and at.pinned)
    assert complete[first_open].pinned == whole
    assert all(at.pinned == whole for at in complete[first_open:])
    cards = [card for each in bound.values() for given in cards_of(each) for card in given]
    assert len(cards) == len(set(cards)) == sum(SHAPES[0].values())
