"""A tenant whose pods cannot be written, with the real HAMi: the pods of others get their cards all the same."""

from typing import Any

import pytest

from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import is_gated, pinned, placed_as, train
from tests.control_plane.hami.team import Team, annotations_of
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

FULL_PODS = 20
"""Pods whose first tries alone take longer, one after the other, than a pod waits for cards."""
MOST_BYTES = 256 * 1024
"""Of all annotations of an object (k8s.io/apimachinery, pkg/api/validation, TotalAnnotationSizeLimitB)."""
FILLING = "example.com/filling"


def padded(name: str, size: int) -> dict[str, Any]:
    pod = train(name)
    pod["metadata"].setdefault("annotations", {})[FILLING] = "x" * size
    return pod


def test_pods_whose_changes_are_refused_keep_no_cards_from_the_pods_of_others(team: Team, new_team: NewTeam) -> None:
    """Their annotations are so long that the API server takes no more, and so no choice of cards."""
    stored = annotations_of(team.asks_for(padded("probe", 0), dry_run=True).body)
    room = MOST_BYTES - sum(len(key.encode()) + len(value.encode()) for key, value in stored.items())
    for number in range(FULL_PODS):
        assert is_gated(team.creates(padded(f"full-{number}", room)))
    other = new_team(injection="enabled")
    for _ in range(3):
        other.creates(train())
        assert len(pinned(other.bound("train"))) == 2
        other.deletes("train")
    until(placed_as(team, "full-0", "ChangeRefused"), "a word about the change")
    assert not any(pinned(team.pod(f"full-{number}")) for number in range(FULL_PODS))
