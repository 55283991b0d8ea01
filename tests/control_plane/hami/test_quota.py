"""HAMi's own quota and the remap container: what HAMi counts for a pod that was injected."""

import time
from typing import Any

import pytest

from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

CORES = 250
"""Per cent of a GPU: an injected pod of two cards fits, and one card more does not."""
WATCHED_S = 3.0
"""After the start of a pod; HAMi's informer needs a small part of it."""
FORGETS = ("2.10.0", "init")
"""Positions of init containers without a GPU vanish in this release, and with them the cards of the pod."""
ONE = container(resources={"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}})


def limited(new_team: NewTeam, name: str) -> Team:
    """A team that may have 250 per cent of a GPU, once HAMi knows: it knew 90 before."""
    team = new_team(injection="enabled", quota=name)  # one of its own: HAMi may still count pods that have gone
    team.admin.create_namespaced_resource_quota(team.namespace, quota("90"))
    team.changed = True
    until(lambda: may_have_one_more(team) == 403, "HAMi's knowledge of the quota")
    team.admin.patch_namespaced_resource_quota("cores", team.namespace, quota(str(CORES)))
    until(lambda: may_have_one_more(team) == 201, "HAMi's knowledge of the larger quota")
    return team


def quota(cores: str) -> Any:
    return {"metadata": {"name": "cores"}, "spec": {"hard": {"limits.nvidia.com/gpucores": cores}}}


def may_have_one_more(team: Team) -> int:
    """What HAMi's webhook says to one more whole card."""
    return team.asks_for(pod("more", ONE), dry_run=True).status


@pytest.mark.usefixtures("registration")
@pytest.mark.parametrize("carrier", ["binding", "sidecar", "init", "auto"])
def test_hami_counts_the_cards_of_an_injected_pod_before_and_after_its_start(
    release: str, new_team: NewTeam, carrier: str
) -> None:
    team = limited(new_team, carrier)
    team.creates(pod("train", container(gpus=2), annotations={"remap": carrier}))
    team.bound("train")
    assert may_have_one_more(team) == 403
    team.started("train")
    if (release, carrier) == FORGETS:
        until(lambda: may_have_one_more(team) == 201, "HAMi's loss of the cards")
    else:
        end = time.monotonic() + WATCHED_S
        while time.monotonic() < end:
            assert may_have_one_more(team) == 403
