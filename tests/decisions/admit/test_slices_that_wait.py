"""``placement.slices: on``: pods with slices or a single card that are not injected wait for the planner."""

from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import Manifest, container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Outcome, Reason

PLANNER = msgspec.structs.replace(HAMI_2_9, has_planner=True)
GATE = [{"name": "gpu.topology/place"}]


def asking(count: int = 1, **limits: int) -> Manifest:
    """A container with parts of so many cards; without limits whole ones."""
    asked = {"nvidia.com/gpu": count, **{f"nvidia.com/{name}": value for name, value in limits.items()}}
    found: Manifest = container(resources={"limits": asked})
    return found


SLICE = asking(2, gpumem=3000)


def decided(
    manifest: Manifest,
    *,
    slices: str = "on",
    mode: str = "on",
    namespace: Namespace = TEAM_A,
    cluster: ClusterFacts = PLANNER,
) -> tuple[Outcome, Manifest]:
    return judge(manifest, namespace, cluster, policy(placement={"mode": mode, "slices": slices}))


def waits(manifest: Manifest, **how: Any) -> bool:
    """Whether the pod gets gate and label, and nothing else."""
    _, after = decided(manifest, **how)
    gates, label = after["spec"].get("schedulingGates"), after["metadata"].get("labels", {})
    found: bool = gates == GATE and label.get("gpu.topology/placement") == "waiting"
    rest = {key: value for key, value in after["spec"].items() if key != "schedulingGates"}
    assert rest == manifest["spec"]
    assert found or (gates is None and "gpu.topology/placement" not in label)
    return found


@pytest.mark.parametrize(
    "found",
    [SLICE, asking(1, gpumem=3000), asking(2, gpucores=30), asking(1, **{"gpumem-percentage": 50}), asking(1)],
    ids=["memory", "one", "cores", "percentage", "single-card"],
)
@pytest.mark.parametrize("mode", ["on", "on-request"])
def test_they_wait_and_keep_all_else(found: Manifest, mode: str) -> None:
    assert waits(pod(found), mode=mode)


def test_the_reason_is_as_without_it() -> None:
    outcome, _ = decided(pod(SLICE))
    assert (outcome.kind, outcome.reason, outcome.profile) == (Kind.PATCH, Reason.VGPU_SLICE, "")
    outcome, _ = decided(pod(SLICE), slices="observe")
    assert (outcome.kind, outcome.reason) == (Kind.SKIP, Reason.VGPU_SLICE)


def test_a_second_review_changes_nothing() -> None:
    _, after = decided(pod(SLICE))
    outcome, again = decided(after)
    assert (outcome.kind, again) == (Kind.SKIP, after)


@pytest.mark.parametrize(
    "how",
    [
        {"slices": "off"},
        {"slices": "observe"},
        {"mode": "observe"},
        {"mode": "off"},
        {"cluster": HAMI_2_9},
        {"namespace": Namespace("team-b", {}, {})},
        {"namespace": team_a({"gpu.topology/place": "off"})},
    ],
    ids=["off", "observe", "mode-observe", "mode-off", "no-planner", "not-opted-in", "place-off"],
)
def test_they_go_to_hami_at_once_where_nothing_chooses(how: dict[str, Any]) -> None:
    assert not waits(pod(SLICE), **how)


@pytest.mark.parametrize(
    "manifest",
    [
        pod(SLICE, container("other", 1)),
        pod(asking(2, gpumem=3000), labels={"gpu.topology/injection": "disabled"}),
        pod(SLICE, annotations={"gpu.topology/inject": "false"}),
        pod(SLICE, annotations={"nvidia.com/use-gpuuuid": "GPU-1"}),
        pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "mutex"}),
        pod(SLICE, annotations={"gpu.topology/place": "off"}),
        pod(container("main", None)),
        pod(container(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}})),
    ],
    ids=["two-containers", "label", "opted-out", "own-list", "mutex", "place-off", "no-gpu", "mig"],
)
def test_a_pod_that_hami_would_not_follow_or_that_said_no_goes_at_once(manifest: Manifest) -> None:
    assert not waits(manifest)


def test_several_whole_cards_that_the_namespace_does_not_inject_go_at_once() -> None:
    assert not waits(pod(asking(2)), namespace=team_a({"gpu.topology/inject": "false"}))


@pytest.mark.parametrize(
    "how",
    [
        {"manifest": pod(SLICE, annotations={"gpu.topology/place-wait": "soon"})},
        {"manifest": pod(SLICE), "namespace": team_a({"gpu.topology/place-wait": "soon"})},
    ],
    ids=["pod", "namespace"],
)
def test_an_option_that_does_not_parse_refuses_no_pod_that_is_not_injected(how: dict[str, Any]) -> None:
    without, _ = decided(**how, slices="off")
    outcome, _ = decided(**how)
    assert (outcome.kind, outcome.reason, outcome.warnings) == (without.kind, without.reason, without.warnings)
    assert outcome.kind is Kind.SKIP
