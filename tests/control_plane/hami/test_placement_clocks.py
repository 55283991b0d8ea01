"""Clocks of planners and webhooks that are minutes apart: one leads, no gate is opened early, no pod waits for ever."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoordinationV1Api

from tests.clock.shifted import shifted, shifted_clock
from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import (
    choice,
    given,
    is_gated,
    placed_as,
    splits_both_pairs,
    train,
    waits_for_a_pair,
)
from tests.control_plane.hami.planning import Planner, holds_pods_back, lets_pods_go, running_planner
from tests.control_plane.hami.team import Team
from tests.control_plane.installation import NAMESPACE, PLACEMENT, Installation
from tests.programs.server.conftest import until
from webhook.programs.server.gates import ROUND_SECONDS
from webhook.words.names import PLANNER_LEASE

__all__ = ["shifted_clock"]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.usefixtures("registration"),
    # No release of HAMi has a part in it.
    pytest.mark.parametrize("release", ["2.10.0"], indirect=True),
]

MINUTES = 420
"""Seconds: more than all times of placement in these tests together, and less than certificates are dated back."""


@pytest.fixture
def replicas(cluster: Cluster, shifted_clock: Path, webhooks_ahead: int) -> Iterator[Installation]:
    """Both replicas of the webhook with clocks that are so many seconds ahead."""
    ours = cluster.ours
    try:
        for number in (0, 1):
            ours.kill(number)
            ours.start(number, shifted(shifted_clock, webhooks_ahead))
        yield ours
    finally:
        ours.stop()
        ours.learn()
        # A planner that was killed counts as alive by a Lease of the future, as long as the Lease lasts.
        until(lambda: lets_pods_go(ours), "pods that wait for no planner")


@pytest.fixture
def team(replicas: Installation, new_team: NewTeam) -> Team:  # noqa: ARG001 - stay until its pods are gone
    return new_team(injection="enabled")


def leader_clock(cluster: Cluster) -> float:
    """By how many seconds the clock of the leader is ahead, as its Lease tells."""
    with cluster.control_plane.client() as client:
        lease: Any = CoordinationV1Api(client).read_namespaced_lease(PLANNER_LEASE, NAMESPACE)
    ahead: float = (lease.spec.renew_time - datetime.now(UTC)).total_seconds()
    return ahead


def choices(planner: Planner) -> list[str]:
    """The names of the pods for which a planner chose cards, each as often as it did."""
    lines = planner.program.log.read_text(encoding="utf-8").splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
    return sorted(one["name"] for one in said if one.get("result") in ("pinned", "repinned"))


def created_later(team: Team, first: str, manifest: dict[str, Any]) -> None:
    """Create a pod in a later second than the first: a leader that begins anew knows of their order nothing else."""
    at = datetime.fromisoformat(team.pod(first)["metadata"]["creationTimestamp"])
    until(lambda: (datetime.now(UTC) - at).total_seconds() > 1, "the next second")
    team.creates(manifest)


@pytest.mark.parametrize("webhooks_ahead", [MINUTES])
def test_a_leader_whose_clock_is_behind_leads_alone_and_no_gate_is_opened_early(
    cluster: Cluster, replicas: Installation, team: Team, shifted_clock: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:

        def start(name: str, seconds: int) -> Planner:
            environment = shifted(shifted_clock, seconds)
            return stack.enter_context(running_planner(replicas, tmp_path, name, environment=environment))

        first = start("ahead", MINUTES)
        first.program.wait_until(first.leads)
        second = start("behind", -MINUTES)
        assert first.leads()
        assert not second.leads()
        assert leader_clock(cluster) == pytest.approx(MINUTES, abs=60)
        until(lambda: holds_pods_back(replicas), "pods that wait for the planner")
        splits_both_pairs(team)
        waits_for_a_pair(team, "denies")
        created_later(team, "denies", train("warns", options={"place-wait": "1h"}))
        until(placed_as(team, "warns", "BetterLater"), "a pod that waits for better cards")
        created = time.monotonic()
        first.kill()
        while time.monotonic() - created < PLACEMENT["releaseSeconds"] + ROUND_SECONDS[1]:
            assert is_gated(team.pod("warns"))
            time.sleep(1)
        assert second.leads()
        assert leader_clock(cluster) == pytest.approx(-MINUTES, abs=60)
        team.deletes("slice-1")
        assert given(team.bound("denies")) == [0, 1]
        assert choice(team.pod("denies"))["attempt"] == 1
        assert (choices(first), choices(second)) == ([], ["denies"])
        assert is_gated(team.pod("warns"))
        team.ends()


@pytest.mark.parametrize("webhooks_ahead", [-MINUTES])
def test_after_a_leader_whose_clock_was_ahead_no_pod_waits_for_ever(
    cluster: Cluster, replicas: Installation, team: Team, shifted_clock: Path, tmp_path: Path
) -> None:
    ahead = shifted(shifted_clock, MINUTES)
    with running_planner(replicas, tmp_path, "ahead", environment=ahead) as planner:
        planner.program.wait_until(planner.leads)
        until(lambda: holds_pods_back(replicas), "pods that wait for the planner")
        assert leader_clock(cluster) == pytest.approx(MINUTES, abs=60)
        splits_both_pairs(team)
        team.creates(train("warns", options={"place-wait": "1h"}))
        until(placed_as(team, "warns", "BetterLater"), "a pod that waits for better cards")
        planner.kill()
    team.told("warns", "GT680")
    assert not is_gated(team.pod("warns"))
    assert lets_pods_go(replicas)
