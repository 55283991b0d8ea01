"""``on-violation: deny`` where HAMi chooses the cards: admission warns that a refused pod keeps them."""

from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import Manifest, container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.pod import Namespace

DENY = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
PLANNER = msgspec.structs.replace(HAMI_2_9, has_planner=True)
SAID = "GT656: with on-violation deny HAMi keeps the cards of a refused pod; "


def found(
    manifest: Manifest, mode: str = "on", cluster: ClusterFacts = HAMI_2_9, namespace: Namespace = TEAM_A
) -> list[str]:
    outcome, _ = judge(manifest, namespace, cluster, policy(placement={"mode": mode}))
    return [warning for warning in outcome.warnings if warning.startswith("GT656")]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("off", "placement is off in this cluster"),
        ("observe", "placement only observes in this cluster"),
        ("on", "no planner is alive"),
    ],
)
def test_where_no_planner_chooses_the_warning_says_why(mode: str, why: str) -> None:
    assert found(pod(annotations=DENY), mode) == [SAID + why]


def test_with_a_planner_there_is_none() -> None:
    assert found(pod(annotations=DENY), cluster=PLANNER) == []


@pytest.mark.parametrize(
    "annotations", [{}, {"gpu.topology/require-nvlink": "true"}, {"gpu.topology/on-violation": "deny"}]
)
def test_a_pod_that_bind_never_refuses_gets_none(annotations: dict[str, str]) -> None:
    assert found(pod(annotations=annotations)) == []


def test_a_requirement_of_the_namespace_counts() -> None:
    assert found(pod(), namespace=team_a(DENY)) == [SAID + "no planner is alive"]


def test_cards_of_volcano_are_no_matter_of_hami() -> None:
    asking: dict[str, Any] = container(gpus=None, resources={"limits": {"volcano.sh/vgpu-number": 2}})
    assert found(pod(asking, annotations=DENY)) == []


def test_each_option_that_only_the_planner_heeds_is_named() -> None:
    wishes = {"gpu.topology/max-nodes": "2", "gpu.topology/min-gpus-per-node": "4", "gpu.topology/group-size": "1"}
    outcome, _ = judge(pod(annotations=wishes))
    assert [warning.split()[1] for warning in outcome.warnings if warning.startswith("GT617")] == [
        "gpu.topology/max-nodes",
        "gpu.topology/min-gpus-per-node",
    ]
