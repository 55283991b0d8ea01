"""Karpenter and pods that wait for the planner: what it sees of them, and what a machine must offer."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.karpenter import RESOURCES, WORDS, Karpenter, running_karpenter
from tests.control_plane.hami.placed import DENY, is_gated, is_refused, placed_as
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team
from tests.go_programs.build import sources
from tests.go_programs.catalogue import KARPENTER
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import until

# Karpenter sees nothing of HAMi but the resources of pods, so one release will do.
pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("release", ["2.10.0"]), pytest.mark.long]

NO_MACHINE = "no instance type has enough resources"


@pytest.fixture
def karpenter(
    request: pytest.FixtureRequest, cluster: Cluster, go_program: GetProgram, tmp_path: Path
) -> Iterator[Karpenter]:
    """Karpenter, with machines that have the resources of the test."""
    plane, program = cluster.control_plane, go_program(KARPENTER)
    with running_karpenter(plane, program, sources(KARPENTER, os.environ), tmp_path, request.param) as karpenter:
        yield karpenter


def wants_all_cards(name: str, options: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod of eight cards, which no node has free."""
    return pod(name, container(gpus=8), annotations=options)


def takes_a_card(team: Team) -> None:
    """So that no node has eight free cards."""
    part = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}}
    team.creates(pod("slice", container(resources=part), node=H20))
    team.bound("slice")


def is_let_go(team: Team, name: str) -> None:
    """It waited for cards in vain, and the scheduler has refused it."""
    until(placed_as(team, name, "Released"), "a pod that is let go")
    until(lambda: is_refused(team.pod(name)), "a pod that no node can take")


@pytest.mark.parametrize("karpenter", [RESOURCES | WORDS], indirect=True)
def test_karpenter_asks_for_a_machine_for_a_pod_that_was_let_go_and_for_none_that_waits(
    karpenter: Karpenter, team: Team
) -> None:
    takes_a_card(team)
    team.creates(wants_all_cards("denies", DENY))
    until(placed_as(team, "denies", "NoFreeCards"), "a pod that waits for cards")
    team.creates(wants_all_cards("warns"))
    is_let_go(team, "warns")
    until(lambda: bool(karpenter.claims()), "a machine")
    (claim,) = karpenter.claims()
    assert claim["spec"]["resources"]["requests"]["nvidia.com/gpu"] == "8"
    assert is_gated(team.pod("denies"))


@pytest.mark.parametrize("karpenter", [RESOURCES], indirect=True)
def test_karpenter_finds_no_machine_where_none_offers_what_hami_counts_beside_cards(
    karpenter: Karpenter, team: Team
) -> None:
    takes_a_card(team)
    team.creates(wants_all_cards("warns"))
    is_let_go(team, "warns")
    assert "nvidia.com/gpucores" in team.told("warns", NO_MACHINE)
    assert karpenter.claims() == []
